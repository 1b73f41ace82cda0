/* What the program's own .npz files are told by. */
#include <string.h>

#include "core/npz.h"
#include "core/status.h"

typedef struct {
  const char *own;        /* as the reader of such files calls them */
  const char *what;       /* in a sentence */
  const char *call;       /* what reads them */
  const char *format;     /* how the member `format` begins; NULL: not told by it */
  const char *members[3]; /* that all are in such a file, ended by NULL */
} artefact;

static const artefact artefacts[] = {
    {"checkpoint", "the checkpoint of a trainer", "t:resume(path)", "fopo trainer", {NULL}},
    {"policy", "a policy", "fopo.policy.load(path)", "fopo policy", {NULL}},
    {"index", "an index", "fopo.index.load(path, items)", NULL, {"kind", "fingerprint", NULL}},
    {"log", "a log of events", "fopo.data.logs(path)", NULL, {"actions", "propensities", NULL}},
    {"dataset", "a dataset", "fopo.data.read(path)", NULL, {"indptr", "indices", NULL}}};

static int begins(const fopo_array *a, const char *text) {
  size_t n = strlen(text);
  return a != NULL && a->type == FOPO_BYTES && a->itemsize >= n && memcmp(a->data, text, n) == 0;
}

static int is(const artefact *one, const fopo_archive *archive) {
  if (one->format != NULL) return begins(fopo_archive_find(archive, "format"), one->format);
  for (int i = 0; one->members[i] != NULL; i++) {
    if (fopo_archive_find(archive, one->members[i]) == NULL) return 0;
  }
  return 1;
}

int fopo_archive_check(const fopo_archive *archive, const char *path, const char *wanted) {
  const char *instead = "";
  for (size_t i = 0; i < sizeof artefacts / sizeof *artefacts; i++) {
    if (strcmp(artefacts[i].own, wanted) == 0) instead = artefacts[i].what;
  }
  for (size_t i = 0; i < sizeof artefacts / sizeof *artefacts; i++) {
    const artefact *one = &artefacts[i];
    if (!is(one, archive)) continue;
    if (strcmp(one->own, wanted) == 0) return FOPO_OK;
    return fopo_fail(FOPO_ERR_FORMAT, "%s is %s, not %s; %s reads it", path, one->what,
                     *instead != '\0' ? instead : wanted, one->call);
  }
  return FOPO_OK;
}
