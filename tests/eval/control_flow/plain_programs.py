"""Random programs on values of Python's own types, of which several names stand for one: loops that change what they read, functions
that change what they are given, comprehensions, generators, keys and handlers. A function of their number; they end."""

from __future__ import annotations

import random
import re

from remedy.data_gen.execution.program import MARKER, Program

FUNCTIONS = """\
import math
from math import floor

LIMIT = 3

def grow(x, y=None):
    x.append(len(x))
    return y or x

def shrink(x):
    if x:
        return x.pop()
    return None

def even(n):
    return n % 2 == 0

def same(x):
    return x

def count(n, x=()):
    for i in range(n):
        if i in x:
            continue
        yield i

def down(n, seen):
    seen.append(n)
    if n <= 0 or len(seen) > 6:
        return seen
    return down(n - 1, seen[:] if n % 2 else seen)

def outer(x):
    total = 0
    def add(n):
        nonlocal total
        total += n
        return total
    for n in x[:4]:
        if add(n if type(n) == int else 1) > LIMIT and total > 2:
            break
    return [total for n in x if n != total]
"""
RULES = """\
list: a | b | c
simple: ONE = OTHER | ONE = OTHER[:] | ONE = <value> | ONE.append(<value>) | ONE += <added> | ONE.pop() if ONE else <number>
    | ONE[0:1] = OTHER | del ONE[<deleted>] | grow(ONE) | grow(ONE) | ONE = grow(OTHER, <list>) | n = <number> | m -= <taken>
    | d[<key>] = <value> | d.pop(1, <value>) | d.pop(n, <value>) | z.add(<member>) | z.discard(<member>) | s = <text>
    | ONE, OTHER = OTHER, ONE | x = <value> | ONE = <made> | n = <reader>(<made>) | ONE.<method> | ONE.insert(0, OTHER.pop())
    | ONE.insert(n, OTHER.pop()) | n = OTHER.pop() if ONE is OTHER else len(ONE) | grow(ONE) and ONE.clear() | ONE = [*OTHER, n][:5]
    | ONE = outer(OTHER) | ONE = down(<depth>, OTHER[:3]) if type(n) == int else OTHER | n = 3 if shrink(ONE) in OTHER else n
added: OTHER | (1,) | range(2) | s | <loose count>
loose count: count(2)
tight count: t
deleted: 0 | 1: | -1 | :
taken: 1 | n | len(a)
key: n | 1 | s | m % 3
member: n | 1 | m % 4
text: s[1:] | s + str(n) | s.upper() | '' | s[:6] * 2 | f'{n}{s[:3]}'
reader: any | all | sum | len | list
method: sort() | reverse() | sort(key=str) | sort(key=lambda v: str(v), reverse=True) | extend(count(3))
depth: n | 3
number: 1 | n + 1 | m * 2 % 7 | len(ONE) | d.get(1, 3) | ONE[0] | ONE[-1] | int(s) | len(s) | w // 2 | shrink(ONE) | math.sqrt(w)
    | floor(w / 2) | (ONE.pop() or n) if ONE else m | d['x'] | (y := ONE.copy()) and len(y)
value: <number> | ONE | [ONE] | [] | s | (n, a) | 0 | {n: b} | same(ONE) | same(*[ONE]) | ONE[:2] | list(d) | None | sorted(z)
iterable: ONE | ONE | ONE | ONE[:] | enumerate(ONE) | zip(ONE, <list>) | d | d.items() | d.values() | z | range(3)
    | range(n if type(n) == int else 2) | s | t | reversed(ONE) | count(3) | count(4, ONE) | count(*(3, ONE)) | map(same, *[ONE])
    | sorted(ONE, key=lambda v: str(v)) | map(str, ONE) | map(same, ONE) | filter(same, ONE) | [v for v in ONE] | list(z)
    | (v for v in ONE) | tuple(a) | s.split() | ONE or t
test: ONE | not ONE | ONE == OTHER | ONE is OTHER | len(ONE) > 1 | len(ONE) > len(c) | n | s | n in ONE | 1 in z | n in d | w % 2
    | even(w) | even(**{'n': w}) | same(*ONE[:1] or [n]) | m > 0 | ONE.count(1) | ONE and ONE[0] | any(v for v in ONE)
    | all(v == n for v in ONE) | ONE.pop() if ONE else n | isinstance(n, int) | grow(ONE) == OTHER | grow(ONE) and len(OTHER) > 4
    | n is None | type(n) == int | s.startswith('a') | shrink(ONE) == n or OTHER | ONE[0] == 3 | max(ONE, key=str) == n | 0 < w < 9
    | ONE.append(1) or len(OTHER) % 2 | sorted(map(str, ONE)) == [s] | (x := same(ONE)) == OTHER | [v for v in ONE if v != n]
    | not ONE or OTHER != t[2] | 'x' in d and d['x'] == 2
made: [v for v in ONE] | [v for v in ONE if v] | [k for k in d if k != n] | list(map(same, ONE)) | sorted(ONE, key=str)
    | [grow(ONE) and 1 for v in (1, 2)] | [u for v in (ONE, t) for u in v] | list(count(2)) | <loose zip> | list(filter(same, ONE))
    | [(i, v) for i, v in enumerate(ONE)] | list(d.values()) | sorted(ONE, key=lambda v: str(v)) | list({k: v for k, v in d.items()})
    | [same(v) for v in z] | list(same(v) for v in ONE) | [shrink(ONE) for v in ONE]
loose zip: list(zip(count(2), s))
tight zip: list(s)
caught: Exception | KeyError | (ValueError, IndexError) | TypeError as e | AttributeError
ends: break | continue | n += 1
name: i | n | i | a
"""
"""What a name in angles stands for; ONE and OTHER are one list each in an alternative."""
KINDS = {
    name: several.split(" | ")
    for name, several in re.findall(r"^([a-z ]+): (.*)$", RULES.replace("\n    |", " |"), re.M)
}


class Writer:
    """Writes one program. `number` decides it."""

    def __init__(self, number: int) -> None:
        self._random = random.Random(number)
        self._number = number
        self._loops = 0

    def program(self) -> Program:
        body = [
            "a = [3, 1, 2]",
            f"b = {self._of('a', '[1]', '[[1], [2]]', '[a, a]')}",
            f"c = {self._of('b', 'a[:]', '[]', '[b]')}",
            "n, m = 2, 5",
            "d = {1: a, 'x': 2}",
            "s, t, z = 'ab c', (1, 'y', a), {1, 2}",
            "w = 0",
            *self._block(6, 0),
            f"return {self._of('a', 'n', 's', 'd', 'None', '(a, b)')}",
        ]
        lines = "\n".join(f"    {line}" for line in body)
        code = f"{FUNCTIONS}\ndef main():  {MARKER}\n{lines}\n"
        return Program(code, f"plain_{self._number}")

    def _of(self, *several: str) -> str:
        return self._random.choice(several)

    def _a(self, kind: str) -> str:
        """One of a kind. In three of four programs no generator goes where it is not followed, after which nothing is decided."""
        if self._number % 4:
            kind = kind.replace("loose", "tight")
        lists = {"ONE": self._of("a", "b", "c"), "OTHER": self._of("a", "b", "c")}
        chosen = re.sub("ONE|OTHER", lambda found: lists[found[0]], self._of(*KINDS[kind]))
        return re.sub("<([a-z ]+)>", lambda found: self._a(found[1]), chosen)

    def _block(self, most: int, depth: int) -> list[str]:
        return [line for _ in range(self._random.randint(1, most)) for line in self._statement(depth)]

    def _inside(self, depth: int) -> list[str]:
        return [f"    {line}" for line in self._block(3, depth + 1)]

    def _statement(self, depth: int) -> list[str]:
        kind = self._of(*["simple"] * 5, *(["if", "for", "while", "try", "two"] if depth < 3 else []))
        if kind == "if":
            otherwise = ["else:", *self._inside(depth)] if self._random.random() < 0.5 else []
            return [f"if {self._a('test')}:", *self._inside(depth), *otherwise]
        if kind == "for":
            ends = self._a("ends") if self._random.random() < 0.4 else "w += 1"
            stop = [f"    if len({self._a('list')}) > 12 or w > 25:", "        break", "    w += 1"]
            after = ["else:", *self._inside(depth)] if self._random.random() < 0.2 else []
            head = f"for {self._a('name')} in {self._a('iterable')}:"
            return [head, *stop, *self._inside(depth), f"    if {self._a('test')}:", f"        {ends}", *after]
        if kind == "while":
            self._loops += 1
            return [f"while {self._a('test')} and w < {self._loops * 6}:", "    w += 1", *self._inside(depth)]
        if kind == "try":
            last = ["finally:", *self._inside(depth)] if self._random.random() < 0.3 else []
            return ["try:", *self._inside(depth), f"except {self._a('caught')}:", *self._inside(depth), *last]
        return ["; ".join(self._a("simple") for _ in range(1 + (kind == "two")))]
