/* Text from outside (names of files, cells of tables) for a terminal: control characters could move
 * the cursor, change the title or hide what follows. */
#ifndef FOPO_CORE_PLAIN_H
#define FOPO_CORE_PLAIN_H

#include <stddef.h>
#include <stdint.h>

/* Copies the text of n bytes to `to` [size], size >= 1, with \x1b for each control character
 * (U+0000 to U+001F, U+007F to U+009F) but line ends and TAB; what does not fit is cut off. Returns
 * the length. */
size_t fopo_plain(char *to, size_t size, const char *text, size_t n);

/* Writes a code point as UTF-8: 1 to 4 bytes, their number. */
size_t fopo_utf8(char *to, uint32_t code);

#endif
