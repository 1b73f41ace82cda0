"""The plan of src/. A room is a folder; a file is a .c with its .h (or .cc, .cu); a private header
of a file, file_internal.h, belongs to it. Prints each room with its lines and its arrows: which
rooms it includes, and how often. Fails on more arrows between rooms than ARROWS, and on circles of
files, which are looked for twice:

  include  file A includes B, and B includes A, directly or through others
  names    file A uses a function that B defines, and B one that A defines (universal-ctags)

By names only .c, .cc and .cu are read: headers declare what others define. A header with the name
of a table beside it (NAMEs.h, NAMEs.def) lists rows, so its include is no arrow of a circle. Nor is
that of a header without a .c in the file whose struct it opens: train/state.h in train/trainer.c.
The check is itself checked: faults planted in a copy must be found.
usage: check_house.py [folder that holds src]"""
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile

# Pairs of rooms. A commit that raises the number gives its reason behind it, in the same line.
ARROWS = 117  # 105; 5 of plan; 4: contexts is a room; 2: train, arrays, and contexts anew;
# 1: learn, scores of lists

# Circles that are let pass, each the list of its files. The list only shrinks: none is added.
KNOWN = []

SOURCES = ('.c', '.cc', '.cu')
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.M)
COMMENT_OR_TEXT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)
EXPORTED = re.compile(r'\b(?:fopo|bind|luaopen)_\w+')


class House:
    """What stands in root/src: paths are relative to it."""

    def __init__(self, root):
        self.src = os.path.join(root, 'src')
        self.texts = {}
        for folder, _, names in os.walk(self.src):
            for name in names:
                path = os.path.join(folder, name)
                with open(path, encoding='utf-8') as file:
                    self.texts[os.path.relpath(path, self.src)] = file.read()
        self.stems = {os.path.splitext(path)[0] for path in self.texts if path.endswith(SOURCES)}

    def file_of(self, path):
        """'mips/index' for mips/index.c, mips/index.h and mips/index_internal.h."""
        stem = os.path.splitext(path)[0]
        owner = stem
        while owner not in self.stems and '_' in os.path.basename(owner):
            owner = owner.rpartition('_')[0]
        return owner if owner in self.stems else stem

    def is_table(self, path):
        return os.path.splitext(path)[0] + '.def' in self.texts

    def opens(self, header, path):
        """Whether a header without a source of its own includes the header of the source path."""
        own = os.path.splitext(path)[0] + '.h'
        return (path.endswith(SOURCES) and self.file_of(header) not in self.stems
                and f'#include "{own}"' in self.texts[header])

    def includes(self):
        """Pairs of paths: who includes whom."""
        for path, text in self.texts.items():
            for target in INCLUDE.findall(text):
                if target in self.texts:
                    yield path, target

    def arrows(self):
        """{(room, room): how many includes}"""
        rooms = ((os.path.dirname(a), os.path.dirname(b)) for a, b in self.includes())
        return collections.Counter((a or 'main', b) for a, b in rooms if a != b)

    def by_include(self):
        """{file: {file that it includes: the includes}}"""
        graph = collections.defaultdict(lambda: collections.defaultdict(set))
        for path, target in self.includes():
            if (self.file_of(path) != self.file_of(target) and not self.is_table(target)
                    and not self.opens(target, path)):
                graph[self.file_of(path)][self.file_of(target)].add(target)
        return graph

    def definitions(self):
        """{function that is not static: its file}, or None without universal-ctags"""
        try:
            version = subprocess.run(['ctags', '--version'], capture_output=True, text=True).stdout
        except FileNotFoundError:
            return None
        if 'Universal Ctags' not in version:
            return None
        tags = subprocess.run(
            ['ctags', '-R', '--sort=no', '-x', '--languages=C,C++,CUDA', '--kinds-C=f',
             '--kinds-C++=f', '--kinds-CUDA=f', '--_xformat=%N %F %f', self.src],
            capture_output=True, text=True, check=True).stdout
        found = {}
        for name, path, scope in (line.split() for line in tags.splitlines()):
            if scope != 'file' and path.endswith(SOURCES):
                found[name] = self.file_of(os.path.relpath(path, self.src))
        return found

    def by_names(self):
        """{file: {file whose functions it uses: their names}}, or None without universal-ctags"""
        defined = self.definitions()
        if defined is None:
            return None
        graph = collections.defaultdict(lambda: collections.defaultdict(set))
        for path, text in self.texts.items():
            if path.endswith(SOURCES):
                for name in EXPORTED.findall(COMMENT_OR_TEXT.sub(' ', text)):
                    if defined.get(name, self.file_of(path)) != self.file_of(path):
                        graph[self.file_of(path)][defined[name]].add(name)
        return graph


def circles(graph):
    """The strongly connected components of more than one file, by Tarjan's algorithm."""
    number, low, stack, found = {}, {}, [], []

    def visit(node):
        number[node] = low[node] = len(number)
        stack.append(node)
        for other in list(graph.get(node, ())):
            if other not in number:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == number[node]:
            start = stack.index(node)
            if len(stack) - start > 1:
                found.append(sorted(stack[start:]))
            del stack[start:]

    for node in list(graph):
        if node not in number:
            visit(node)
    return found


def new_circles(house, known):
    """Lines that show the circles which are no part of a known one, and how many known were met."""
    lines, met = [], set()
    for kind, graph in ('include', house.by_include()), ('names', house.by_names()):
        for circle in circles(graph or {}):
            allowed = [i for i, old in enumerate(known) if set(circle) <= set(old)]
            if allowed:
                met.add(allowed[0])
                continue
            lines.append(f'circle by {kind}: {" ".join(circle)}')
            lines += [f'  {a} -> {b}: {" ".join(sorted(graph[a][b]))}'
                      for a in circle for b in sorted(graph[a]) if b in circle]
    return lines, met


def print_rooms(house):
    arrows = house.arrows()
    lines = collections.Counter()
    for path, text in house.texts.items():
        lines[os.path.dirname(path) or 'main'] += text.count('\n')
    for room in sorted(lines):
        to = ', '.join(f'{b} {n}' for (a, b), n in sorted(arrows.items()) if a == room)
        print(f'  {room:18}{lines[room]:6} lines{"  -> " + to if to else ""}')
    print(f'  {"":18}{sum(lines.values()):6} lines, {len(lines)} rooms, {len(arrows)} arrows, '
          f'{sum(arrows.values())} includes')


def missed(house):
    """The planted faults that are not found."""
    plants = [('core/status.h', '#include "core/memory.h"', 'circle by include')]
    if house.definitions() is not None:
        plants.append(('core/status.c', 'int fopo_planted(void) { return fopo_alloc != 0; }',
                       'circle by names'))
    before = len(house.arrows())
    with tempfile.TemporaryDirectory() as copy:
        for path, line, expected in plants + [('planted/a.h', '#include "core/rng.h"', 'arrow')]:
            shutil.copytree(house.src, os.path.join(copy, 'src'))
            target = os.path.join(copy, 'src', path)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, 'a', encoding='utf-8') as file:
                file.write(line + '\n')
            now = House(copy)
            found = new_circles(now, KNOWN)[0] + ['arrow'] * (len(now.arrows()) > before)
            if not any(one.startswith(expected) for one in found):
                yield f'check_house.py does not see, in src/{path}: {line}'
            shutil.rmtree(os.path.join(copy, 'src'))


def main(root):
    house = House(root)
    print_rooms(house)
    wrong, met = new_circles(house, KNOWN)
    arrows = len(house.arrows())
    if arrows > ARROWS:
        wrong.append(f'{arrows} arrows between rooms, and ARROWS in check_house.py says {ARROWS}')
    wrong += missed(house)
    if house.definitions() is None:
        print('skip: universal-ctags is not here, so circles by names are not looked for')
    else:
        for i in set(range(len(KNOWN))) - met:
            print(f'  can leave KNOWN in check_house.py: {" ".join(KNOWN[i])}')
    if arrows < ARROWS:
        print(f'  ARROWS in check_house.py can be {arrows}')
    known = f' but {len(met)} known ones' if met else ''
    print('\n'.join(wrong) or f'house: no circle of files{known}; '
          'planted faults found')
    return 1 if wrong else 0


sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), '..')))
