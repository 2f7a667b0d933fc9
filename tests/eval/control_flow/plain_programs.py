"""Random programs on values of Python's own types, of which several names stand for one: loops that change what they read, functions
that change what they are given, comprehensions, generators, keys and handlers. A function of their number; they end."""

from __future__ import annotations

import random

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
LISTS = ("a", "b", "c")
STRING = "f'{n}{s[:3]}'"


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

    def _block(self, most: int, depth: int) -> list[str]:
        lines = []
        for _ in range(self._random.randint(1, most)):
            lines += self._statement(depth)
        return lines

    def _inside(self, depth: int) -> list[str]:
        return [f"    {line}" for line in self._block(3, depth + 1)]

    def _statement(self, depth: int) -> list[str]:
        kinds = ["simple"] * 5 + (["if", "for", "while", "try", "two"] if depth < 3 else [])
        kind = self._random.choice(kinds)
        if kind == "if":
            otherwise = ["else:", *self._inside(depth)] if self._random.random() < 0.5 else []
            return [f"if {self._test()}:", *self._inside(depth), *otherwise]
        if kind == "for":
            ends = self._of("break", "continue", "n += 1") if self._random.random() < 0.4 else "w += 1"
            stop = [f"    if len({self._list()}) > 12 or w > 25:", "        break", "    w += 1"]
            after = ["else:", *self._inside(depth)] if self._random.random() < 0.2 else []
            return [
                f"for {self._of('i', 'n', 'i', 'a')} in {self._iterable()}:",
                *stop,
                *self._inside(depth),
                f"    if {self._test()}:",
                f"        {ends}",
                *after,
            ]
        if kind == "while":
            self._loops += 1
            return [f"while {self._test()} and w < {self._loops * 6}:", "    w += 1", *self._inside(depth)]
        if kind == "try":
            caught = self._of("Exception", "KeyError", "(ValueError, IndexError)", "TypeError as e", "AttributeError")
            last = ["finally:", *self._inside(depth)] if self._random.random() < 0.3 else []
            return ["try:", *self._inside(depth), f"except {caught}:", *self._inside(depth), *last]
        if kind == "two":
            return [f"{self._simple()}; {self._simple()}"]
        return [self._simple()]

    def _escaping(self, generator: str, otherwise: str) -> str:
        """In every fourth program generators go where they are not followed, after which nothing is decided."""
        return generator if self._number % 4 == 0 else otherwise

    def _list(self) -> str:
        return self._of(*LISTS)

    def _simple(self) -> str:
        one, other = self._list(), self._list()
        return self._of(
            f"{one} = {other}",
            f"{one} = {other}[:]",
            f"{one} = {self._value()}",
            f"{one}.append({self._value()})",
            f"{one} += {self._of(other, '(1,)', 'range(2)', 's', self._escaping('count(2)', 't'))}",
            f"{one}.pop() if {one} else {self._number_of()}",
            f"{one}[0:1] = {other}",
            f"del {one}[{self._of('0', '1:', '-1', ':')}]",
            f"grow({one})" if self._random.random() < 0.7 else f"{one} = grow({other}, {self._list()})",
            f"n = {self._number_of()}",
            f"m -= {self._of('1', 'n', 'len(a)')}",
            f"d[{self._of('n', '1', 's', 'm % 3')}] = {self._value()}",
            f"d.pop({self._of('1', 'n')}, {self._value()})",
            f"z.{self._of('add', 'discard')}({self._of('n', '1', 'm % 4')})",
            f"s = {self._of('s[1:]', 's + str(n)', 's.upper()', repr(''), 's[:6] * 2', STRING)}",
            f"{one}, {other} = {other}, {one}",
            f"x = {self._value()}",
            f"{one} = {self._made()}",
            f"n = {self._of('any', 'all', 'sum', 'len', 'list')}({self._made()})",
            f"{one}.{self._of('sort()', 'reverse()', 'sort(key=str)', 'sort(key=lambda v: str(v), reverse=True)', 'extend(count(3))')}",
            f"{one}.insert({self._of('0', 'n')}, {other}.pop())",
            f"n = {other}.pop() if {one} is {other} else len({one})",
            f"grow({one}) and {one}.clear()",
            f"{one} = [*{other}, n][:5]",
            f"{one} = outer({other})",
            f"{one} = down({self._of('n', '3')}, {other}[:3]) if type(n) == int else {other}",
            f"n = 3 if shrink({one}) in {other} else n",
        )

    def _number_of(self) -> str:
        one = self._list()
        return self._of(
            "1",
            "n + 1",
            "m * 2 % 7",
            f"len({one})",
            "d.get(1, 3)",
            f"{one}[0]",
            f"{one}[-1]",
            "int(s)",
            "len(s)",
            "w // 2",
            f"shrink({one})",
            "math.sqrt(w)",
            "floor(w / 2)",
            f"({one}.pop() or n) if {one} else m",
            "d['x']",
            f"(y := {one}.copy()) and len(y)",
        )

    def _value(self) -> str:
        return self._of(
            self._number_of(),
            self._list(),
            f"[{self._list()}]",
            "[]",
            "s",
            "(n, a)",
            "{n: b}" if self._random.random() < 0.3 else "0",
            f"same({self._list()})",
            f"same(*[{self._list()}])",
            f"{self._list()}[:2]",
            "list(d)",
            "None",
            "sorted(z)",
        )

    def _iterable(self) -> str:
        one = self._list()
        return self._of(
            one,
            one,
            one,
            f"{one}[:]",
            f"enumerate({one})",
            f"zip({one}, {self._list()})",
            "d",
            "d.items()",
            "d.values()",
            "z",
            "range(3)",
            "range(n if type(n) == int else 2)",
            "s",
            "t",
            f"reversed({one})",
            "count(3)",
            f"count(4, {one})",
            f"count(*(3, {one}))",
            f"map(same, *[{one}])",
            f"sorted({one}, key=lambda v: str(v))",
            f"map(str, {one})",
            f"map(same, {one})",
            f"filter(same, {one})",
            f"[v for v in {one}]",
            "list(z)",
            f"(v for v in {one})",
            "tuple(a)",
            "s.split()",
            f"{one} or t",
        )

    def _test(self) -> str:
        one, other = self._list(), self._list()
        return self._of(
            one,
            f"not {one}",
            f"{one} == {other}",
            f"{one} is {other}",
            f"len({one}) > {self._of('1', '3', 'len(c)')}",
            "n",
            "s",
            f"n in {one}",
            "1 in z",
            "n in d",
            "w % 2",
            "even(w)",
            "even(**{'n': w})",
            f"same(*{one}[:1] or [n])",
            "m > 0",
            f"{one}.count(1)",
            f"{one} and {one}[0]",
            f"any(v for v in {one})",
            f"all(v == n for v in {one})",
            f"{one}.pop() if {one} else n",
            "isinstance(n, int)",
            f"grow({one}) == {other}",
            f"grow({one}) and len({other}) > 4",
            "n is None",
            "type(n) == int",
            "s.startswith('a')",
            f"shrink({one}) == n or {other}",
            f"{one}[0] == 3",
            f"max({one}, key=str) == n",
            "0 < w < 9",
            f"{one}.append(1) or len({other}) % 2",
            f"sorted(map(str, {one})) == [s]",
            f"(x := same({one})) == {other}",
            f"[v for v in {one} if v != n]",
            f"not {one} or {other} != t[2]",
            "'x' in d and d['x'] == 2",
        )

    def _made(self) -> str:
        one = self._list()
        return self._of(
            f"[v for v in {one}]",
            f"[v for v in {one} if v]",
            "[k for k in d if k != n]",
            f"list(map(same, {one}))",
            f"sorted({one}, key=str)",
            f"[grow({one}) and 1 for v in (1, 2)]",
            f"[u for v in ({one}, t) for u in v]",
            "list(count(2))",
            self._escaping("list(zip(count(2), s))", "list(s)"),
            f"list(filter(same, {one}))",
            f"[(i, v) for i, v in enumerate({one})]",
            "list(d.values())",
            f"sorted({one}, key=lambda v: str(v))",
            "list({k: v for k, v in d.items()})",
            "[same(v) for v in z]",
            f"list(same(v) for v in {one})",
            f"[shrink({one}) for v in {one}]",
        )
