/* fopo: reads the options, starts Lua, runs a script or the prompt.
 *
 * Exit codes: 0; 1 a script failed; 2 the command line is wrong; 130 interrupted. All code that may
 * raise a Lua error runs inside one protected call. The only exit() of the program is in finish().
 */
#include <lauxlib.h>
#include <locale.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bind/bind.h"
#include "comm/comm.h"
#include "comm/watch.h"
#include "core/matrix.h"
#include "core/memory.h"
#include "core/platform.h"
#include "core/progress.h"
#include "core/status.h"
#include "core/threads.h"
#include "device/device.h"
#include "kernels/alike.h"
#include "kernels/kernels.h"
#include "term/chunk.h"
#include "term/endings.h"
#include "term/interrupt.h"
#include "term/progress.h"
#include "term/prompt.h"
#include "term/safe.h"

enum { DONE = 0, FAILED = 1, MISUSED = 2, INTERRUPTED = 130 };
enum { SAFE_SECONDS = 600 }; /* of --safe, unless --max-seconds says another number */

static const char usage[] =
    "usage: fopo [options] [script.lua [arguments]]\n"
    "\n"
    "  script.lua   run it; its arguments are ... and the table arg\n"
    "  -            run standard input\n"
    "  (no script)  the prompt at a terminal, else run standard input\n"
    "\n"
    "  -e code      run code first (may be repeated); fopo's modules are globals there\n"
    "  -i           start the prompt after the script\n"
    "  --no-init    start the prompt without ~/.config/fopo/init.lua\n"
    "  --checkpoint FILE  runs keep their state there, every 10 minutes and when a signal ends "
    "them\n"
    "  --safe       a script that nobody has read: files of this folder, no program, no network\n"
    "  --read PATH  with --safe: it reads this file or folder too (may be repeated)\n"
    "  --without-border   with --safe: go on where the kernel cannot hold a script\n"
    "  --max-seconds N    the script ends after so long; 0: never; with --safe 600\n"
    "  --max-memory SIZE  the most for Lua and fopo's objects: 500M, 2G; with --safe half of what "
    "is "
    "free\n"
    "  --json       runs print each record as a JSON object on a line\n"
    "  -v           print the version, the kernels and the device\n"
    "  -h           print this\n"
    "  --           end of the options\n"
    "\n"
    "mpirun -n 4 fopo script.lua runs it on 4 processes; help(fopo.ranks) says how.\n"
    "At the prompt help() lists the first steps, fopo.demo() the lessons; man fopo says the rest.\n"
    "Environment: FOPO_THREADS, FOPO_ISA (%s), FOPO_HISTORY, FOPO_THEME (dark, light), NO_COLOR.\n";

typedef struct {
  int argc;
  char **argv;
  const char **codes; /* [n_codes] of -e; owned by main */
  int n_codes;
  const char **reads; /* [border.n_reads] of --read; owned by main */
  int script;         /* its index in argv, "-" included; 0: none */
  int prompt;         /* -i */
  int version;        /* -v */
  int init;           /* 0 with --no-init */
  int safe;           /* --safe */
  fopo_safe border;   /* what it allows; the paths of --read are owned by main */
  double seconds;     /* of --max-seconds; 0: no limit */
  uint64_t memory;    /* bytes of --max-memory; 0: no limit */
  int status;         /* out: the exit code */
} job;

/* ---- changes to the standard libraries ---- */

/* Lets the jobs write their checkpoints, if a signal ends the program. */
static void save_jobs(lua_State *L) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  if (lua_getfield(L, -1, "fopo.run.job") != LUA_TTABLE) return;
  fopo_ending_begin_save();
  lua_getfield(L, -1, "save_all");
  if (lua_pcall(L, 0, 0, 0) != LUA_OK) fprintf(stderr, "fopo: %s\n", lua_tostring(L, -1));
  fopo_ending_end_save();
}

/* Closes everything and ends the process. Finalisers run, so files are complete; those of a script
 * are its code, so the limit of time holds for them too. Output that could not be written is an
 * error. */
static void finish(lua_State *L, int status) {
  if (fopo_ending()) {
    fopo_endings_limit(0);
    save_jobs(L);
  }
  fopo_interrupt_uninstall();
  lua_close(L);
  fopo_endings_limit(0);
  if (fopo_ending()) status = 128 + fopo_ending();
  if (fopo_ending_by_limit()) {
    fputs("fopo: the time of --max-seconds is over, which has ended the script\n", stderr);
  }
  fopo_progress_bar(0);
  if (status != DONE) fopo_comm_abort(status); /* the others may wait for this rank */
  fopo_comm_close();
  if ((fflush(stdout) != 0 || ferror(stdout)) && status == DONE) {
    fputs("fopo: standard output could not be written; everything else was done\n", stderr);
    status = FAILED;
  }
  exit(status);
}

/* os.exit([code]): true or nothing 0, false 1. */
static int os_exit(lua_State *L) {
  int status = lua_isboolean(L, 1) ? !lua_toboolean(L, 1) : (int)luaL_optinteger(L, 1, 0);
  finish(L, status);
  return 0;
}

/* os.setlocale: only "ctype" can be changed. Another format of numbers would make files unreadable.
 */
static int os_setlocale(lua_State *L) {
  const char *name = luaL_optstring(L, 1, NULL), *category = luaL_optstring(L, 2, "all");
  if (name != NULL && strcmp(category, "ctype") != 0) return 0;
  lua_pushstring(L, setlocale(LC_CTYPE, name));
  return 1;
}

static void open_libraries(lua_State *L) {
  static const luaL_Reg os_own[] = {{"exit", os_exit}, {"setlocale", os_setlocale}, {NULL, NULL}};
  luaL_openlibs(L);
  lua_getglobal(L, "os");
  luaL_setfuncs(L, os_own, 0);
  lua_pop(L, 1);
  fopo_lua_open(L);
  fopo_interrupt_install(L);
  fopo_lua_seal(L);
}

/* Begins what --safe, --max-seconds and --max-memory say. */
static void set_limits(lua_State *L, const job *j) {
  if (j->safe) fopo_lua_safe(L);
  if (j->memory > 0) fopo_lua_limit(L, j->memory);
  if (j->seconds > 0) fopo_endings_limit(j->seconds);
  if (j->safe && fopo_safe_close(&j->border, j->memory) != FOPO_OK) {
    luaL_error(L, "%s", fopo_error_sentence());
  }
}

/* arg[0] is the script, arg[1] ... its arguments, arg[-1] ... the command line before it. */
static void set_arg(lua_State *L, const job *j) {
  lua_newtable(L);
  for (int i = 0; i < j->argc; i++) {
    lua_pushstring(L, j->argv[i]);
    lua_rawseti(L, -2, i - j->script);
  }
  lua_setglobal(L, "arg");
}

/* Makes fopo and its modules globals, except those whose name is taken. */
static int set_globals(lua_State *L) {
  fopo_chunk_require(L, "fopo");
  lua_pushvalue(L, -1);
  lua_setglobal(L, "fopo");
  lua_pushnil(L);
  while (lua_next(L, -2) != 0) {
    const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : NULL;
    if (name != NULL && lua_getglobal(L, name) == LUA_TNIL) {
      lua_pop(L, 1);
      lua_setglobal(L, name);
    } else {
      lua_settop(L, name != NULL ? -3 : -2);
    }
  }
  return 0;
}

/* ---- the parts of a job ---- */

/* ", OpenBLAS as on SkylakeX", where it was told so. */
static const char *about_blas(void) {
  static char text[64];
  if (getenv("OPENBLAS_CORETYPE") != NULL) {
    snprintf(text, sizeof text, ", OpenBLAS as on %.32s", fopo_matrix_processor());
  }
  return text;
}

static void print_version(void) {
  fopo_device *device;
  const char *note = fopo_kernels_note();
  printf("fopo %s, %s%s\n", FOPO_VERSION, LUA_RELEASE, about_blas());
  printf("kernels   %s%s%s; %d thread%s (FOPO_ISA, FOPO_THREADS)\n", fopo_kernels_get()->name,
         *note != '\0' ? ", " : "", note, fopo_threads(), fopo_threads() == 1 ? "" : "s");
  if (fopo_device_open(&device, "auto") == FOPO_OK) {
    printf("device    %s%s%s\n", device->name, *device->note != '\0' ? "; " : "", device->note);
    fopo_device_close(device);
  } else {
    printf("device    none: %s\n", fopo_error_sentence());
  }
  printf("machines  %s, %zu rank%s\n", fopo_comm_name(), fopo_comm_ranks(),
         fopo_comm_ranks() == 1 ? "" : "s");
  for (size_t r = 0; r < fopo_comm_ranks() && fopo_comm_ranks() > 1; r++) {
    printf("  rank %-3zu  %s\n", r, fopo_comm_host(r));
  }
}

/* Of several ranks that fail in the same way, the first one tells. The others wait, to be ended by
 * its end, or to say which of them has failed alone. */
static void tell_rank(void) {
  unsigned wait = fopo_interrupted() ? 4 : 1; /* seconds; mpirun needs up to 3 */
  if (fopo_comm_ranks() == 1) return;
  fopo_watch_stop(); /* that the others end is no surprise */
  for (unsigned left = fopo_comm_own_rank() > 0 ? wait : 0; left > 0;) left = sleep(left);
  if (fopo_comm_own_rank() == 0 && fopo_interrupted()) return; /* no failure */
  fprintf(stderr, "fopo: rank %zu of %zu on %s has failed, which ends all of them:\n",
          fopo_comm_own_rank(), fopo_comm_ranks(), fopo_comm_host(fopo_comm_own_rank()));
}

/* Reports the error on the top; returns the exit code. */
static int failed(lua_State *L) {
  tell_rank();
  /* What SIGTERM interrupts is of no interest; where the time went is. */
  fopo_chunk_report(L, fopo_ending() != 0 && !fopo_ending_by_limit());
  return fopo_interrupted() ? INTERRUPTED : FAILED;
}

static int run_codes(lua_State *L, const job *j) {
  for (int i = 0; i < j->n_codes; i++) {
    const char *code = j->codes[i];
    fopo_chunk_remember(L, "(command line)", code);
    if (luaL_loadbufferx(L, code, strlen(code), "=(command line)", "t") != LUA_OK ||
        fopo_chunk_call(L, 0, 0) != LUA_OK) {
      return failed(L);
    }
  }
  return DONE;
}

/* name NULL: standard input. */
static int run_script(lua_State *L, const job *j, const char *name) {
  int arguments = j->script > 0 ? j->argc - j->script - 1 : 0;
  if (luaL_loadfilex(L, name, "t") != LUA_OK) {
    fopo_chunk_explain(L);
    return failed(L);
  }
  luaL_checkstack(L, arguments, "too many arguments to the script");
  for (int i = 0; i < arguments; i++) lua_pushstring(L, j->argv[j->script + 1 + i]);
  return fopo_chunk_call(L, arguments, 0) == LUA_OK ? DONE : failed(L);
}

static int run_prompt(lua_State *L, const job *j) {
  char greeting[256];
  snprintf(greeting, sizeof greeting,
           "fopo %s, %s%s, %d thread%s.\n"
           "help() lists the first steps, fopo.demo() the lessons; Ctrl-D leaves.",
           FOPO_VERSION, fopo_kernels_get()->name, about_blas(), fopo_threads(),
           fopo_threads() == 1 ? "" : "s");
  fopo_endings_limit(0); /* at the prompt there is Ctrl-C */
  fopo_interrupt_done();
  return fopo_prompt_run(L, j->init, greeting) == FOPO_OK ? DONE : FAILED;
}

/* print on every rank but the first, so that a script says what it says once. */
static int print_nothing(lua_State *L) {
  (void)L;
  return 0;
}

static int has_nothing(const job *j) {
  return j->script == 0 && j->n_codes == 0 && !j->version && !j->prompt;
}

static int has_prompt(const job *j) {
  return j->prompt || (has_nothing(j) && isatty(STDIN_FILENO));
}

/* The whole program, inside the one protected call. */
static int run(lua_State *L) {
  job *j = lua_touserdata(L, 1);
  int silent = fopo_comm_own_rank() > 0, prompt = has_prompt(j);
  lua_settop(L, 0);
  open_libraries(L);
  set_arg(L, j);
  set_limits(L, j);
  if (silent) {
    lua_pushcfunction(L, print_nothing);
    lua_setglobal(L, "print");
  }
  if (j->version && !silent) print_version();
  if (j->n_codes > 0 || prompt) {
    lua_pushcfunction(L, set_globals);
    if (fopo_chunk_call(L, 0, 0) != LUA_OK) {
      j->status = failed(L);
      return 0;
    }
  }
  j->status = run_codes(L, j);
  if (j->status == DONE && j->script > 0) {
    const char *name = j->argv[j->script];
    j->status = run_script(L, j, strcmp(name, "-") == 0 ? NULL : name);
  } else if (has_nothing(j) && !prompt) {
    j->status = run_script(L, j, NULL);
  }
  if (prompt) {
    j->status = run_prompt(L, j); /* after a failure too, to look at the values that are left */
  }
  return 0;
}

/* ---- the command line ---- */

static int misuse(const char *what, const char *option) {
  fprintf(stderr, "fopo: %s%s; fopo -h shows the options\n", what, option);
  return MISUSED;
}

/* "500M", "2.5G", "0": bytes. */
static int read_size(uint64_t *bytes, const char *text) {
  char *end;
  double number = strtod(text, &end);
  double unit = *end == 'K' ? 1e3 : *end == 'M' ? 1e6 : *end == 'G' ? 1e9 : *end == 'T' ? 1e12 : 1;
  if (end == text || !(number >= 0 && number * unit < 1e18) || (unit > 1 && end[1] != '\0') ||
      (unit == 1 && *end != '\0')) {
    return 0;
  }
  *bytes = (uint64_t)(number * unit);
  return 1;
}

static int read_seconds(double *seconds, const char *text) {
  char *end;
  *seconds = strtod(text, &end);
  return end != text && *end == '\0' && *seconds >= 0 && *seconds < 1e9;
}

/* Fills the job. Returns -1, or the exit code if there is nothing to run. */
static int read_options(job *j) {
  int i = 1, seconds_given = 0, memory_given = 0;
  for (; i < j->argc && j->argv[i][0] == '-' && j->argv[i][1] != '\0'; i++) {
    const char *option = j->argv[i];
    if (strcmp(option, "--") == 0) {
      i++;
      break;
    }
    if (strcmp(option, "-h") == 0 || strcmp(option, "--help") == 0) {
      printf(usage, fopo_kernels_names());
      return fflush(stdout) == 0 ? DONE : FAILED;
    }
    if (strncmp(option, "-e", 2) == 0) {
      if (option[2] == '\0' && ++i == j->argc) return misuse("-e needs code after it", "");
      j->codes[j->n_codes++] = option[2] == '\0' ? j->argv[i] : option + 2;
    } else if (strcmp(option, "-i") == 0) {
      j->prompt = 1;
    } else if (strcmp(option, "-v") == 0 || strcmp(option, "--version") == 0) {
      j->version = 1;
    } else if (strcmp(option, "--no-init") == 0) {
      j->init = 0;
    } else if (strcmp(option, "--json") == 0) {
      fopo_lua_json(1);
    } else if (strcmp(option, "--safe") == 0) {
      j->safe = 1;
    } else if (strcmp(option, "--without-border") == 0) {
      j->border.without_border = 1;
    } else if (strcmp(option, "--read") == 0) {
      if (++i == j->argc) return misuse("--read needs the file or folder that is read", "");
      j->reads[j->border.n_reads++] = j->argv[i];
    } else if (strcmp(option, "--max-seconds") == 0) {
      if (++i == j->argc || !read_seconds(&j->seconds, j->argv[i])) {
        return misuse("--max-seconds needs a number of seconds", "");
      }
      seconds_given = 1;
    } else if (strcmp(option, "--max-memory") == 0) {
      if (++i == j->argc || !read_size(&j->memory, j->argv[i])) {
        return misuse("--max-memory needs a size: 500M, 2G", "");
      }
      memory_given = 1;
    } else if (strcmp(option, "--checkpoint") == 0) {
      if (++i == j->argc) return misuse("--checkpoint needs the file that is written", "");
      fopo_lua_checkpoint(j->argv[i]);
    } else {
      return misuse("unknown option ", option);
    }
  }
  if (i < j->argc) j->script = i;
  if (!j->safe && j->border.n_reads > 0) return misuse("--read belongs to --safe", "");
  if (!j->safe && j->border.without_border) {
    return misuse("--without-border belongs to --safe", "");
  }
  if (j->safe && !seconds_given) j->seconds = SAFE_SECONDS;
  if (j->safe && !memory_given) j->memory = fopo_memory_available() / 2;
  return -1;
}

/* A prompt and a script on standard input are the first rank's alone, and the others would wait for
 * it in vain. */
static int needs_script(const job *j) {
  int reads = j->script > 0 ? strcmp(j->argv[j->script], "-") == 0 : j->n_codes == 0 && !j->version;
  return fopo_comm_ranks() > 1 && (reads || j->prompt);
}

static int refuse_prompt(void) {
  if (fopo_comm_own_rank() == 0) {
    fprintf(stderr,
            "fopo: the prompt and standard input reach one process alone, and here are %zu; try "
            "things at the prompt of one (fopo), then run them as a script on all: mpirun -n %zu "
            "fopo script.lua\n",
            fopo_comm_ranks(), fopo_comm_ranks());
  }
  return DONE;
}

/* Ranks of one host share its processors, unless the user has said how many threads each has. */
static void share_threads(void) {
  if (getenv("FOPO_THREADS") != NULL || getenv("OMP_NUM_THREADS") != NULL) return;
  long each = sysconf(_SC_NPROCESSORS_ONLN) / (long)fopo_comm_local();
  if (fopo_comm_local() > 1 && fopo_threads() > each) fopo_threads_set(each > 1 ? (int)each : 1);
}

/* Libraries read their settings when they are loaded, before main. Where others are better, and the
 * user has set none, the program executes itself again with them; if it cannot, it is only slower.
 *
 * libgomp: a thread that waits for the others spins for a long time, and beside any other busy
 * program a small step then takes ten times as long: a short spin. OpenBLAS: the vectors of a
 * processor that is newer than it. */
static void set_libraries(char **argv) {
  int again = 0;
  if (getenv("GOMP_SPINCOUNT") == NULL && getenv("OMP_WAIT_POLICY") == NULL) {
    again = setenv("GOMP_SPINCOUNT", "2000", 0) == 0;
  }
  const char *wanted = getenv("OPENBLAS_CORETYPE") == NULL ? fopo_kernels_blas_wanted() : NULL;
  if (wanted != NULL && setenv("OPENBLAS_CORETYPE", wanted, 0) == 0) again = 1;
  char path[4096];
  if (again && fopo_platform_program(path, sizeof path)) execv(path, argv);
}

/* Before all else, as libraries start threads. 1: the exit status is *status. */
static int begin(job *j, int *status) {
  j->codes = fopo_alloc((size_t)j->argc, sizeof *j->codes);
  j->reads = fopo_alloc((size_t)j->argc, sizeof *j->reads);
  if (j->codes == NULL || j->reads == NULL) {
    fputs("fopo: there is not enough memory to start\n", stderr);
    *status = FAILED;
    return 1;
  }
  *status = read_options(j);
  if (*status >= 0) return 1;
  if (!j->safe) return 0;
  if (fopo_comm_started() > 1) {
    fputs("fopo: --safe holds one process, and several were started; leave --safe or mpirun out\n",
          stderr);
    *status = MISUSED;
    return 1;
  }
  j->border.reads = j->reads;
  j->border.script =
      j->script > 0 && strcmp(j->argv[j->script], "-") != 0 ? j->argv[j->script] : NULL;
  j->border.seconds = has_prompt(j) ? 0 : j->seconds; /* which the prompt lifts */
  return fopo_safe_enter(&j->border, status);
}

int main(int argc, char **argv) {
  job j = {.init = 1, .argc = argc, .argv = argv};
  int status;
  set_libraries(argv);
  fopo_memory_start();
  if (begin(&j, &status)) {
    fopo_free(j.codes);
    fopo_free(j.reads);
    return status;
  }
  fopo_endings_install();
  setlocale(LC_CTYPE, ""); /* never LC_NUMERIC: "1.5" is to stay one and a half */
  if (fopo_threads_check() != FOPO_OK) {
    fprintf(stderr, "fopo: %s\n", fopo_error_sentence());
    _exit(FAILED); /* what OpenBLAS does at exit would wait for threads that it could not start */
  }
  if (fopo_comm_open(&argc, &argv) != FOPO_OK) {
    fprintf(stderr, "fopo: %s\n", fopo_error_sentence());
    return FAILED;
  }
  if (fopo_kernels_make_alike() != FOPO_OK) { /* on all ranks */
    if (fopo_comm_own_rank() == 0) fprintf(stderr, "fopo: %s\n", fopo_error_sentence());
    fopo_comm_close();
    return FAILED;
  }
  share_threads();
  fopo_threads_start();
  lua_State *L = luaL_newstate();
  if (L == NULL) {
    fputs("fopo: there is not enough memory to start\n", stderr);
    return FAILED;
  }
  status = needs_script(&j) ? refuse_prompt() : -1;
  if (status < 0) {
    lua_warning(L, "@on", 0); /* errors in finalisers are said */
    fopo_progress_bar(fopo_comm_own_rank() == 0);
    lua_pushcfunction(L, run);
    lua_pushlightuserdata(L, &j);
    if (fopo_chunk_call(L, 1, 0) != LUA_OK) j.status = failed(L);
    status = j.status;
  }
  fopo_free(j.codes);
  fopo_free(j.reads);
  finish(L, status);
}
