/* flags x86_64: -mavx2 -mfma -mf16c */
/* The kernels over keys, words and ids for AVX2. It has no unsigned comparison: the sign bits are
 * flipped first. It cannot compress lanes: of four lanes, a table says where they go. */
#include "kernels/kernels_tables.h"

#if defined(__AVX2__)

#include <immintrin.h>

/* The set bits of i, ascending; then zeros. */
static const uint8_t bits_of[16][4] = {{0},    {0},       {1},       {0, 1},      {2},    {0, 2},
                                       {1, 2}, {0, 1, 2}, {3},       {0, 3},      {1, 3}, {0, 1, 3},
                                       {2, 3}, {0, 2, 3}, {1, 2, 3}, {0, 1, 2, 3}};

INLINE __m256i load(const void *at) { return _mm256_loadu_si256(at); }
INLINE void store(void *at, __m256i x) { _mm256_storeu_si256(at, x); }

/* ---- keys ---- */

/* Makes keys signed, in the same order, and back. */
INLINE __m256i flip(__m256i keys) {
  return _mm256_xor_si256(keys, _mm256_set1_epi64x((long long)((uint64_t)1 << 63)));
}

INLINE __m256i each(uint64_t key) { return _mm256_set1_epi64x((long long)key); }

/* a where the mask is all ones, b where it is 0. */
INLINE __m256i choose(__m256i mask, __m256i a, __m256i b) { return _mm256_blendv_epi8(b, a, mask); }

/* A mask of the first n <= 4 keys. */
INLINE __m256i first_keys(size_t n) {
  return _mm256_cmpgt_epi64(each(n), _mm256_setr_epi64x(0, 1, 2, 3));
}

/* Keys i .. i + 3; lanes beyond the n keys are those of `other`. */
INLINE __m256i keys_at(const uint64_t *keys, size_t i, size_t n, __m256i other) {
  if (n - i >= 4) return load(keys + i);
  __m256i lanes = first_keys(n - i);
  return choose(lanes, _mm256_maskload_epi64((const long long *)(const void *)(keys + i), lanes),
                other);
}

static size_t count_at_least(const uint64_t *keys, size_t n, uint64_t least) {
  __m256i bound = flip(each(least)), below = _mm256_setzero_si256();
  size_t i = 0;
  for (; i + 4 <= n; i += 4) { /* true is -1 */
    below = _mm256_sub_epi64(below, _mm256_cmpgt_epi64(bound, flip(load(keys + i))));
  }
  uint64_t part[4];
  store(part, below);
  size_t count = i - (part[0] + part[1] + part[2] + part[3]);
  for (; i < n; i++) count += keys[i] >= least;
  return count;
}

static uint64_t min_at_least(const uint64_t *keys, size_t n, uint64_t least) {
  __m256i bound = flip(each(least)), found = each(INT64_MAX);
  for (size_t i = 0; i < n; i += 4) {
    __m256i x = flip(keys_at(keys, i, n, each(UINT64_MAX)));
    __m256i worse = _mm256_or_si256(_mm256_cmpgt_epi64(bound, x), _mm256_cmpgt_epi64(x, found));
    found = choose(worse, found, x);
  }
  uint64_t part[4], min = UINT64_MAX;
  store(part, flip(found));
  for (size_t i = 0; i < 4; i++) min = part[i] < min ? part[i] : min;
  return min;
}

static uint64_t max_key(const uint64_t *keys, size_t n) {
  __m256i most = each((uint64_t)1 << 63);
  for (size_t i = 0; i < n; i += 4) {
    __m256i x = flip(keys_at(keys, i, n, each(0)));
    most = choose(_mm256_cmpgt_epi64(x, most), x, most);
  }
  uint64_t part[4], max = 0;
  store(part, flip(most));
  for (size_t i = 0; i < 4; i++) max = part[i] > max ? part[i] : max;
  return max;
}

uint64_t fopo_kth_avx2(const uint64_t *keys, size_t n, size_t k) {
  return fopo_kth(keys, n, k, (fopo_key_passes){count_at_least, min_at_least, max_key});
}

/* The four keys are stored where the first of them goes; what follows the kept ones is overwritten
 * by the next four. */
size_t fopo_partition_at_least_avx2(uint64_t *keys, size_t n, uint64_t least) {
  __m256i bound = flip(each(least));
  size_t kept = 0, i = 0;
  for (; i + 4 <= n; i += 4) {
    __m256i x = load(keys + i), below = _mm256_cmpgt_epi64(bound, flip(x));
    int stay = _mm256_movemask_pd(_mm256_castsi256_pd(below)) ^ 15;
    uint32_t lanes;
    memcpy(&lanes, bits_of[stay], sizeof lanes);
    /* 64-bit lane l is the 32-bit lanes 2 l and 2 l + 1. */
    __m256i lane = _mm256_slli_epi32(_mm256_cvtepu8_epi64(_mm_cvtsi32_si128((int)lanes)), 1);
    lane = _mm256_or_si256(lane, _mm256_slli_epi64(_mm256_add_epi64(lane, each(1)), 32));
    store(keys + kept, _mm256_permutevar8x32_epi32(x, lane));
    kept += (size_t)__builtin_popcount((unsigned)stay);
  }
  for (; i < n; i++) {
    uint64_t key = keys[i];
    keys[kept] = key;
    kept += key >= least;
  }
  return kept;
}

/* ---- sorting ---- */

/* Compare-exchange within a vector of signed keys: `other` is x with the lanes of each pair
 * swapped. A lane becomes the larger of its pair where `first` is all ones, else the smaller. */
INLINE __m256i exchange(__m256i x, __m256i other, __m256i first) {
  __m256i keep = _mm256_xor_si256(_mm256_cmpgt_epi64(other, x), first);
  return choose(keep, x, other);
}

/* Bitonic merge within a vector: the lanes, which are bitonic, become descending where `falling` is
 * all ones, ascending where it is 0. */
INLINE __m256i merge_lanes(__m256i x, __m256i falling) {
  const __m256i halves = _mm256_setr_epi64x(-1, -1, 0, 0), pairs = _mm256_setr_epi64x(-1, 0, -1, 0);
  __m256i rising = _mm256_xor_si256(falling, each(UINT64_MAX));
  x = exchange(x, _mm256_permute4x64_epi64(x, 0x4e), _mm256_xor_si256(halves, rising));
  return exchange(x, _mm256_shuffle_epi32(x, 0x4e), _mm256_xor_si256(pairs, rising));
}

/* Bitonic merge across vectors: each run of `size` vectors, which is bitonic, becomes descending or
 * ascending in turn. */
INLINE void merge_vectors(__m256i *x, size_t vectors, size_t size) {
  for (size_t stride = size / 2; stride > 0; stride /= 2) {
    for (size_t first = 0; first < vectors; first += 2 * stride) {
      __m256i rising = each((first & size) != 0 ? UINT64_MAX : 0);
      for (size_t i = first; i < first + stride; i++) {
        __m256i a = x[i], b = x[i + stride];
        __m256i swap = _mm256_xor_si256(_mm256_cmpgt_epi64(b, a), rising);
        x[i] = choose(swap, b, a);
        x[i + stride] = choose(swap, a, b);
      }
    }
  }
  for (size_t i = 0; i < vectors; i++) {
    x[i] = merge_lanes(x[i], each((i & size) != 0 ? 0 : UINT64_MAX));
  }
}

enum { SORT_VECTORS = 128 };

/* The bitonic sort of kernels_avx512.c, by four keys at a time. */
void fopo_sort_avx2(uint64_t *keys, size_t n) {
  __m256i x[SORT_VECTORS];
  size_t vectors = 1; /* ceil(n / 4), rounded up to a power of two */
  if (n > 4 * SORT_VECTORS) {
    fopo_sort_keys(keys, n);
    return;
  }
  const __m256i pairs = _mm256_setr_epi64x(-1, 0, 0, -1); /* falling, rising */
  while (4 * vectors < n) vectors *= 2;
  for (size_t i = 0; i < vectors; i++) {
    __m256i y = 4 * i < n ? keys_at(keys, 4 * i, n, each(0)) : each(0);
    y = flip(y);
    y = exchange(y, _mm256_shuffle_epi32(y, 0x4e), pairs);
    x[i] = merge_lanes(y, each((i & 1) != 0 ? 0 : UINT64_MAX));
  }
  for (size_t size = 2; size <= vectors; size *= 2) merge_vectors(x, vectors, size);
  for (size_t i = 0; 4 * i < n; i++) {
    _mm256_maskstore_epi64((long long *)(void *)(keys + 4 * i),
                           first_keys(n - 4 * i < 4 ? n - 4 * i : 4), flip(x[i]));
  }
}

/* ---- words and ids ---- */

/* Appends i + l for each of the four lanes l that is set; returns how many. Writes four places. */
INLINE size_t list_four(uint32_t *list, size_t i, unsigned lanes) {
  uint32_t bytes;
  memcpy(&bytes, bits_of[lanes], sizeof bytes);
  __m128i lane = _mm_cvtepu8_epi32(_mm_cvtsi32_si128((int)bytes));
  _mm_storeu_si128((void *)list, _mm_add_epi32(lane, _mm_set1_epi32((int)i)));
  return (size_t)__builtin_popcount(lanes);
}

/* The same of eight lanes. */
INLINE size_t list_eight(uint32_t *list, size_t i, __m256i lanes) {
  unsigned mask = (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(lanes));
  size_t found = list_four(list, i, mask & 15);
  return found + list_four(list + found, i + 4, mask >> 4);
}

size_t fopo_select_at_least_avx2(uint32_t *list, const uint32_t *words, size_t n, uint64_t least) {
  size_t found = 0, i = 0;
  if (least > UINT32_MAX) return 0;
  __m256i bound = _mm256_set1_epi32((int)(uint32_t)least);
  for (; i + 8 <= n; i += 8) {
    __m256i x = load(words + i);
    found += list_eight(list + found, i, _mm256_cmpeq_epi32(_mm256_max_epu32(x, bound), x));
  }
  for (; i < n; i++) {
    list[found] = (uint32_t)i;
    found += words[i] >= least;
  }
  return found;
}

size_t fopo_select_in_bloom_avx2(uint32_t *list, const uint32_t *ids, size_t n,
                                 const uint32_t *bloom, unsigned bits) {
  const __m256i factor = _mm256_set1_epi32((int)FOPO_HASH_FACTOR), last = _mm256_set1_epi32(31);
  const __m128i shift = _mm_cvtsi32_si128(32 - (int)bits);
  size_t found = 0, i = 0;
  for (; i + 8 <= n; i += 8) {
    __m256i hash = _mm256_srl_epi32(_mm256_mullo_epi32(load(ids + i), factor), shift);
    __m256i word =
        _mm256_i32gather_epi32((const int *)(const void *)bloom, _mm256_srli_epi32(hash, 5), 4);
    /* The bit of the hash is shifted to the sign. */
    __m256i held = _mm256_sllv_epi32(word, _mm256_andnot_si256(hash, last));
    if (_mm256_movemask_ps(_mm256_castsi256_ps(held)) != 0) {
      found += list_eight(list + found, i, held);
    }
  }
  for (; i < n; i++) {
    list[found] = (uint32_t)i;
    found += (size_t)fopo_bloom_may_hold(bloom, bits, ids[i]);
  }
  return found;
}

#endif
