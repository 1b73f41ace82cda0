"""README's pictures of a lesson: FOLDER/lesson-dark.svg and lesson-light.svg.

    python3 scripts/tools/lesson_picture.py FOLDER    (make pictures writes docs/)

A step of lesson 1 is played at a pseudo-terminal, and the screen is written as fopo writes its own
in SVG. $FOPO is the program (./fopo). The portable kernels give the same numbers on every CPU.
"""
import html
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests"))
from terminal import Program  # noqa: E402

ROWS, COLS = 60, 80
WIDTH, HEIGHT, MARGIN = 9, 18, 8  # of a cell, and around all, as src/term/screen.c has them
BASIC = ("#000000", "#cd0000", "#00cd00", "#cdcd00", "#5c5cff", "#cd00cd", "#00cdcd", "#e5e5e5")
THEMES = {"dark": ("#1c1c1c", "#d8d8d8", "#ffffff"), "light": ("#ffffff", "#1c1c1c", "#000000")}


def played(theme):
    """The rows of the second step's screen: its code, the question, the plot and the answer."""
    p = Program([os.path.abspath(os.environ.get("FOPO", "./fopo")), "--no-init"], ROWS, COLS,
                FOPO_HISTORY="/dev/null", FOPO_ISA="portable", FOPO_THEME=theme,
                INPUTRC="/dev/null")

    def until(wanted):
        if not p.wait(wanted):
            raise SystemExit("lesson_picture.py: %r did not come:\n%s" % (wanted, p.screen.text()))

    until("fopo>")
    for typed, wanted in (("fopo.demo(1)", "prediction:"), ("", "q leaves:"), ("", "prediction:"),
                          ("2", "q leaves:")):
        if typed != "2":
            p.screen.resize(ROWS, COLS)
        p.send(typed + "\r")
        until(wanted)
    rows = [list(row) for row in p.screen.cells]
    p.close()
    shown = [i for i, row in enumerate(rows) if "".join(row).strip()]
    return rows[shown[0]:shown[-1] + 1]


def colour_of(cell, theme):
    plain, bold = THEMES[theme][1:]
    code = getattr(cell, "colour", "")
    if not code:
        return bold if getattr(cell, "bold", False) else plain
    if not code.startswith("38;5;"):
        return BASIC[int(code) - 30]
    n = int(code[5:])
    if n >= 232:
        return "#" + 3 * ("%02x" % (8 + 10 * (n - 232)))
    levels = (0, 95, 135, 175, 215, 255)
    return "#%02x%02x%02x" % tuple(levels[(n - 16) // x % 6] for x in (36, 6, 1))


def look(cell, theme):
    return colour_of(cell, theme), getattr(cell, "bold", False)


def svg(rows, theme):
    width, height = COLS * WIDTH + 2 * MARGIN, len(rows) * HEIGHT + 2 * MARGIN
    out = ['<?xml version="1.0" encoding="UTF-8"?>',
           '<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" '
           'font-family="DejaVu Sans Mono, monospace" font-size="15">'
           % (width, height, width, height),
           '<rect width="100%%" height="100%%" fill="%s"/>' % THEMES[theme][0]]
    for y, row in enumerate(rows):
        last = len("".join(row).rstrip())
        start = 0
        while start < last:
            end = start + 1
            while end < last and look(row[end], theme) == look(row[start], theme):
                end += 1
            text, (colour, bold) = "".join(row[start:end]), look(row[start], theme)
            blanks, text = len(text) - len(text.lstrip()), text.strip()
            if text:
                out.append('<text x="%d" y="%d" textLength="%d" fill="%s"%s>%s</text>' % (
                    MARGIN + (start + blanks) * WIDTH, MARGIN + y * HEIGHT + 14,
                    len(text) * WIDTH, colour, ' font-weight="bold"' if bold else "",
                    html.escape(text, quote=False).replace(" ", "\u00a0")))
            start = end
    return "\n".join(out + ["</svg>\n"])


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    for theme in THEMES:
        picture = svg(played(theme), theme)
        with open(os.path.join(sys.argv[1], "lesson-%s.svg" % theme), "w", encoding="utf-8") as f:
            f.write(picture)


if __name__ == "__main__":
    main()
