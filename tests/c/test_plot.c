/* The text of plots is compared as a whole; what cannot be drawn is refused or said. */
#include <math.h>

#include "checks.h"
#include "term/dots.h"
#include "term/plot.h"
#include "term/progress.h"

static const double ramp[5] = {0, 1, 2, 3, 4};
static const double squares[5] = {0, 1, 4, 9, 16};

static void expect(const fopo_plot *plot, const char *wanted) {
  FREED(fopo_free) char *text = NULL;
  ok(fopo_plot_text(&text, plot));
  assert_string_equal(text, wanted);
}

TEST(ascii) {
  fopo_series s = {"squares", ramp, squares, 5};
  expect(&(fopo_plot){.series = &s,
                      .n_series = 1,
                      .title = "t",
                      .xlabel = "x",
                      .ylabel = "y",
                      .width = 28,
                      .height = 6},
         "               t\n"
         "y\n"
         "   |                      **\n"
         "   |                   ***\n"
         "10 +                ***\n"
         "   |              **\n"
         "   |         *****\n"
         " 0 +*********\n"
         "   ++-----------+----------+\n"
         "    0           2          4\n"
         "               x\n"
         "    * squares\n");
}

TEST(points_are_not_joined) {
  fopo_series s = {NULL, ramp, ramp, 5};
  expect(&(fopo_plot){.series = &s, .n_series = 1, .points = 1, .width = 24, .height = 5},
         "4 +                    *\n"
         "  |               *\n"
         "2 +          *\n"
         "  |     *\n"
         "0 +*\n"
         "  ++---------+---------+\n"
         "   0         2         4\n");
}

/* A terminal without braille has two dots by two in a cell. */
TEST(blocks) {
  fopo_series s = {NULL, ramp, ramp, 5};
  expect(
      &(fopo_plot){.series = &s, .n_series = 1, .width = 24, .height = 3, .utf8 = 1, .blocks = 1},
      "4 ┤              ▗▄▄▄▀▀▀\n"
      "2 ┤        ▄▄▄▄▀▀▘\n"
      "0 ┤▄▄▞▀▀▀▀▀\n"
      "  └┬─────────┬─────────┬\n"
      "   0         2         4\n");
}

TEST(braille) {
  fopo_series s = {NULL, ramp, ramp, 5};
  expect(&(fopo_plot){.series = &s, .n_series = 1, .width = 24, .height = 3, .utf8 = 1},
         "4 ┤               ⣀⡠⠤⠒⠒⠉\n"
         "2 ┤      ⢀⣀⣀⡠⠤⠔⠒⠉⠉\n"
         "0 ┤⣀⠤⠔⠒⠊⠉⠁\n"
         "  └┬─────────┬─────────┬\n"
         "   0         2         4\n");
}

TEST(series_are_told_apart) {
  fopo_series s[2] = {{"a", ramp, ramp, 5}, {"b\033[2J", ramp, squares, 5}};
  fopo_plot plot = {.series = s, .n_series = 2, .width = 40, .height = 8, .utf8 = 1};
  FREED(fopo_free) char *text = NULL;
  ok(fopo_plot_text(&text, &plot));
  assert_non_null(strchr(text, '*'));
  assert_non_null(strchr(text, 'o'));
  assert_null(strchr(text, '\033')); /* neither colours nor what stands in a name */
  assert_non_null(strstr(text, "o b?[2J\n"));
  fopo_free(text);
  plot.colour = 1;
  ok(fopo_plot_text(&text, &plot));
  assert_non_null(strstr(text, "\033[36m"));
  assert_non_null(strstr(text, "\033[33m"));
}

TEST(log_scale) {
  double y[5] = {0, 1, 10, 100, 1000};
  fopo_series s = {NULL, ramp, y, 5};
  expect(&(fopo_plot){.series = &s, .n_series = 1, .logy = 1, .width = 26, .height = 7},
         "    |                   **\n"
         "    |               ****\n"
         "100 +            ***\n"
         "    |         ***\n"
         "    |      ***\n"
         "    |  ****\n"
         "  1 +**\n"
         "    +-------+------------+\n"
         "            2            4\n"
         "     (1 point not shown: not finite, or not positive)\n");
}

TEST(gaps) {
  double y[5] = {1, NAN, 1, INFINITY, 1};
  fopo_series s = {NULL, ramp, y, 5};
  expect(&(fopo_plot){.series = &s, .n_series = 1, .width = 26, .height = 3},
         "1.1 +\n"
         "1.0 +*         *         *\n"
         "0.9 +\n"
         "    ++---------+---------+\n"
         "     0         2         4\n"
         "     (2 points not shown: not finite)\n");
}

TEST(refusals) {
  double bad[2] = {NAN, -1};
  fopo_series s = {NULL, ramp, bad, 2};
  char *text;
  assert_int_equal(fopo_plot_text(&text, &(fopo_plot){.series = &s, .n_series = 1, .logy = 1}),
                   FOPO_ERR_ARGUMENT);
  assert_null(text);
  says("nothing to plot");
  assert_int_equal(fopo_plot_text(&text, &(fopo_plot){0}), FOPO_ERR_ARGUMENT);
  assert_int_equal(fopo_plot_text(&text, &(fopo_plot){.series = &s, .n_series = 1, .width = 5}),
                   FOPO_ERR_ARGUMENT);
}

/* Any numbers, any size: whole lines, none longer than the width, nothing outside the canvas. */
TEST(extremes) {
  static const double odd[] = {0,      -0.0,      1,         1 + 1e-15, -1,  1e-320,
                               5e-324, 1e299,     -1e299,    1e308,     NAN, INFINITY,
                               1e-299, 123456789, 123456790, 1e15,      1e-7};
  enum { ODD = sizeof odd / sizeof *odd };
  srand(1);
  for (int trial = 0; trial < 4000; trial++) {
    double x[6], y[6];
    int n = 1 + rand() % 6;
    for (int i = 0; i < n; i++) x[i] = odd[rand() % ODD], y[i] = odd[rand() % ODD];
    fopo_series s = {"s", x, y, (size_t)n};
    fopo_plot plot = {.series = &s,
                      .n_series = 1,
                      .width = 24 + rand() % 60,
                      .height = 3 + rand() % 20,
                      .logx = rand() % 2,
                      .logy = rand() % 2};
    FREED(fopo_free) char *text = NULL;
    if (fopo_plot_text(&text, &plot) != FOPO_OK) continue;
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
      if (strstr(line, "not shown") == NULL) assert_true(strlen(line) <= (size_t)plot.width);
    }
  }
}

TEST(bars) {
  char line[256];
  fopo_progress_bar_text(line, sizeof line, "reading a.csv", 50, 100, 1.5, 80);
  assert_string_equal(line, "reading a.csv  [##########..........]  50 %  1.5 s, 1.5 s left");
  fopo_progress_bar_text(line, sizeof line, "reading a.csv", 200, 100, 75, 80);
  assert_string_equal(line, "reading a.csv  [####################] 100 %  1:15, 0.0 s left");
  fopo_progress_bar_text(line, sizeof line, "reading a.csv", 3, 0, 3661, 80);
  assert_string_equal(line, "reading a.csv  1:01:01");
  fopo_progress_bar_text(line, sizeof line, "reading a.csv", 1, 4, 2, 12);
  assert_string_equal(line, " 25 %  readi");
}

/* The dots of a line in their order. */
typedef struct {
  int n, x[64], y[64];
} trail;

static void leave_dot(void *canvas, int x, int y) {
  trail *t = canvas;
  assert_true(t->n < 64);
  t->x[t->n] = x;
  t->y[t->n++] = y;
}

/* A line goes from its start to its end, a dot at a time, in every direction. */
TEST(lines_reach_their_ends) {
  for (int x = -9; x <= 9; x++) {
    for (int y = -9; y <= 9; y++) {
      trail t = {0};
      fopo_dots_line(leave_dot, &t, 3, 4, 3 + x, 4 + y);
      assert_int_equal(t.n, 1 + (abs(x) > abs(y) ? abs(x) : abs(y)));
      assert_true(t.x[0] == 3 && t.y[0] == 4);
      assert_true(t.x[t.n - 1] == 3 + x && t.y[t.n - 1] == 4 + y);
      for (int i = 1; i < t.n; i++) {
        assert_true(abs(t.x[i] - t.x[i - 1]) <= 1 && abs(t.y[i] - t.y[i - 1]) <= 1);
      }
    }
  }
}

int main(void) { return run_all(NULL, NULL); }
