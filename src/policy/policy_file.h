/* A policy as an .npz that a server, or NumPy, can use by itself. Its members:
 *
 *   format        "fopo policy 1"
 *   kind          the name of its kind
 *   theta [D, L]  or other parameters of the kind, by name: of an mlp W1 [D, h], b1 [h], W2, b2, ..
 *   activation    and other options of the kind that have FOPO_OPTION_SAVED: words, or float64
 *   temperature   float32
 *   contexts      "mean", "unit", ..: the encoder that makes contexts (contexts/encoders.def)
 *   item_weights [P]   if that encoder weighs the items: their weights
 *   seen          "mask" if the items of X are masked; else it is left out
 *   rows          "float32", ..: what training steps read
 *   items [P, L]  the embeddings that the policy was made with, of which contexts are made; or
 *   items_file    the path of a .npy that holds them, with items_shape [2] and items_crc (CRC-32
 *                 of the float32 values)
 *   learnt_items [P, L]   if it learns the items: those that it scores
 *   learn         what it learns, "W2, b2, items", if a part of theta is fixed; else it is left out
 *   provenance    what it was made of, JSON; not read in C
 *   items_numbers, or items_text and items_offsets   the names of the items, as data/names.h says
 *
 * A file without contexts, seen, rows or names is read as one with "mean", "keep", "float32" and no
 * names; one without learn learns all of theta. */
#ifndef FOPO_POLICY_POLICY_FILE_H
#define FOPO_POLICY_POLICY_FILE_H

#include "contexts/contexts.h"
#include "core/npz.h"
#include "data/names.h"
#include "policy/policy.h"

/* What to save; nothing is owned. */
typedef struct {
  const fopo_policy *policy;
  fopo_matrix initial;     /* [P, L] the items that it was made with */
  fopo_encoding encoding;  /* makes its contexts */
  const fopo_names *names; /* of the P items; NULL: not known */
  const char *items_file;  /* NULL: the items are saved in the policy's file. Else a .npy that must
                            * hold them */
  uint32_t items_crc;      /* of the items in that file, where they are dealt out */
  const char *provenance;  /* NULL: none */
} fopo_policy_saving;

int fopo_policy_save(const fopo_policy_saving *s, const char *path);

/* What a file says of its policy, apart from the arrays. */
typedef struct {
  const fopo_policy_kind *kind;
  fopo_policy_options options; /* D, the temperature, and those of the kind that are known */
  size_t P, L;
  char parameters[FOPO_POLICY_PARAMETERS + 1][FOPO_PARAMETER_NAME]; /* names of members; "" after
                                                                     * the last one */
  const fopo_encoder *encoder;
  int train_items, masks_seen;
  char learn[FOPO_POLICY_NAMES]; /* names of what it learns, not checked; "": the file has none */
  fopo_float rows;
  char items_file[4096]; /* "": the items are a member */
  uint32_t items_crc;    /* of the items in items_file */
  fopo_names names;      /* n == 0: none; owned */
} fopo_policy_loaded;

/* Reads the file and checks all of it: members, shapes that fit each other, finite numbers. The
 * arrays stay in the archive, as float32: the parameters, items, learnt_items, item_weights. On
 * failure nothing is left to free. */
int fopo_policy_load(fopo_policy_loaded *p, fopo_archive *archive, const char *path);
void fopo_policy_loaded_done(fopo_policy_loaded *p); /* accepts {0} */

/* A file that is being read, for the `load` of a kind. */
struct fopo_policy_file {
  fopo_archive *archive;
  const char *path;
  fopo_policy_loaded *facts;
};

/* Sets *rows and *cols to the shape of the parameter that is the member `name`, of finite numbers;
 * a vector has one column. A shape that is not 0 must be equal. */
int fopo_policy_file_matrix(fopo_policy_file *f, const char *name, int ndim, size_t *rows,
                            size_t *cols);

/* CRC-32 of the values, row after row. */
uint32_t fopo_items_crc(fopo_matrix items);

#endif
