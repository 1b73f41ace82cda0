"""Where a source of C can be mutated, and how: constants, comparisons, signs, logic, and terms and
statements that are dropped. Comments, strings and lines of the preprocessor are left alone, as is
what guards memory or says a sentence: see SPARED."""
import re

# What changes nothing that a test can see: sentences, assertions, reading ahead of memory, how much
# of it is reserved, the size of blocks, how many threads there are, and how often one asks for an
# interruption.
SPARED = re.compile(r"fail\(|printf|assert\(|prefetch|__attribute__|alloc|sizeof|RENEW|reserve|"
                    r"BLOCK|\bchar \w+\[|fopo_threads|progress|interrupted|clock|\benum\b|"
                    r"^\s*(typedef|extern)|NULL")

TWINS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "+": "-", "-": "+",
         "*": "/", "/": "*", "&&": "||", "||": "&&", "+=": "-=", "-=": "+=", "*=": "/=", "/=": "*="}
BINARY = re.compile(r" (<=|>=|==|!=|&&|\|\||\+=|-=|\*=|/=|[<>+*/-]) (?=\S)")
NUMBER = re.compile(r"(?<![\w.\"])(\d+\.\d*(?:e-?\d+)?|\d+e-?\d+|\d+)(f?)(?![\w.])")
TERM = re.compile(r" [+-] [\w.>-]+(?:\[[^][]*\]|\([^()]*\))*(?=[;,)])")
STATEMENT = re.compile(r"(?m)^ +[a-z]\w*(?:->\w+|\.\w+|\[[^][\n]*\])*"
                       r"(?:\([^()\n]*\)| [-+*/|]?= [^;\n]*|\+\+|--);$")
HIDDEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\])+\'|'
                    r"(?m:^[ ]*#(?:[^\n]*\\\n)*[^\n]*)", re.S)


CHOICE = re.compile(r"(.+?) \? (.+?) : (.+?)[;,)]")


def is_extreme(code, start, end):
    """Whether a comparison chooses the smaller or the larger of what it compares: where these are
    equal it does not matter which."""
    m = CHOICE.match(code, end + 1)
    return m and any(code.endswith(a, 0, start - 1) and m[1] == b
                     for a, b in ((m[2], m[3]), (m[3], m[2])))


def blank(text):
    """The text with spaces in the place of what is not mutated."""
    return HIDDEN.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)


def larger(number):
    """Another constant near it."""
    if re.fullmatch(r"\d+", number):
        return str(int(number) + 1)
    return repr(1.1 * float(number)) if float(number) != 0 else "0.5"


def found(text):
    """(operator, offset, length, replacement) of every place, in the order of the text."""
    code = blank(text)
    places = []
    for m in BINARY.finditer(code):
        kind = "comparison" if m[1][0] in "<>=!" else "logic" if m[1][0] in "&|" else "sign"
        if not is_extreme(code, m.start(1), m.end(1)):
            places.append((kind, m.start(1), len(m[1]), TWINS[m[1]]))
    for m in NUMBER.finditer(code):
        places.append(("constant", m.start(1), len(m[1]), larger(m[1])))
    for m in TERM.finditer(code):
        places.append(("term dropped", m.start(), len(m[0]), ""))
    for m in STATEMENT.finditer(code):
        places.append(("statement dropped", m.start(), len(m[0]), ""))
    lines = code.split("\n")
    kept = []
    for place in sorted(places):
        line = lines[code.count("\n", 0, place[1])]
        if not SPARED.search(line):
            kept.append(place)
    return sorted(kept, key=lambda p: p[1:])
