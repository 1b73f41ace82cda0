/* The terminal's background, asked of the terminal itself (OSC 11), for the theme.
 *
 * The answer comes among the keys, at once, late or never. So nothing waits for it: the question is
 * written when the prompt begins to read, and the keys pass through here, which takes the answer
 * out, whenever it comes. Only terminals are asked that are known to understand the question, and
 * only if neither the user nor the environment has named a theme. */
#ifndef FOPO_TERM_BACKGROUND_H
#define FOPO_TERM_BACKGROUND_H

/* Writes the question, the first time; the terminal must not echo what it answers. */
void fopo_background_ask(void);

/* The next key: one kept from before, or read_key(data), or what follows the answer. EOF as that
 * function. */
int fopo_background_key(int (*read_key)(void *data), void *data, int fd);

#endif
