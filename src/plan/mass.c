#include "plan/mass.h"

/* A near probe scores this many times H. */
enum { WINDOW = 4 };

/* Probes in a row that must want less before H shrinks. */
enum { AGREE = 3 };

/* The share of the steps' rows that probes may take, as 1 / of it. */
enum { FULL = 100, NEAR = 50 };

enum { FIRST = 256, FINE = 1024 };

uint64_t fopo_mass_next(uint64_t h, uint64_t P) {
  uint64_t next = h < FINE ? h + FIRST : (h & (h - 1)) == 0 ? h + h / 2 : h / 3 * 4;
  return next > P / 2 ? P : next;
}

static uint64_t window(const fopo_mass *m, size_t P) {
  return m->head < P / WINDOW ? m->head * WINDOW : P;
}

/* What steps have paid for probes of a kind, and is not spent. */
static uint64_t purse(const fopo_mass *m, uint64_t spent, uint64_t share) {
  uint64_t paid = m->rows / share;
  return paid > spent ? paid - spent : 0;
}

fopo_mass_kind fopo_mass_due(const fopo_mass *m, size_t n, size_t P) {
  if (m->head == 0) return FOPO_MASS_FULL;
  uint64_t near = n * window(m, P), full = m->full_cost > near ? m->full_cost : near;
  if (purse(m, m->full, FULL) >= full) return FOPO_MASS_FULL;
  return purse(m, m->near, NEAR) >= near ? FOPO_MASS_NEAR : FOPO_MASS_NONE;
}

uint64_t fopo_mass_horizon(const fopo_mass *m, fopo_mass_kind kind, size_t n, size_t P) {
  if (m->head == 0) return P;
  uint64_t paid = purse(m, m->full, FULL) / n;
  return kind == FOPO_MASS_NEAR ? window(m, P) : paid < P ? paid : P;
}

size_t fopo_mass_shared(const fopo_mass *m, size_t P, size_t tail) {
  size_t most = P - tail, H = m->head < most ? (size_t)m->head : most;
  return H <= FOPO_MASS_SHARED ? H : 0;
}

/* Counts a probe that wants less than H; H shrinks if it is one too many. */
static void want_less(fopo_mass *m, uint64_t wanted) {
  m->least = m->fewer == 0 || wanted > m->least ? wanted : m->least;
  if (++m->fewer < AGREE) return;
  m->head = m->least;
  m->fewer = m->least = 0;
}

void fopo_mass_take(fopo_mass *m, fopo_mass_kind kind, const fopo_mass_found *found) {
  if (kind == FOPO_MASS_FULL) {
    m->full += found->rows;
    m->full_cost = found->complete ? found->rows : 2 * found->rows;
  } else {
    m->near += found->rows;
  }
  m->held = found->held_at_head;
  if (found->wanted >= m->head) {
    m->head = found->wanted;
    m->held = found->held;
    m->fewer = m->least = 0;
  } else if (found->complete) {
    want_less(m, found->wanted);
  }
}
