/* Options of a synthetic world: defaults, refusals, and the twins of real sets. */
#include <math.h>
#include <string.h>

#include "core/status.h"
#include "data/world/synthetic.h"

/* ---- defaults and refusals --------------------------------------------------------------------*/

static void fill_defaults(fopo_world_options *o) {
  if (o->users == 0) o->users = 20000;
  if (o->items == 0) o->items = 100000;
  if (o->clusters == 0) o->clusters = 300;
  if (o->tastes == 0) o->tastes = 2;
  if (o->mean_items == 0) o->mean_items = 40;
  if (o->zipf == 0) o->zipf = 1;
  if (o->spread == 0) o->spread = 0.7; /* median 0.78 means, 99th percentile 4 means */
  if (o->least_items == 0) o->least_items = 2;
}

static int check_shape(const fopo_world_options *o) {
  if (!(o->appeal >= 0 && o->appeal <= 10)) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "appeal is %g; use 0 <= appeal <= 10", o->appeal);
  }
  if (!(o->spread > 0 && o->spread <= 3)) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "spread is %g; use 0 < spread <= 3", o->spread);
  }
  if (o->least_items > o->items) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "a session cannot have %zu of %zu items; use least_items <= items",
                     o->least_items, o->items);
  }
  return FOPO_OK;
}

static int check_options(const fopo_world_options *o) {
  if (o->users >= UINT32_MAX || o->items >= UINT32_MAX) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "a world of %zu users and %zu items is too large; the "
                     "limit is %u of each",
                     o->users, o->items, UINT32_MAX - 1);
  }
  if (o->items < 2) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "a world of 1 item has nothing to choose; use items >= 2");
  }
  if (o->clusters > o->items) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "%zu clusters do not fit %zu items; use clusters <= items",
                     o->clusters, o->items);
  }
  if (o->tastes > o->clusters) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "a user cannot like %zu of %zu clusters; use tastes <= "
                     "clusters",
                     o->tastes, o->clusters);
  }
  if (!(o->mean_items >= 2 && o->mean_items <= 1e6)) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "mean_items is %g; use 2 <= mean_items <= 1e6",
                     o->mean_items);
  }
  if (!(o->zipf >= 0 && o->zipf <= 10)) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "zipf is %g; use 0 < zipf <= 10", o->zipf);
  }
  if (!(o->noise >= 0 && o->noise < 1)) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "noise is %g, a share of the interactions; use 0 <= noise "
                     "< 1",
                     o->noise);
  }
  return check_shape(o);
}

int fopo_world_options_complete(fopo_world_options *o) {
  fill_defaults(o);
  return check_options(o);
}

/* ---- twins ------------------------------------------------------------------------------------*/

/* What is published of the two sets of the paper, and what is not.
 *
 * Both: sizes after the authors' preparation (Table 1 of the paper: 790 K items and 500 K users,
 * 2.33 M and 300 K), and sessions of 20 or more different items (their code).
 *
 * Twitch. LiveRec's README counts 15.5 M users, 465 K streamers and 124 M rows in full_a.csv; the
 * paper's 790 K items are more than that, and are taken as they stand. The rest follows the subset
 * of 100,000 users, as counted in public (github.com/FuugaMo/Twitch-Livestream-EDA, folder
 * tableau_exports: streamer_viewer_distribution, loyalty_distribution, rfm_user_segments):
 * 3,051,733 rows are 1,505,158 pairs, 2.03 rows each; the 16, 163, 1,626, 8,131, 16,262 and 32,525
 * most watched of 162,625 streamers have 7.4, 23.2, 52.5, 73.7, 81.1 and 87.5 % of the pairs; of
 * the users with 41 rows or more the number of rows has mean 80.1, median 69, 90th and 99th
 * percentile 131 and 202.
 * Assumed: that a user's pairs are rows / 2.03, so that 41 rows are the 20 items (mean 39.5, median
 * 34, 65 and 100); that the shares hold for the same numbers of streamers in the full set; and the
 * clusters, which nobody published.
 *
 * GoodReads. The authors of the set count 228,648,342 rows, 112,131,203 with is_read = 1, by
 * 876,145 users on 2,360,655 books, no pair twice, and show the distributions of both on double
 * logarithmic axes (github.com/MengtingWan/goodreads, distributions.ipynb). Read off the curves of
 * rated books, which hide those of read ones (104.6 M rows): about 612,000 users have 20 or more;
 * of these the median is 81 and the 90th percentile 360, and the mean 168 follows from the total;
 * the 3.65, 9.73, 18.8, 29.9 and 55.5 % most rated books have 71, 85, 91, 95 and 98 % of the rows.
 * Assumed: that read books are as rated ones, a little more of them (mean 175), and the clusters.
 *
 * The options below were fitted to these figures; test_twins.c holds the worlds to them. */
static const struct {
  const char *name;
  fopo_world_options full;
} twins[] = {{"twitch",
              {.users = 500000,
               .items = 790000,
               .clusters = 400,
               .tastes = 4,
               .mean_items = 66.8,
               .zipf = 1.42,
               .noise = 0.01,
               .appeal = 1,
               .spread = 0.68,
               .least_items = 20}},
             {"goodreads",
              {.users = 300000,
               .items = 2330000,
               .clusters = 1000,
               .tastes = 8,
               .mean_items = 258,
               .zipf = 1.1,
               .noise = 0.01,
               .appeal = 1,
               .spread = 1.55,
               .least_items = 20,
               .ones = 1}}};

const char *fopo_world_twin_name(size_t i) {
  return i < sizeof twins / sizeof *twins ? twins[i].name : NULL;
}

int fopo_world_twin(fopo_world_options *o, const char *name, double fraction) {
  size_t i = 0;
  while (fopo_world_twin_name(i) != NULL && strcmp(fopo_world_twin_name(i), name) != 0) i++;
  if (fopo_world_twin_name(i) == NULL) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "there is no twin of \"%.40s\"", name);
  }
  if (!(fraction > 0 && fraction <= 1)) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "fraction is %g; use 0 < fraction <= 1", fraction);
  }
  *o = twins[i].full;
  o->users = (size_t)fmax(1, round((double)o->users * fraction));
  o->items = (size_t)fmax(100, round((double)o->items * fraction));
  o->clusters = (size_t)fmax((double)o->tastes, round((double)o->clusters * sqrt(fraction)));
  return FOPO_OK;
}
