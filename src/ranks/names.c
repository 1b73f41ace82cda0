/* A join is made of exchanges between all ranks (comm/pieces.h).
 *
 * Deal: each own name goes to the rank that owns it, a text by its hash, an integer by its value,
 * as each rank owns a range of the integers, with about as many in each.
 *
 * List: an owner makes one list of what has come, that of rank 0 first.
 *
 * Number: the ascending lists of integers stand one behind the other. A text has its index from the
 * first rank that sent it: a rank counts those of its texts that are new, which come behind those
 * of the ranks before it, in its own order.
 *
 * Answer: each rank gets the indices of the names that it sent.
 *
 * Spread: the names go to the ranks that have their indices, integers from their owners, texts from
 * the ranks where they were new. */
#include "ranks/names.h"

#include <string.h>

#include "comm/comm.h"
#include "comm/pieces.h"
#include "core/hash.h"
#include "core/memory.h"
#include "core/status.h"
#include "data/merge.h"

static int are_indices(const fopo_names *names) {
  return names->numbers == NULL && names->text == NULL;
}

int fopo_ranks_share_names(fopo_names *to, const fopo_names *whole) {
  size_t first, n = fopo_comm_own_share(&first, whole->n);
  return are_indices(whole) ? fopo_names_copy(to, whole, 0, whole->n)
                            : fopo_names_copy(to, whole, first, n);
}

/* ---- names on their way ---- */

/* The offsets of n texts, which stand in names->text. */
static int find_texts(fopo_names *names, size_t n) {
  size_t at = 0;
  names->n = n;
  names->offsets = fopo_alloc(n + 1, sizeof *names->offsets);
  if (names->offsets == NULL) return FOPO_ERR_MEMORY;
  for (size_t i = 0; i < n; i++) {
    at += strlen(names->text + at) + 1;
    names->offsets[i + 1] = at;
  }
  return FOPO_OK;
}

static size_t sum_of(const size_t *x) {
  size_t sum = 0;
  for (size_t r = 0; r < fopo_comm_ranks(); r++) sum += x[r];
  return sum;
}

/* bytes [ranks]: those of the names, of which n[r] are for rank r. */
static void measure(size_t *bytes, const fopo_names *names, const size_t *n, int is_text) {
  size_t at = 0;
  for (size_t r = 0; r < fopo_comm_ranks(); r++) {
    bytes[r] = is_text ? (size_t)(names->offsets[at + n[r]] - names->offsets[at])
                       : n[r] * sizeof *names->numbers;
    at += n[r];
  }
}

/* *in: what comes from all ranks, in their order, where of *out the names go to the ranks, sent[r]
 * to rank r; come [ranks]: how many do. */
static int send_names(fopo_names *in, size_t *come, const fopo_names *out, const size_t *sent,
                      int is_text, int status) {
  size_t out_bytes[FOPO_COMM_RANKS], in_bytes[FOPO_COMM_RANKS];
  if (status == FOPO_OK) measure(out_bytes, out, sent, is_text);
  status = fopo_pieces_sizes(come, sent, status);
  status = fopo_pieces_sizes(in_bytes, out_bytes, status);
  char *bytes = status == FOPO_OK ? fopo_alloc(sum_of(in_bytes), 1) : NULL;
  if (status == FOPO_OK && bytes == NULL) status = FOPO_ERR_MEMORY;
  const void *from = is_text ? (const void *)out->text : out->numbers;
  status = fopo_pieces_exchange(bytes, in_bytes, from, out_bytes, FOPO_PIECE, status);
  *in = (fopo_names){0};
  if (is_text) {
    in->text = bytes;
    return status == FOPO_OK ? find_texts(in, sum_of(come)) : status;
  }
  in->numbers = (void *)bytes;
  if (status == FOPO_OK) in->n = sum_of(come);
  return status;
}

/* ---- the own names by their owners ---- */

typedef struct {
  int is_text;
  fopo_names sent, come; /* the own names, by owner; those that this rank owns, by sender */
  size_t to[FOPO_COMM_RANKS], from[FOPO_COMM_RANKS]; /* how many */
  uint32_t *place; /* [sent.n] where each own name stands in `sent`; at the end its index */
  uint32_t *index; /* [come.n] of each that has come in the list of the owner; then its index */
  size_t listed;   /* different names that this rank owns */
  fopo_names mine; /* those whose indices are first .. first + mine.n - 1 */
  size_t first, all;
} join;

/* As fopo_ids_finish, but always with names and places. */
static int finish(fopo_names *numbers, uint32_t **place, fopo_ids *ids) {
  int status = fopo_ids_finish(numbers, place, ids);
  if (status == FOPO_OK && numbers->numbers == NULL) status = fopo_names_count(numbers, numbers->n);
  if (status != FOPO_OK || *place != NULL) return status;
  *place = fopo_alloc(numbers->n, sizeof **place);
  for (size_t i = 0; i < numbers->n && *place != NULL; i++) (*place)[i] = (uint32_t)i;
  return *place != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
}

enum {
  SAMPLES = 1024
}; /* of the integers of each rank, to cut them into as many ranges as ranks */

/* *sample: every so many-th of the integers of each rank, all of them ascending. */
static int take_samples(fopo_names *sample, const fopo_names *numbers, int status) {
  size_t every[FOPO_COMM_RANKS], bytes[FOPO_COMM_RANKS], ranks = fopo_comm_ranks();
  status = fopo_comm_agree(status);
  if (status == FOPO_OK) status = fopo_comm_gather(every, &numbers->n, sizeof numbers->n);
  if (status != FOPO_OK) return status;
  size_t step = sum_of(every) / (SAMPLES * ranks) + 1, own = numbers->n / step;
  for (size_t r = 0; r < ranks; r++) bytes[r] = every[r] / step * sizeof *numbers->numbers;
  fopo_names all = {.n = sum_of(bytes) / sizeof *all.numbers};
  fopo_ids ids = {0};
  int64_t *mine = fopo_alloc(own, sizeof *mine);
  uint32_t *place = fopo_alloc(all.n, sizeof *place), *order = NULL;
  all.numbers = fopo_alloc(all.n, sizeof *all.numbers);
  if (mine == NULL || place == NULL || all.numbers == NULL) status = FOPO_ERR_MEMORY;
  for (size_t i = 0; i < own && status == FOPO_OK; i++) {
    mine[i] = numbers->numbers[(i + 1) * step - 1];
  }
  status = fopo_pieces_gather(all.numbers, mine, bytes, FOPO_PIECE, status);
  if (status == FOPO_OK) status = fopo_merge_names(&ids, place, &all);
  if (status == FOPO_OK) status = finish(sample, &order, &ids);
  fopo_ids_done(&ids);
  fopo_names_done(&all);
  fopo_free(mine);
  fopo_free(place);
  fopo_free(order);
  return status;
}

/* Ascending integers to the owners of their ranges. */
static int deal_numbers(join *j, fopo_ids *own) {
  fopo_names sample = {0};
  int status = take_samples(&sample, &j->sent, finish(&j->sent, &j->place, own));
  size_t at = 0, ranks = fopo_comm_ranks();
  for (size_t r = 0; r < ranks && status == FOPO_OK; r++) {
    size_t from = at, next = sample.n * (r + 1) / ranks;
    int is_last = next == sample.n;
    while (at < j->sent.n && (is_last || j->sent.numbers[at] < sample.numbers[next])) at++;
    j->to[r] = at - from;
  }
  fopo_names_done(&sample);
  return status;
}

static size_t owner_of(const char *text, size_t n) {
  return (size_t)((fopo_hash_text(text, n) >> 32) * fopo_comm_ranks() >> 32);
}

/* Texts to the owners of their hashes; they keep their order. */
static int sort_texts(join *j, const fopo_names *own) {
  fopo_names *to = &j->sent;
  size_t next[FOPO_COMM_RANKS], sum = 0, bytes = own->n > 0 ? (size_t)own->offsets[own->n] : 0;
  uint16_t *owner = fopo_alloc(own->n, sizeof *owner);
  j->place = fopo_alloc(own->n, sizeof *j->place);
  to->text = fopo_alloc(bytes, 1);
  to->offsets = fopo_alloc(own->n + 1, sizeof *to->offsets);
  if (!(owner && j->place && to->text && to->offsets)) {
    fopo_free(owner);
    return FOPO_ERR_MEMORY;
  }
  for (size_t i = 0; i < own->n; i++) {
    size_t length = (size_t)(own->offsets[i + 1] - own->offsets[i]) - 1;
    owner[i] = (uint16_t)owner_of(own->text + own->offsets[i], length);
    j->to[owner[i]]++;
  }
  for (size_t r = 0; r < fopo_comm_ranks(); r++) {
    next[r] = sum;
    sum += j->to[r];
  }
  for (size_t i = 0; i < own->n; i++) {
    j->place[i] = (uint32_t)next[owner[i]]++;
    to->offsets[j->place[i] + 1] = own->offsets[i + 1] - own->offsets[i];
  }
  for (size_t i = 0; i < own->n; i++) to->offsets[i + 1] += to->offsets[i];
  for (size_t i = 0; i < own->n; i++) {
    memcpy(to->text + to->offsets[j->place[i]], own->text + own->offsets[i],
           (size_t)(own->offsets[i + 1] - own->offsets[i]));
  }
  to->n = own->n;
  fopo_free(owner);
  return FOPO_OK;
}

static int deal_texts(join *j, fopo_ids *ids) {
  fopo_names own;
  int status = fopo_ids_become_text(ids);
  if (status != FOPO_OK) return status;
  fopo_ids_move(&own, ids);
  fopo_ids_done(ids);
  status = sort_texts(j, &own);
  fopo_names_done(&own);
  return status;
}

/* ---- indices ---- */

/* back [sent.n] = one value for each own name from its owner, which has values [come.n]; or, the
 * other way round, what the senders say of theirs. */
static int swap(const join *j, void *to, const void *from, size_t width, int to_owners,
                int status) {
  size_t sent[FOPO_COMM_RANKS], come[FOPO_COMM_RANKS];
  for (size_t r = 0; r < fopo_comm_ranks(); r++) {
    sent[r] = (to_owners ? j->to : j->from)[r] * width;
    come[r] = (to_owners ? j->from : j->to)[r] * width;
  }
  return fopo_pieces_exchange(to, come, from, sent, FOPO_PIECE, status);
}

/* j->first and j->all, where this rank has n names. */
static int count(join *j, size_t n, int status) {
  size_t every[FOPO_COMM_RANKS];
  status = fopo_comm_agree(status);
  if (status == FOPO_OK) status = fopo_comm_gather(every, &n, sizeof n);
  if (status != FOPO_OK) return status;
  for (size_t r = 0; r < fopo_comm_own_rank(); r++) j->first += every[r];
  j->all = sum_of(every);
  return j->all < UINT32_MAX
             ? FOPO_OK
             : fopo_fail(FOPO_ERR_FORMAT, "there are more than %u different ids", UINT32_MAX - 1);
}

/* The list of what has come: j->index, and of integers j->mine. */
static int list(join *j) {
  fopo_ids ids = {0};
  uint32_t *order = NULL;
  j->index = fopo_alloc(j->come.n, sizeof *j->index);
  int status = j->index != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
  if (status == FOPO_OK) status = fopo_merge_names(&ids, j->index, &j->come);
  fopo_names_done(&j->come);
  j->listed = ids.n;
  if (status == FOPO_OK && !j->is_text) {
    status = finish(&j->mine, &order, &ids);
    if (status == FOPO_OK) status = fopo_merge_renumber(j->index, order, sum_of(j->from));
  }
  fopo_ids_done(&ids);
  fopo_free(order);
  return status;
}

/* The own texts that are new, in their own order: those where is_new of their places. */
static int keep_new(join *j, const uint8_t *is_new, size_t n) {
  size_t bytes = 0;
  for (size_t i = 0; i < j->sent.n; i++) {
    if (is_new[i]) bytes += (size_t)(j->sent.offsets[i + 1] - j->sent.offsets[i]);
  }
  j->mine = (fopo_names){.text = fopo_alloc(bytes, 1), .offsets = fopo_alloc(n + 1, 8)};
  if (j->mine.text == NULL || j->mine.offsets == NULL) return FOPO_ERR_MEMORY;
  for (size_t i = 0; i < j->sent.n; i++) {
    size_t k = j->place[i], at = (size_t)j->mine.offsets[j->mine.n];
    if (!is_new[k]) continue;
    size_t length = (size_t)(j->sent.offsets[k + 1] - j->sent.offsets[k]);
    memcpy(j->mine.text + at, j->sent.text + j->sent.offsets[k], length);
    j->mine.offsets[++j->mine.n] = at + length;
  }
  return FOPO_OK;
}

/* j->index becomes the index of each text that has come. In the list of an owner, a text is new
 * where it has the next number. */
static int number_texts(join *j, int status) {
  size_t come = sum_of(j->from), n = 0;
  uint8_t *first = fopo_alloc(come, 1), *is_new = fopo_alloc(j->sent.n, 1);
  uint32_t *own = fopo_alloc(j->sent.n, sizeof *own), *told = fopo_alloc(come, sizeof *told);
  uint32_t *of = fopo_alloc(j->listed, sizeof *of), next = 0;
  if (!(first && is_new && own && told && of)) status = FOPO_ERR_MEMORY;
  for (size_t i = 0; i < come && status == FOPO_OK; i++) {
    first[i] = j->index[i] == next;
    next += first[i];
  }
  status = swap(j, is_new, first, 1, 0, status);
  for (size_t i = 0; i < j->sent.n && status == FOPO_OK; i++) n += is_new[i];
  status = count(j, n, status);
  uint32_t at = (uint32_t)j->first;
  for (size_t i = 0; i < j->sent.n && status == FOPO_OK; i++) {
    if (is_new[j->place[i]]) own[j->place[i]] = at++;
  }
  status = swap(j, told, own, sizeof *own, 1, status);
  for (size_t i = 0; i < come && status == FOPO_OK; i++) {
    if (first[i]) of[j->index[i]] = told[i];
    j->index[i] = of[j->index[i]];
  }
  if (status == FOPO_OK) status = keep_new(j, is_new, n);
  fopo_free(first);
  fopo_free(is_new);
  fopo_free(own);
  fopo_free(told);
  fopo_free(of);
  return status;
}

static int number(join *j, int status) {
  if (j->is_text) return number_texts(j, status);
  status = count(j, j->listed, status);
  size_t come = sum_of(j->from);
  for (size_t i = 0; i < come && status == FOPO_OK; i++) j->index[i] += (uint32_t)j->first;
  return status;
}

/* j->place becomes the indices of the own names. */
static int answer(join *j, int status) {
  size_t n = sum_of(j->to);
  uint32_t *index = fopo_alloc(n, sizeof *index);
  if (index == NULL) status = FOPO_ERR_MEMORY;
  status = swap(j, index, j->index, sizeof *index, 0, status);
  for (size_t i = 0; i < n && status == FOPO_OK; i++) j->place[i] = index[j->place[i]];
  fopo_free(index);
  return status;
}

/* ---- names by index ---- */

/* *names: the own share, of which each rank has those from j->first on. */
static int spread(fopo_names *names, const join *j, int status) {
  size_t to[FOPO_COMM_RANKS], come[FOPO_COMM_RANKS], first, end = j->first + j->mine.n;
  for (size_t r = 0; r < fopo_comm_ranks(); r++) {
    size_t last = fopo_comm_share(&first, j->all, r, fopo_comm_ranks()) + first;
    size_t from = first > j->first ? first : j->first;
    last = last < end ? last : end;
    to[r] = last > from ? last - from : 0;
  }
  return send_names(names, come, &j->mine, to, j->is_text, status);
}

/* Integers that are all their own indices are dropped. */
static int drop_indices(fopo_names *names, size_t all) {
  int every[FOPO_COMM_RANKS], mine = 1;
  size_t first, n = fopo_comm_own_share(&first, all);
  for (size_t i = 0; i < n && mine; i++) mine = names->numbers[i] == (int64_t)(first + i);
  int status = fopo_comm_gather(every, &mine, sizeof mine);
  for (size_t r = 0; r < fopo_comm_ranks() && status == FOPO_OK; r++) mine &= every[r];
  if (status != FOPO_OK || !mine) return status;
  fopo_names_done(names);
  names->n = all;
  return FOPO_OK;
}

static int run(join *j, fopo_names *names, fopo_ids *ids) {
  int status = j->is_text ? deal_texts(j, ids) : deal_numbers(j, ids);
  status = send_names(&j->come, j->from, &j->sent, j->to, j->is_text, status);
  if (!j->is_text) fopo_names_done(&j->sent);
  if (status == FOPO_OK) status = list(j);
  status = answer(j, number(j, status));
  fopo_names_done(&j->sent);
  status = fopo_comm_agree(spread(names, j, status));
  return status == FOPO_OK && !j->is_text ? drop_indices(names, j->all) : status;
}

int fopo_ranks_join_names(fopo_names *names, size_t *all, uint32_t **place, fopo_ids *ids,
                          int is_text) {
  join j = {.is_text = is_text};
  *names = (fopo_names){0};
  int status = run(&j, names, ids);
  *all = j.all;
  *place = j.place;
  fopo_names_done(&j.sent);
  fopo_names_done(&j.come);
  fopo_names_done(&j.mine);
  fopo_free(j.index);
  return status;
}

/* ---- what is asked of them ---- */

/* The rank that has the name tells it to all. */
static int tell(char **name, const fopo_names *names, size_t all, size_t i) {
  char digits[24];
  size_t r = fopo_comm_owner(i, all), first, n = 0;
  const char *mine = NULL;
  fopo_comm_own_share(&first, all);
  if (r == fopo_comm_own_rank()) {
    mine = names->text != NULL ? names->text + names->offsets[i - first]
                               : fopo_names_get(names, i - first, digits, sizeof digits);
    n = strlen(mine) + 1;
  }
  int status = fopo_comm_broadcast(&n, sizeof n, r);
  if (status != FOPO_OK) return status;
  *name = fopo_alloc(n, 1);
  status = fopo_comm_agree(*name != NULL ? FOPO_OK : FOPO_ERR_MEMORY);
  if (status == FOPO_OK && mine != NULL) memcpy(*name, mine, n);
  return status == FOPO_OK ? fopo_comm_broadcast(*name, n, r) : status;
}

int fopo_ranks_name(char **name, const fopo_names *names, size_t all, size_t i) {
  *name = NULL;
  if (are_indices(names)) {
    *name = fopo_alloc(24, 1);
    if (*name == NULL) return FOPO_ERR_MEMORY;
    fopo_names_get(names, i, *name, 24);
    return FOPO_OK;
  }
  fopo_comm_begin();
  return fopo_comm_end(tell(name, names, all, i));
}

int fopo_ranks_find_name(int64_t *at, const fopo_names *names, size_t all, const char *name) {
  int64_t every[FOPO_COMM_RANKS], mine = fopo_names_find(names, name);
  size_t first;
  *at = mine;
  if (are_indices(names)) return FOPO_OK;
  fopo_comm_own_share(&first, all);
  if (mine >= 0) mine += (int64_t)first;
  int status = fopo_comm_gather(every, &mine, sizeof mine);
  for (size_t r = 0; r < fopo_comm_ranks() && status == FOPO_OK; r++) {
    if (every[r] >= 0) *at = every[r];
  }
  return status;
}

/* ---- all of them ---- */

static int gather(fopo_names *whole, const fopo_names *names, size_t all, int everywhere) {
  size_t bytes[FOPO_COMM_RANKS], n[FOPO_COMM_RANKS], to[FOPO_COMM_RANKS] = {0};
  int is_text = names->text != NULL;
  if (!everywhere) {
    to[0] = names->n;
    return send_names(whole, n, names, to, is_text, FOPO_OK);
  }
  size_t mine = is_text ? (size_t)names->offsets[names->n] : names->n * sizeof *names->numbers;
  int status = fopo_comm_gather(bytes, &mine, sizeof mine);
  if (status != FOPO_OK) return status;
  char *to_all = fopo_alloc(sum_of(bytes), 1);
  const void *from = is_text ? (const void *)names->text : names->numbers;
  status = fopo_pieces_gather(to_all, from, bytes, FOPO_PIECE,
                              to_all != NULL ? FOPO_OK : FOPO_ERR_MEMORY);
  if (is_text) {
    whole->text = to_all;
    return status == FOPO_OK ? find_texts(whole, all) : status;
  }
  whole->numbers = (void *)to_all;
  whole->n = all;
  return status;
}

int fopo_ranks_gather_names(fopo_names *whole, const fopo_names *names, size_t all,
                            int everywhere) {
  *whole = (fopo_names){0};
  if (are_indices(names)) return fopo_names_copy(whole, names, 0, names->n);
  fopo_comm_begin();
  return fopo_comm_end(gather(whole, names, all, everywhere));
}
