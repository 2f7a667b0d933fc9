"""Random programs that use much of Python's grammar: a function of their number, they end, and many of them raise."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

from remedy.data_gen.execution.program import MARKER, Program

PREAMBLE = """\
import contextlib, collections, dataclasses, enum, functools, itertools, math

class Manager:
    def __init__(self, swallows): self.swallows = swallows
    def __enter__(self):
        return self.swallows
    def __exit__(self, kind, error, traceback):
        return bool(self.swallows)

@contextlib.contextmanager
def managed(value):
    try:
        yield value
    finally:
        value += 1

def numbers(n):
    'Numbers, with what may be thrown in.'
    total = 0
    try:
        for i in range(n):
            got = yield i
            total += got or 0
    except ValueError as error:
        yield -1
    finally:
        total = -total
    return total

def both(n):
    got = yield from numbers(n)
    yield from (k * 2 for k in range(2))
    return got

class Waits:
    def __await__(self):
        got = yield "waits"
        return got

class Counted:
    def __init__(self, n): self.n = n
    def __aiter__(self): return self
    async def __anext__(self):
        self.n -= 1
        if self.n < 0: raise StopAsyncIteration
        return self.n
    async def __aenter__(self): return self
    async def __aexit__(self, *error): return self.n < 1

def traced(function):
    @functools.wraps(function)
    def wrapper(*args, **named):
        return function(*args, **named)
    return wrapper

@traced
def power(x, n=2):
    return x ** n if n < 5 else x

def fall(n):
    return n if n <= 0 else fall(n - 1) + 1

class Gone:
    def __del__(self):
        gone = True

class Odd:
    'Its repr is its own code, which is not traced.'
    def __repr__(self):
        parts = ["Odd"]
        return "".join(parts)

count = 0
"""

Lines = list[str]


# The lists below are filled by hand: one entry a line would be five pages.
# fmt: off


class Writer:
    """Writes statements over the variables a, b, c (numbers), items (a list), table (a dict) and text."""

    def __init__(self, number: int) -> None:
        self.number_of_program = number
        self.random = random.Random(number)
        self.depth = 0
        self.names = itertools.count()

    def program(self) -> Program:
        body = ["global count", "a, b, c = 1, 2, 3", "items = [3, 1, 2]", "table = {'k': 1}", "text = 'ab'"]
        for _ in range(self.random.randint(1, 3)):
            body += self.statement()
        if self.random.random() < 0.9:
            body.append(
                f"return {self.random.choice(['a', 'items', '(a, b, c)', 'numbers(2)', 'text', 'Odd()', 'Gone()'])}"
            )
        code = f"{PREAMBLE}\ndef main():  {MARKER}\n" + "".join(f"    {line}\n" for line in body)
        return Program(code, f"random program {self.number_of_program}")

    def new(self) -> str:
        return f"v{next(self.names)}"

    def number(self) -> str:
        r = self.random
        x, y, n = r.choice("abc"), r.choice("abc"), r.randint(-2, 4)
        return r.choice([
            str(n), x, f"{x} + {n}", f"({x} - {y})", f"{x} * {n}", f"{x} // {y}", f"{x} % {n}", f"-{x}",
            f"items[{n}]", f"table['{r.choice('kxy')}']", f"len(text) + {n}", f"({x} if {y} > {n} else {n})",
            f"max({x}, {y}, {n})", f"power({x})", f"power({x}, n={n})", f"fall({abs(n)})", "sum(items)",
            "int(text)", f"(c := {x} & 7)", f"sum(i * {n} for i in items if i != {x})",
            f"(lambda q, *r, k={n}: q + k)({x})", f"[*items, {n}][-1]", "sorted(items, key=lambda i: -i)[0]",
            f"next(numbers({n}))", f"{{**table, 'z': {n}}}['z']",
            f"functools.reduce(lambda p, q: p + q, items, {n})", f"(\n        {x} +\n        {y})",
            f"math.gcd(abs({x}), 6)", f"len([(i, j) for i in range(2) for j in items if (w := i + j) > {n}])",
        ])

    def condition(self) -> str:
        r = self.random
        return r.choice([
            f"{self.number()} > {self.number()}", "items", "not table", f"{r.choice('abc')} in items",
            f"0 < {self.number()} <= 3 or text", "text == 'ab' and a",
        ])

    def block(self, least: int = 1) -> Lines:
        self.depth += 1
        lines: Lines = []
        for _ in range(self.random.randint(least, 2)):
            lines += self.statement() if self.depth < 2 else self.simple()
        self.depth -= 1
        return [f"    {line}" for line in lines] or ["    pass"]

    def statement(self) -> Lines:
        kinds: list[Callable[[], Lines]] = [
            self.simple, self.simple, self.branch, self.loop, self.loop_while, self.attempt, self.attempt,
            self.manage, self.match, self.function, self.generator, self.comprehension, self.make_class,
            self.coroutine, self.raises,
        ]
        return self.random.choice(kinds)()

    def simple(self) -> Lines:
        r, n = self.random, self.number
        return r.choice([
            [f"a = {n()}"], [f"b = {n()}"], [f"c += {n()}"], [f"items.append({n()})"], [f"table['x'] = {n()}"],
            [f"text += str({n()})"], [f"a, *items = [{n()}, {n()}, {n()}]"], ["a, b = b, a"],
            [f"items[0], c = c, {n()}"], ["del table['k']"], ["del items[0]"], [f"a = {n()}; b = {n()}"],
            ["# nothing", "pass"], [f"assert {self.condition()}"], ["print(f'{a} {text!r:>5}', end='')"],
            ["count += 1"], [f"d{r.randint(0, 9)}: int = {n()}"], ["a = \\", f"    {n()}"],
            ["text = '''x", "y'''"], ["'a text that is no docstring'"], ["odd = Odd()"], ["o = object()"],
            ["def later(): pass"], ["m = math"], ["e = ...", "nothing = None"],
            ["i = iter(items); a = next(i, 0)"], ["gone = Gone(); del gone"], ["gone = Gone()", "gone = None"],
            [f"a = b = {n()}"], ["items[1:] = items[::-1]"],
        ])

    def branch(self) -> Lines:
        lines = [f"if {self.condition()}:", *self.block()]
        if self.random.random() < 0.4:
            lines += [f"elif {self.condition()}:", *self.block()]
        return lines + (["else:", *self.block()] if self.random.random() < 0.5 else [])

    def loop(self) -> Lines:
        name = self.new()
        source = self.random.choice(
            ["range(3)", "items[:3]", "list(table)", "enumerate('ab')", "numbers(2)", "zip('ab', items)", "both(2)"]
        )
        lines = [f"for {name} in {source}:", *self.block()]
        if self.random.random() < 0.4:
            lines += [f"    if {self.condition()}: {self.random.choice(['break', 'continue'])}", *self.block()]
        return lines + (["else:", *self.block()] if self.random.random() < 0.3 else [])

    def loop_while(self) -> Lines:
        name = self.new()
        head = self.random.choice([f"while {name} < 3:", f"while ({name} < 3 and", "while True:"])
        lines = [f"{name} = 0", head]
        if head.endswith("and"):
            lines.append("       True):")
        lines += [f"    {name} += 1", *self.block(), f"    if {name} > 2: break"]
        return lines + (["else:", *self.block()] if self.random.random() < 0.3 else [])

    def raises(self) -> Lines:
        what = self.random.choice([
            "ValueError('x')", "KeyError", "ZeroDivisionError()", "KeyboardInterrupt", "SystemExit(2)",
            "BaseException", "ExceptionGroup('g', [ValueError(1), KeyError(2)])", "StopIteration(3)",
            "RecursionError",
        ])
        tail = self.random.choice(["", "", " from None", " from OSError('cause')"])
        return [f"if {self.condition()}: raise {what}{tail}"]

    def attempt(self) -> Lines:
        r = self.random
        lines = ["try:", *self.block(), *([f"    {line}" for line in self.raises()] if r.random() < 0.6 else [])]
        if r.random() < 0.15:
            lines += ["except* ValueError as group:", *self.block()]
            if r.random() < 0.5:
                lines += ["except* (KeyError, TypeError):", *self.block()]
        else:
            caught = r.choice(["Exception", "ValueError", "(KeyError, IndexError)", "BaseException", ""])
            handler = (
                f"except {caught}:"
                if caught and r.random() < 0.5
                else f"except {caught} as error:"
                if caught
                else "except:"
            )
            if r.random() < 0.8:
                lines += [handler, *self.block(), *(["    raise"] if r.random() < 0.15 else [])]
                if r.random() < 0.3:
                    lines += ["else:", *self.block()]
            else:
                return [*lines, "finally:", *self.block()]
        if r.random() < 0.4:
            lines += [
                "finally:", *self.block(),
                *(["    return a"] if r.random() < 0.1 and "*" not in "".join(lines) else []),
            ]
        return lines

    def manage(self) -> Lines:
        what = self.random.choice([
            "Manager(True) as m", "Manager(False)", "managed(1) as x, Manager(a)",
            "contextlib.suppress(ValueError, KeyError)", "(Manager(1) as p, managed(2) as q)",
        ])
        return [
            f"with {what}:", *self.block(),
            *([f"    {line}" for line in self.raises()] if self.random.random() < 0.5 else []),
        ]

    def match(self) -> Lines:
        subject = self.random.choice(["items", "(a, b)", "table", "text", "a"])
        cases = self.random.sample(
            ["[x, *rest]", "{'k': k}", "(1 | 2) as n", "str(t)", "(p, q) if p > q", "int()", "[]"], 2
        )
        return [
            f"match {subject}:",
            *(line for case in cases for line in (f"    case {case}:", *(f"    {one}" for one in self.block()))),
            "    case _:", *(f"    {one}" for one in self.block()),
        ]

    def function(self) -> Lines:
        name = self.new()
        call = self.random.choice(
            [f"a = {name}(b)", f"items = [{name}(i) for i in items]", f"b = {name}(*[c])", f"c = {name}(x=a) or 0"]
        )
        decorated = ["@traced"] if self.random.random() < 0.3 else []
        lines = [
            *decorated, f"def {name}(x, y=2, *rest, z: int = 3, **named):",
            "    nonlocal c" if self.depth == 0 else "    c = 1",
        ]
        if self.random.random() < 0.3:
            lines.append("    'A docstring.'")
        lines += [
            "    c = c + x",
            *([f"    {line}" for line in self.raises_in_function()] if self.random.random() < 0.4 else []),
        ]
        return [*lines, "    return c - y", call]

    def raises_in_function(self) -> Lines:
        return self.random.choice([
            ["if x > 2: raise ValueError(x)"], ["try:", "    return x // y", "finally:", "    y = 0"],
            ["if x:", "    return"],
        ])

    def generator(self) -> Lines:
        name = self.new()
        return [
            f"{name} = {self.random.choice(['numbers(3)', 'both(2)', '(i + a for i in items)'])}",
            *self.random.choice([
                [f"a = next({name})"], [f"b = sum({name})"], [f"next({name})", f"{name}.close()"],
                [f"{name}.close()"], [f"next({name})", f"c = {name}.send(None)"],
                [f"next({name})", f"b = {name}.throw(ValueError('in'))"], [f"next({name})", f"del {name}"],
                [f"items = [*{name}]"], [f"a, b, *items = {name}"], [f"dict(zip('ab', {name}))"],
            ]),
        ]

    def comprehension(self) -> Lines:
        return [
            self.random.choice([
                "items = [i + 1 for i in items if i]", "s = {i % 2 for i in items}",
                "table |= {str(i): i for i in range(2)}", "items = [j for i in range(2) for j in [i, a]]",
                "items = [[j for j in range(i % 3)] for i in items if isinstance(i, int)][-1:]",
                "a = any(i > b for i in items)",
                "items = [\n        i // b\n        for i in items\n        if i\n    ]",
            ])
        ]

    def make_class(self) -> Lines:
        name = self.new().upper()
        return self.random.choice([
            [
                f"class {name}(Manager):", "    kinds = [k for k in 'ab']", "    for n in range(2): last = n",
                "    def area(self):", "        return super().__enter__()", f"a = {name}(a).area()",
            ],
            [
                "@dataclasses.dataclass(order=True)", f"class {name}:", "    x: int = 1",
                "    y: list = dataclasses.field(default_factory=list)", "    def __post_init__(self):",
                "        self.x += 1", f"p = {name}(a)",
            ],
            [f"class {name}(enum.Enum):", "    ONE = 1", "    TWO = ONE + 1", f"k = {name}(2)"],
            [f"class {name}:", "    locals()[5] = 1", "    locals()['no name'] = 2", "    y = 2", f"b = {name}.y"],
            [f"{name} = collections.namedtuple('{name}', 'x y')", f"p = {name}(a, y=2)", "a, b = p.x, p.y"],
            [f"class {name}:", "    @property", "    def half(self): return 1 / a", f"c = {name}().half"],
            [
                f"class {name}(type):", "    __name__ = 5", f"class {name}2(metaclass={name}):", "    z = 1",
                f"o = {name}2()", "o = o.z",
            ],
        ])

    def coroutine(self) -> Lines:
        name = self.new()
        inner = self.random.choice([
            ["got = await Waits()"], ["got = [i async for i in Counted(2)]"],
            ["async for i in Counted(2):", "    got = i"], ["async with Counted(0) as k: raise ValueError"],
            ["got = await Waits() + await Waits()"],
        ])
        drive = self.random.choice([
            ["try:", "    while True: k.send(a)", "except StopIteration as end:", "    b = end.value"],
            ["k.close()"], ["try: k.throw(KeyError('in'))", "except KeyError: pass"],
        ])
        return [
            f"async def {name}():", "    got = 0", *(f"    {line}" for line in inner), "    return got",
            f"k = {name}()", *drive,
        ]
