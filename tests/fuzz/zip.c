/* A zip archive of stored members as a list, and back, with its CRCs made again: so a mutation
 * reaches what lies behind the checksums. Compressed members stay as they are. */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "fuzz.h"

enum { MEMBERS = 40, LOCAL = 30, CENTRAL = 46, END = 22, NAME = 80 };

typedef struct {
  char name[NAME];
  size_t name_n;
  unsigned method; /* 0: stored */
  uint32_t crc, size;
  const uint8_t *data; /* [n] as it lies in the archive */
  size_t n;
} member;

static unsigned two(const uint8_t *p) { return (unsigned)(p[0] | p[1] << 8); }
static uint32_t four(const uint8_t *p) { return two(p) | (uint32_t)two(p + 2) << 16; }

static uint8_t *put(uint8_t *p, uint32_t value, int bytes) {
  for (int i = 0; i < bytes; i++, value >>= 8) *p++ = (uint8_t)value;
  return p;
}

/* Reads the directory; the number of members, or 0 if it cannot be followed. */
static size_t take_apart(member *list, const uint8_t *zip, size_t n) {
  if (n < END) return 0;
  const uint8_t *end = zip + n - END;
  while (end > zip && memcmp(end, "PK\5\6", 4) != 0) end--;
  if (memcmp(end, "PK\5\6", 4) != 0) return 0;
  size_t count = two(end + 10), at = four(end + 16);
  if (count > MEMBERS) return 0;
  for (size_t i = 0; i < count; i++) {
    if (at + CENTRAL > n || memcmp(zip + at, "PK\1\2", 4) != 0) return 0;
    const uint8_t *c = zip + at;
    size_t name = two(c + 28), local = four(c + 42);
    member *m = &list[i];
    *m = (member){.method = two(c + 10), .crc = four(c + 16), .n = four(c + 20)};
    m->size = four(c + 24);
    if (name >= NAME || at + CENTRAL + name > n || local + LOCAL > n) return 0;
    memcpy(m->name, c + CENTRAL, m->name_n = name);
    size_t data = local + LOCAL + two(zip + local + 26) + two(zip + local + 28);
    if (data > n || m->n > n - data) return 0;
    m->data = zip + data;
    at += CENTRAL + name + two(c + 30) + two(c + 32);
  }
  return count;
}

static uint8_t *put_fields(uint8_t *p, const member *m) {
  p = put(put(put(put(p, 20, 2), 0, 2), m->method, 2), 0, 2); /* version, flags, method, time */
  p = put(put(p, 1 << 5 | 1, 2), m->crc, 4);
  p = put(put(p, (uint32_t)m->n, 4), m->size, 4);
  return put(put(p, (uint32_t)m->name_n, 2), 0, 2);
}

static uint8_t *put_bytes(uint8_t *p, const void *bytes, size_t n) {
  if (n > 0) memcpy(p, bytes, n);
  return p + n;
}

/* Writes the archive; its length, or 0 if it is longer than `most`. */
static size_t put_together(uint8_t *zip, size_t most, const member *list, size_t count) {
  size_t total = END;
  for (size_t i = 0; i < count; i++) total += LOCAL + CENTRAL + 2 * list[i].name_n + list[i].n;
  if (total > most) return 0;
  uint8_t *p = zip;
  size_t at[MEMBERS + 1];
  for (size_t i = 0; i < count; i++) {
    at[i] = (size_t)(p - zip);
    p = put_fields(put_bytes(p, "PK\3\4", 4), &list[i]);
    p = put_bytes(p, list[i].name, list[i].name_n);
    p = put_bytes(p, list[i].data, list[i].n);
  }
  size_t directory = (size_t)(p - zip);
  for (size_t i = 0; i < count; i++) {
    p = put_fields(put(put_bytes(p, "PK\1\2", 4), 20, 2), &list[i]);
    p = put(put(put(put(p, 0, 2), 0, 2), 0, 2), 0, 4); /* comment, disk, attributes */
    p = put(p, (uint32_t)at[i], 4);
    p = put_bytes(p, list[i].name, list[i].name_n);
  }
  size_t length = (size_t)(p - zip) - directory;
  p = put(put(put_bytes(p, "PK\5\6", 4), 0, 2), 0, 2);
  p = put(put(p, (uint32_t)count, 2), (uint32_t)count, 2);
  p = put(put(p, (uint32_t)length, 4), (uint32_t)directory, 4);
  return (size_t)(put(p, 0, 2) - zip);
}

/* Behind the header of an .npy: its data alone is changed, and keeps its length. */
static size_t header_of(const member *m) {
  return m->n > 10 && memcmp(m->data, "\x93NUMPY\1", 7) == 0 ? 10 + two(m->data + 8) : 0;
}

static void change_data(member *m, uint8_t *room, size_t most, uint32_t random,
                        fuzz_mutator *mutate) {
  size_t header = random % 4 == 0 ? 0 : header_of(m);
  if (m->method != 0 || m->n > most || header >= m->n) return;
  memcpy(room, m->data, m->n);
  size_t n = m->n - header;
  n = mutate(room + header, n, header > 0 ? n : most);
  if (header == 0) m->n = n; /* else the bytes behind a shorter result stay as they were */
  m->data = room;
  m->size = (uint32_t)m->n;
  m->crc = (uint32_t)crc32_z(crc32_z(0, NULL, 0), room, m->n);
}

/* The other changes: of a name, of the list, of what the directory says. */
static size_t change_list(member *list, size_t count, uint32_t random) {
  size_t i = random / 8 % count, j = random / 512 % count;
  member other = list[j];
  switch (random % 8) {
  case 0: list[i] = list[--count]; break;
  case 1: list[i].name[random / 512 % (list[i].name_n + 1)] ^= (char)(1 << random / 64 % 8); break;
  case 2: list[i].crc ^= 1u << random / 64 % 32; break;
  case 3: list[i].size += random / 512 % 3 - 1; break;
  case 4: list[count++] = other; break;
  case 5: list[i].method = random / 512 % 10; break;
  default: /* one member's data under the other's name */
    list[i].data = other.data;
    list[i].n = other.n;
    list[i].size = other.size;
    list[i].crc = other.crc;
    list[i].method = other.method;
    break;
  }
  return count;
}

size_t fuzz_mutate_zip(uint8_t *data, size_t n, size_t most, uint32_t random,
                       fuzz_mutator *mutate) {
  member list[MEMBERS + 1];
  size_t count = random % 16 == 0 ? 0 : take_apart(list, data, n);
  if (count == 0) return mutate(data, n, most);
  uint8_t *room = malloc(most), *out = malloc(most);
  random /= 16;
  if (random % 8 == 0) {
    count = change_list(list, count, random / 8);
  } else {
    change_data(&list[random / 8 % count], room, most, random / 512, mutate);
  }
  size_t made = put_together(out, most, list, count);
  if (made > 0) memcpy(data, out, made);
  free(room);
  free(out);
  return made > 0 ? made : n;
}
