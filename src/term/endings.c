#include "term/endings.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/progress.h"
#include "term/interrupt.h"

/* What ends a process unless it has a handler, but for SIGINT, SIGKILL and what is not sent. */
static const int fatal[] = {SIGTERM, SIGHUP,  SIGQUIT, SIGSEGV, SIGABRT,   SIGBUS,
                            SIGFPE,  SIGILL,  SIGXCPU, SIGUSR1, SIGUSR2,   SIGALRM,
                            SIGSYS,  SIGTRAP, SIGPOLL, SIGPROF, SIGVTALRM, SIGPWR};
enum { FATALS = sizeof fatal / sizeof *fatal };

static struct sigaction former[FATALS];
static fopo_restore *volatile restore_terminal;
static volatile sig_atomic_t deferring; /* runs that keep a checkpoint */
static volatile sig_atomic_t ending;    /* the signal that ends the program, or 0 */
static volatile sig_atomic_t asked;     /* how often it has interrupted */
static volatile sig_atomic_t over;      /* the limit of time has come */
static timer_t limit;
static int limited; /* 1: `limit` is a timer */

/* A handler and not SIG_IGN, which the programs that this one starts would inherit. */
static void nothing(int number) { (void)number; }

/* Restores the terminal and the former handler. A fault that the processor found comes again when
 * the handler returns; any other signal is raised again. */
static void end_by(int number, const siginfo_t *info) {
  static const char out_of_time[] = "fopo: the script did not stop when its time was over\n";
  if (restore_terminal) restore_terminal();
  if (over && write(STDERR_FILENO, out_of_time, sizeof out_of_time - 1) < 0) over = 0;
  for (int i = 0; i < FATALS; i++) {
    if (fatal[i] == number) sigaction(number, &former[i], NULL);
  }
  if (info->si_code <= 0 ||
      (number != SIGSEGV && number != SIGBUS && number != SIGFPE && number != SIGILL)) {
    raise(number);
  }
}

/* Interrupts, and comes back in a second. */
static void ask(int number) {
  if (!fopo_interrupt_by_signal(number)) return; /* the main thread gets the signal */
  if (ending == 0) ending = number;
  asked++;
  alarm(1);
}

static void on_fatal(int number, siginfo_t *info, void *context) {
  int saved = errno, waits = number == SIGTERM || number == SIGHUP || number == SIGXCPU;
  (void)context;
  if (number == SIGALRM && info->si_code == SI_TIMER) over = 1;
  if (ending != 0 && (waits || number == SIGALRM)) {
    if (number != SIGALRM) { /* asked for again */
    } else if (asked < FOPO_ENDING_SECONDS) {
      ask(number);
    } else {
      end_by(ending, info);
    }
  } else if ((waits && deferring > 0) || (number == SIGALRM && over)) {
    ask(number);
  } else {
    end_by(number, info);
  }
  errno = saved;
}

void fopo_endings_install(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  sigfillset(&action.sa_mask);
  action.sa_sigaction = on_fatal;
  action.sa_flags = SA_ONSTACK | SA_SIGINFO;
  for (int i = 0; i < FATALS; i++) {
    sigaction(fatal[i], NULL, &former[i]);
    if (former[i].sa_handler != SIG_IGN) sigaction(fatal[i], &action, NULL);
  }
  action.sa_flags = SA_RESTART;
  action.sa_handler = nothing;
  sigaction(SIGPIPE, &action, NULL);
  sigaction(SIGXFSZ, &action, NULL);
}

fopo_restore *fopo_endings_restore(fopo_restore *restore) {
  fopo_restore *before = restore_terminal;
  restore_terminal = restore;
  return before;
}

void fopo_endings_limit(double seconds) {
  struct sigevent by = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
  struct itimerspec when = {.it_value = {.tv_sec = (time_t)seconds}};
  when.it_value.tv_nsec = (long)((seconds - (double)when.it_value.tv_sec) * 1e9);
  if (!limited) limited = timer_create(CLOCK_MONOTONIC, &by, &limit) == 0;
  if (limited) timer_settime(limit, 0, &when, NULL);
}

int fopo_ending_by_limit(void) { return over; }

void fopo_endings_defer(int change) { deferring += change; }

int fopo_ending(void) { return ending; }

void fopo_ending_begin_save(void) {
  alarm(0);
  fopo_interrupt_clear();
}

void fopo_ending_end_save(void) {
  if (ending == 0) return;
  fopo_interrupt_by_signal(ending);
  alarm(1);
}
