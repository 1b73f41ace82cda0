/* Ctrl-C, for Lua and for C.
 *
 * The signal handler sets the flag of the core, which every long loop in C polls, and a hook on
 * every running Lua state: the main state and all coroutines that are active or have resumed
 * another. The hook raises "interrupted" at each instruction until fopo_interrupt_done(), so
 * neither pcall nor a coroutine can swallow it. This module replaces coroutine.resume, wrap and
 * close, to know the running states, debug.sethook, so that a script cannot remove the hook, and
 * what runs where no hook does: xpcall for its message handlers and setmetatable for finalisers.
 *
 * A function of Lua's own library runs to its end: string.find with a pattern that backtracks, or
 * table.move of a billion places. The interruption is raised when it returns. If it does not return
 * within a second, the next Ctrl-C says so and the one after it ends the process. */
#ifndef FOPO_TERM_INTERRUPT_H
#define FOPO_TERM_INTERRUPT_H

#include <lua.h>

/* Call once, after the standard libraries of the main state L were opened. SIGINT stays ignored if
 * it was ignored at the start (nohup). */
void fopo_interrupt_install(lua_State *L);

/* For Lua, atomic(f): a function that calls f so that Ctrl-C cannot interrupt it half-way. Long
 * loops in C that f calls still stop, with an error; "interrupted" is raised after the call. It is
 * a C function because the hook would stop a Lua function at its first instruction. */
int fopo_interrupt_atomic(lua_State *L);

/* For Lua, divisible(f): the opposite, for a user's function that an atomic function calls. */
int fopo_interrupt_divisible(lua_State *L);

/* For signal handlers: interrupts what runs, as Ctrl-C does. On any thread but the main one it
 * sends the signal `number` to that and returns 0. */
int fopo_interrupt_by_signal(int number);

/* The state whose function runs now, for C that calls Lua from inside its loops; NULL: on another
 * thread than the main one. */
lua_State *fopo_interrupt_running(void);

/* Call after the interruption was handled: clears the flag and restores the user's hook. */
void fopo_interrupt_done(void);

/* Call before the main state is closed: from then on Ctrl-C ends the process. */
void fopo_interrupt_uninstall(void);

#endif
