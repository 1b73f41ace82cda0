/* Ctrl-C, for Lua and for C.
 *
 * The handler sets the core's flag, which every long loop in C polls, and a hook on every Lua state
 * that is running: the main one and the coroutines below the current one. The hook raises
 * "interrupted" at each instruction until fopo_interrupt_done(), so neither pcall nor a coroutine
 * can swallow it. To know what is running, coroutine.resume, wrap and close are the host's own;
 * debug.sethook goes through the host, so that it cannot take the hook off.
 *
 * A process that does not answer for a second (a pattern match without end, a finaliser) says so at
 * the next Ctrl-C, and ends at the one after. */
#ifndef FOPO_TERM_INTERRUPT_H
#define FOPO_TERM_INTERRUPT_H

#include <lua.h>

/* Once, when the standard libraries of the main state L are open. SIGINT is left alone where it was
 * ignored from the start (nohup). */
void fopo_interrupt_install(lua_State *L);

/* For Lua, atomic(f): a function that calls f, which Ctrl-C cannot leave half done. The long loops
 * of C that f calls still stop, with an error of theirs; "interrupted" is raised behind the call.
 * Of C, because the hook would stop a function of Lua at its first instruction. */
int fopo_interrupt_atomic(lua_State *L);

/* divisible(f): the same, and Ctrl-C may leave it half done: a user's function that is called by
 * what is atomic. */
int fopo_interrupt_divisible(lua_State *L);

/* Back where Ctrl-C has been answered: clears the flag, gives the user's hook back. */
void fopo_interrupt_done(void);

/* Before the main state is closed: from then on Ctrl-C ends the process. */
void fopo_interrupt_uninstall(void);

#endif
