/* The dark colours are the palette of Okabe and Ito, which people with any colour vision can tell
 * apart; of the 256 colours, the nearest. The light ones are as far apart, and dark enough for a
 * contrast of 4.5 : 1 on white, which a test computes. */
#include "term/theme.h"

#include <stdlib.h>
#include <string.h>

static const fopo_colour inks[FOPO_THEMES][FOPO_INKS] = {
    [FOPO_THEME_DARK] =
        {
            [FOPO_INK_PLAIN] = {-1, -1, "#d8d8d8"},
            [FOPO_INK_DIM] = {244, -1, "#808080"},
            [FOPO_INK_BOLD] = {-1, -1, "#ffffff"},
            [FOPO_INK_BAR] = {-1, -1, "#1c1c1c"},
            [FOPO_INK_TRAIN] = {74, 6, "#56b4e9"},
            [FOPO_INK_VALID] = {214, 3, "#e69f00"},
            [FOPO_INK_INDEX] = {36, 2, "#009e73"},
            [FOPO_INK_RATE] = {175, 5, "#cc79a7"},
            [FOPO_INK_WARN] = {202, 1, "#d55e00"},
        },
    [FOPO_THEME_LIGHT] =
        {
            [FOPO_INK_PLAIN] = {-1, -1, "#1c1c1c"},
            [FOPO_INK_DIM] = {241, -1, "#626262"},
            [FOPO_INK_BOLD] = {-1, -1, "#000000"},
            [FOPO_INK_BAR] = {-1, -1, "#000000"},
            [FOPO_INK_TRAIN] = {25, 4, "#005faf"},
            [FOPO_INK_VALID] = {130, 1, "#a65200"},
            [FOPO_INK_INDEX] = {29, -1, "#007f5a"},
            [FOPO_INK_RATE] = {126, 5, "#af0087"},
            [FOPO_INK_WARN] = {160, 1, "#d70000"},
        },
};
static const char *const curves[FOPO_THEMES][FOPO_THEME_CURVES] = {
    {"36", "33", "35", "32", "31", "34"}, /* cyan, yellow, magenta, green, red, blue */
    {"38;5;25", "38;5;130", "38;5;126", "38;5;28", "38;5;160", "38;5;18"},
};
static const char *const paper[FOPO_THEMES] = {"#1c1c1c", "#ffffff"};
static const char *const bar[FOPO_THEMES] = {"#bcbcbc", "#d0d0d0"};

enum { UNKNOWN = -1 };

static int chosen = UNKNOWN, suggested = UNKNOWN; /* fopo_theme */

/* What the environment says, or UNKNOWN. COLORFGBG is "foreground;background" or
 * "foreground;default;background", of 16 colours. */
static int told(void) {
  const char *wanted = getenv("FOPO_THEME"), *told = getenv("COLORFGBG");
  if (wanted != NULL && strcmp(wanted, "light") == 0) return FOPO_THEME_LIGHT;
  if (wanted != NULL && strcmp(wanted, "dark") == 0) return FOPO_THEME_DARK;
  const char *last = told != NULL ? strrchr(told, ';') : NULL;
  if (last == NULL || last[1] < '0' || last[1] > '9') return UNKNOWN;
  int background = atoi(last + 1);
  return background == 7 || (background >= 9 && background <= 15) ? FOPO_THEME_LIGHT
                                                                  : FOPO_THEME_DARK;
}

fopo_theme fopo_theme_get(void) {
  int theme = chosen != UNKNOWN ? chosen : told();
  if (theme == UNKNOWN) theme = suggested;
  return theme == UNKNOWN ? FOPO_THEME_DARK : (fopo_theme)theme;
}

int fopo_theme_is_named(void) { return chosen != UNKNOWN || told() != UNKNOWN; }

void fopo_theme_suggest(fopo_theme theme) { suggested = (int)theme; }

void fopo_theme_set(fopo_theme theme) { chosen = (int)theme; }

const fopo_colour *fopo_theme_ink(fopo_theme theme, fopo_ink ink) { return &inks[theme][ink]; }

const char *fopo_theme_curve(fopo_theme theme, size_t series) {
  return curves[theme][series % FOPO_THEME_CURVES];
}

const char *fopo_theme_paper(fopo_theme theme) { return paper[theme]; }

const char *fopo_theme_bar(fopo_theme theme) { return bar[theme]; }
