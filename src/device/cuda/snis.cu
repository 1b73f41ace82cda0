/* Self-normalised importance sampling on the GPU, of rows of at most FOPO_FUSED_DIM numbers, in one
 * kernel. They are read once: a team of 1, 4, 8 or 32 threads loads a row into registers, computes
 * its score, and adds the row to sums that are relative to the largest f - log q so far (an online
 * softmax). The sums of a block's teams are then scaled to one shift and added, and the last block
 * of a context to arrive adds those of its blocks. Longer rows: snis_long.cu. */
#include <cmath>
#include <cstdlib>

#include "device/cuda/small_step.cuh"
#include "device/cuda/snis_block.cuh"

namespace gpu {

/* ---- the kernel ---- */

__device__ __noinline__ void finish_batch(const snis_arguments &a) {
  add_up_batch(a.batch, a.stats);
}

/* Each context has `splits` blocks with a chunk of its samples each, which a block draws, or finds
 * in memory. The block writes its sums, and its rows of u and v; the last block of a context adds
 * them, and the last of the batch adds up the statistics. Two blocks of short rows fit one
 * processor. */
template <class T, int BYTES, int LANES, int PER>
__global__ void __launch_bounds__(THREADS, LANES *PER <= 512 ? 2 : 1)
    snis_kernel(const __grid_constant__ snis_arguments a) {
  await_inputs();
  char *memory = dynamic_shared<char>();
  size_t b = blockIdx.x / a.splits, S = a.S;
  size_t begin = blockIdx.x % a.splits * a.chunk, n = least(a.chunk, S - begin);
  const fopo_samples &given = a.from.given;
  samples_at x_s;
  float low;
  /* the block's n samples: where they lie in memory, or drawn into shared memory */
  if (a.from.kind == GIVEN) {
    x_s = {given.ids + b * S + begin, given.logq + b * S + begin, given.r + b * S + begin};
    low = block_least(given.r + b * S, S);
  } else {
    x_s = drawn_at(memory, a.chunk);
    low = least_reward(a.from.reward, a.from.rows[b]);
    draw_samples(a.from, current(a.from.key), a.from.rows[b], memory, a.chunk, b, S, begin,
                 begin + n);
  }
  /* their sums, for which the memory serves when no sample is needed any more */
  add_chunk<T, BYTES, LANES, PER, 1, false>(a, {blockIdx.x, b, begin, n, 0, low}, a.Q + b * a.L,
                                            x_s, reinterpret_cast<float *>(memory));

  /* the last block of a context writes its estimate, the last block of all the statistics */
  if (a.V == nullptr || !arrives_last(a.arrivals + 1 + b, a.splits)) return;
  finish_context(a, a.V, a.stats, b, reinterpret_cast<double *>(memory));
  if (a.batch.sums == nullptr || !arrives_last(a.arrivals, (unsigned)a.batch.B)) return;
  finish_batch(a);
}

/* A kernel that reads rows once, and how many samples a block of it takes at a time. */
struct snis_plan {
  void (*kernel)(snis_arguments);
  size_t teams, width; /* numbers that a team holds */
};

static snis_plan plan_of(const fopo_rows *items, size_t L) {
  return by_rows(items, L, [=]<class T, int BYTES, int LANES, int PER>() {
    return snis_plan{snis_kernel<T, BYTES, LANES, PER>, THREADS / LANES, LANES * PER};
  });
}

/* How many blocks share the samples of one context: of all numbers the one that takes the least
 * time, if blocks run in waves of as many as the card holds, a round of a block takes one sample a
 * team, and what a block adds up at its end takes as long as four rounds. A block holds TILE draws.
 * FOPO_GPU_SPLITS asks for a number, by which measurements look at the others. */
size_t splits_in_waves(size_t held, size_t B, size_t S, size_t teams) {
  const char *asked = getenv("FOPO_GPU_SPLITS");
  size_t fewest = S <= FOPO_FUSED_DRAWS ? ceil_div(S, TILE) : 1, best = fewest;
  size_t least_time = SIZE_MAX, wanted = asked != nullptr ? strtoul(asked, nullptr, 10) : 0;
  if (wanted > 0) return wanted < fewest ? fewest : least(wanted, SPLITS_MOST);
  for (size_t splits = fewest; splits <= SPLITS_MOST; splits++) {
    if (splits > fewest && splits * teams > S) break;
    size_t time = ceil_div(B * splits, held) * (ceil_div(S, splits * teams) + 4);
    if (time < least_time) best = splits, least_time = time;
  }
  return best;
}

/* Samples of each of so many blocks of a context. */
size_t chunk_of(size_t S, size_t splits) { return rounded_up(ceil_div(S, splits), 4); }

void place_sums(fopo_device *d, sample_sums *x, scratch_layout *memory, const fopo_rows *items,
                size_t B, size_t S, size_t L) {
  bool once = L <= FOPO_FUSED_DIM;
  snis_plan plan = once ? plan_of(items, L) : snis_plan{};
  x->splits = once ? splits_in_waves(blocks_held(d, plan.kernel, THREADS), B, S, plan.teams) : 1;
  x->splits = ceil_div(S, chunk_of(S, x->splits)); /* none is empty */
  x->partial = memory->array<sums>(B * x->splits);
  x->u = memory->array<float>(B * x->splits * L);
  x->v = memory->array<float>(B * x->splits * L);
  x->w = memory->array<float>(once ? 0 : B * S);
  x->wd = memory->array<float>(once ? 0 : B * S);
  x->rows = memory->array<float>(once ? 0 : sum_rows_scratch(B, S, L));
}

/* The sums alone, or with e what follows from them. */
static int add_once(fopo_device *d, const sample_sums &x, const fopo_estimate *e,
                    const drawing &from, const batch_stats &about, const fopo_rows *items,
                    float floor, const fopo_device_batch *batch) {
  snis_plan plan = plan_of(items, batch->L);
  size_t chunk = chunk_of(batch->S, x.splits);
  size_t samples = from.kind == GIVEN ? 0 : chunk * 12;
  if (from.scratch == nullptr) samples += from.bytes;
  size_t shared = THREADS / WARP * plan.width * sizeof(float);
  if (shared < samples) shared = samples;
  if (shared < x.splits * sizeof(double)) shared = x.splits * sizeof(double);
  snis_arguments a = {};
  a.partial = x.partial, a.u = x.u, a.v = x.v;
  if (e != nullptr) a.V = e->V, a.c = e->c, a.stats = e->stats, a.objective = e->objective;
  a.sparse = fopo_batch_scores(batch);
  a.arrivals = of(d)->arrivals;
  a.Q = batch->Q, a.items = items->x, a.ld = items->ld, a.floor = floor;
  a.S = batch->S, a.L = batch->L, a.chunk = chunk, a.splits = (unsigned)x.splits;
  a.from = from, a.batch = about;
  return launch_early(d, "the weights of the samples", batch->B * x.splits, THREADS, shared,
                      plan.kernel, a);
}

int add_samples(fopo_device *d, const sample_sums &x, const drawing &from, const fopo_rows *items,
                const fopo_device_batch *batch) {
  if (batch->L <= FOPO_FUSED_DIM) {
    return add_once(d, x, nullptr, from, {}, items, INFINITY, batch);
  }
  return add_long(d, x, &from.given, items, INFINITY, batch);
}

/* ---- where samples come from ---- */

drawing given_samples(const fopo_samples *samples) {
  drawing x = {};
  x.kind = GIVEN;
  x.given = *samples;
  return x;
}

static drawing drawn(fopo_device *d, drawing_kind kind, const fopo_sparse_reward *reward,
                     const fopo_device_batch *batch) {
  drawing x = {};
  x.kind = kind;
  x.key = key_of(d, batch->key);
  x.rows = batch->rows;
  x.P = (uint32_t)batch->P;
  x.m.uniform = (float)-log((double)batch->P);
  x.reward = sparse_of(*reward);
  return x;
}

drawing other_draws(fopo_device *d, const fopo_shared_head *head, const fopo_sparse_reward *reward,
                    const fopo_device_batch *batch) {
  drawing x = drawn(d, OTHERS, reward, batch);
  x.order = head->order;
  x.H = head->H;
  return x;
}

static drawing drawing_of(fopo_device *d, const fopo_drawing *draws,
                          const fopo_sparse_reward *reward, const fopo_device_batch *batch) {
  static const drawing_kind kinds[] = {UNIFORM, MIXTURE, TAIL};
  drawing x = drawn(d, kinds[draws->kind], reward, batch);
  size_t k = draws->mixture.sets.k;
  if (x.kind == UNIFORM) return x;
  x.m = mixture_of(draws->mixture, batch->S, batch->P);
  x.kept = draws->kept;
  x.bits = slot_bits(k);
  x.capacity = sorted_capacity(k);
  x.bytes = x.kind == MIXTURE ? candidate_bytes(k) : x.capacity * sizeof(uint32_t);
  return x;
}

/* ---- the operations ---- */

static int estimate(fopo_device *d, const fopo_estimate *e, drawing from, const batch_stats &about,
                    const fopo_rows *items, float floor, const fopo_device_batch *batch) {
  size_t B = batch->B, S = batch->S, L = batch->L;
  bool in_scratch = from.bytes > SHARED_MOST / 2;
  sample_sums x = {};
  int status = reserve_arrivals(d, 1 + B);
  if (status != FOPO_OK) return status;
  for (int placed = 0; placed < 2; placed++) {
    scratch_layout memory = {placed ? of(d)->scratch : nullptr, 0};
    place_sums(d, &x, &memory, items, B, S, L);
    char *candidates = memory.array<char>(in_scratch ? B * x.splits * from.bytes : 0);
    from.scratch = in_scratch ? candidates : nullptr;
    status = placed ? FOPO_OK : reserve(d, memory.used, "the sums of a batch");
    if (status != FOPO_OK) return status;
  }
  return add_once(d, x, e, from, about, items, floor, batch);
}

int snis(fopo_device *d, const fopo_estimate *e, const fopo_samples *samples,
         const fopo_rows *items, float floor, const fopo_device_batch *batch) {
  if (batch->L > FOPO_FUSED_DIM) return snis_twice(d, e, samples, items, floor, batch);
  return estimate(d, e, given_samples(samples), {}, items, floor, batch);
}

int snis_drawn(fopo_device *d, const fopo_estimate *e, const fopo_drawing *draws,
               const fopo_sparse_reward *reward, const fopo_rows *items, float floor,
               const fopo_device_batch *batch) {
  const fopo_candidate_sets *sets = &draws->mixture.sets;
  bool any = draws->kind != FOPO_DRAW_UNIFORM;
  batch_stats about = {e->batch,
                       any ? sets->counts : nullptr,
                       draws->kept,
                       any ? batch->with_candidates : 0,
                       sets->k,
                       batch->B,
                       1};
  drawing from = drawing_of(d, draws, reward, batch);
  size_t before = of(d)->launched;
  int status = estimate(d, e, from, about, items, floor, batch);
  note(d, before, {*e, from, about, *items, floor, *batch, false});
  return status;
}

} // namespace gpu
