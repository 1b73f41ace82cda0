#include "term/screen.h"

#include <stdio.h>
#include <string.h>
#include <wchar.h>

#include "core/memory.h"
#include "core/plain.h"
#include "core/status.h"
#include "term/string.h"

int fopo_screen_resize(fopo_screen *s, int rows, int cols) {
  rows = rows < 1 ? 1 : rows > FOPO_SCREEN_MOST ? FOPO_SCREEN_MOST : rows;
  cols = cols < 1 ? 1 : cols > FOPO_SCREEN_MOST ? FOPO_SCREEN_MOST : cols;
  if (s->cells == NULL || rows != s->rows || cols != s->cols) {
    fopo_cell *cells = fopo_alloc((size_t)rows * (size_t)cols, sizeof *cells);
    if (cells == NULL) return FOPO_ERR_MEMORY;
    fopo_free(s->cells);
    *s = (fopo_screen){rows, cols, cells};
  }
  fopo_screen_clear(s);
  return FOPO_OK;
}

void fopo_screen_done(fopo_screen *s) {
  fopo_free(s->cells);
  *s = (fopo_screen){0};
}

void fopo_screen_clear(fopo_screen *s) {
  size_t n = (size_t)s->rows * (size_t)s->cols;
  for (size_t i = 0; i < n; i++) s->cells[i] = (fopo_cell){' ', FOPO_INK_PLAIN};
}

void fopo_screen_set(fopo_screen *s, int row, int col, uint32_t code, fopo_ink ink) {
  if (row < 0 || col < 0 || row >= s->rows || col >= s->cols) return;
  s->cells[(size_t)row * (size_t)s->cols + (size_t)col] = (fopo_cell){code, ink};
}

/* Returns the next character of UTF-8 text and advances *text; '?' for a byte that begins none. */
static uint32_t next(const char **text) {
  const unsigned char *t = (const unsigned char *)*text;
  int more = t[0] < 0x80             ? 0
             : (t[0] & 0xE0) == 0xC0 ? 1
             : (t[0] & 0xF0) == 0xE0 ? 2
             : (t[0] & 0xF8) == 0xF0 ? 3
                                     : -1;
  uint32_t code = more == 0 ? t[0] : more > 0 ? t[0] & (0x3Fu >> more) : '?';
  int i = 1;
  for (; i <= more; i++) {
    if ((t[i] & 0xC0) != 0x80) {
      code = '?';
      break;
    }
    code = code << 6 | (t[i] & 0x3Fu);
  }
  *text += i;
  if (code >= 0x2500 && code <= 0x28FF) {
    return code; /* box drawing to braille: one column in any locale */
  }
  if (code < 32 || code == 127) return '?';
  return code < 127 || wcwidth((wchar_t)code) == 1 ? code : '?';
}

int fopo_screen_put(fopo_screen *s, int row, int col, int width, fopo_ink ink, const char *text) {
  int used = 0;
  while (*text != '\0' && used < width) fopo_screen_set(s, row, col + used++, next(&text), ink);
  return used;
}

int fopo_screen_width(const char *text) {
  int used = 0;
  while (*text != '\0') next(&text), used++;
  return used;
}

void fopo_screen_cut(char *text, int width) {
  if (fopo_screen_width(text) <= width) return;
  const char *at = text;
  size_t end = 0;
  for (int used = 0; used <= width && *at != '\0'; used++) {
    int behind = *at == ' ' || (strchr(",:;", *at) != NULL && at[1] == ' ');
    if (behind && at > text && at[-1] != ' ') end = (size_t)(at - text);
    next(&at);
  }
  while (end > 0 && strchr(",:;", text[end - 1]) != NULL) end--;
  if (end > 0) text[end] = '\0';
}

/* ---- as text ---- */

static void put_code(fopo_string *b, uint32_t code) {
  char bytes[4];
  fopo_string_put_bytes(b, bytes, fopo_utf8(bytes, code));
}

static const fopo_cell *row_of(const fopo_screen *s, int row) {
  return s->cells + (size_t)row * (size_t)s->cols;
}

/* Columns up to the last that is not blank. */
static int length(const fopo_screen *s, int row) {
  const fopo_cell *cells = row_of(s, row);
  int n = s->cols;
  while (n > 0 && cells[n - 1].code == ' ' && cells[n - 1].ink != FOPO_INK_BAR) n--;
  return n;
}

static int finish(char **text, fopo_string *b) {
  if (b->status == FOPO_OK) {
    *text = b->s;
  } else {
    fopo_free(b->s);
    *text = NULL;
  }
  return b->status;
}

int fopo_screen_text(char **text, const fopo_screen *s) {
  fopo_string b = {0};
  for (int row = 0; row < s->rows; row++) {
    for (int col = 0; col < length(s, row); col++) put_code(&b, row_of(s, row)[col].code);
    while (b.n > 0 && b.s[b.n - 1] == ' ') b.n--; /* blanks of a bar */
    fopo_string_put(&b, "\n");
  }
  return finish(text, &b);
}

/* The SGR parameters of an ink. */
static void put_look(fopo_string *b, uint32_t ink) {
  char look[16] = "0";
  short rich = fopo_theme_ink(fopo_theme_get(), (fopo_ink)ink)->rich;
  if (rich >= 0) snprintf(look, sizeof look, "38;5;%d", rich);
  fopo_string_put(b, ink == FOPO_INK_BOLD ? "1" : ink == FOPO_INK_BAR ? "7" : look);
}

int fopo_screen_ansi(char **text, const fopo_screen *s) {
  fopo_string b = {0};
  for (int row = 0; row < s->rows; row++) {
    uint32_t ink = FOPO_INK_PLAIN;
    for (int col = 0; col < length(s, row); col++) {
      const fopo_cell *cell = &row_of(s, row)[col];
      if (cell->ink != ink) {
        int both = ink != FOPO_INK_PLAIN && cell->ink != FOPO_INK_PLAIN;
        fopo_string_put(&b, both ? "\033[0;" : "\033[");
        put_look(&b, cell->ink);
        fopo_string_put(&b, "m");
        ink = cell->ink;
      }
      put_code(&b, cell->code);
    }
    fopo_string_put(&b, ink != FOPO_INK_PLAIN ? "\033[0m\n" : "\n");
  }
  return finish(text, &b);
}

/* ---- as a picture ---- */

enum { CELL_WIDTH = 9, CELL_HEIGHT = 18, MARGIN = 8 }; /* of SVG units */

static void put_escaped(fopo_string *b, uint32_t code) {
  if (code == '<') {
    fopo_string_put(b, "&lt;");
  } else if (code == '>') {
    fopo_string_put(b, "&gt;");
  } else if (code == '&') {
    fopo_string_put(b, "&amp;");
  } else {
    put_code(b, code);
  }
}

/* The cells [from, to) of a row, all of one ink, as an SVG text of exactly their width. */
static void put_run(fopo_string *b, const fopo_screen *s, int row, int from, int to) {
  const fopo_cell *cells = row_of(s, row);
  char head[256];
  int x = MARGIN + from * CELL_WIDTH, y = MARGIN + row * CELL_HEIGHT;
  int width = (to - from) * CELL_WIDTH;
  uint32_t ink = cells[from].ink;
  fopo_theme theme = fopo_theme_get();
  if (ink == FOPO_INK_BAR) {
    snprintf(head, sizeof head,
             "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\"/>\n", x, y, width,
             CELL_HEIGHT, fopo_theme_bar(theme));
    fopo_string_put(b, head);
  }
  while (from < to && cells[from].code == ' ') from++; /* some viewers drop blanks at the ends */
  while (from < to && cells[to - 1].code == ' ') to--;
  if (from == to) return;
  x = MARGIN + from * CELL_WIDTH;
  width = (to - from) * CELL_WIDTH;
  snprintf(head, sizeof head, "<text x=\"%d\" y=\"%d\" textLength=\"%d\" fill=\"%s\"%s>", x, y + 14,
           width, fopo_theme_ink(theme, (fopo_ink)ink)->svg,
           ink == FOPO_INK_BOLD ? " font-weight=\"bold\"" : "");
  fopo_string_put(b, head);
  for (int i = from; i < to; i++) {
    if (cells[i].code == ' ') {
      fopo_string_put(b, "\xC2\xA0"); /* no-break space: SVG drops plain blanks */
    } else {
      put_escaped(b, cells[i].code);
    }
  }
  fopo_string_put(b, "</text>\n");
}

int fopo_screen_svg(char **text, const fopo_screen *s) {
  fopo_string b = {0};
  char head[512];
  int width = s->cols * CELL_WIDTH + 2 * MARGIN, height = s->rows * CELL_HEIGHT + 2 * MARGIN;
  snprintf(head, sizeof head,
           "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
           "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
           "viewBox=\"0 0 %d %d\" font-family=\"DejaVu Sans Mono, monospace\" font-size=\"15\">\n"
           "<rect width=\"100%%\" height=\"100%%\" fill=\"%s\"/>\n",
           width, height, width, height, fopo_theme_paper(fopo_theme_get()));
  fopo_string_put(&b, head);
  for (int row = 0; row < s->rows; row++) {
    int n = length(s, row);
    for (int from = 0, to; from < n; from = to) {
      for (to = from + 1; to < n && row_of(s, row)[to].ink == row_of(s, row)[from].ink;) to++;
      put_run(&b, s, row, from, to);
    }
  }
  fopo_string_put(&b, "</svg>\n");
  return finish(text, &b);
}
