"""Programs of constructs that benchmarks hardly use, each a body of `main` after definitions."""

from __future__ import annotations

import re
import textwrap

from remedy.data_gen.execution.program import MARKER, Program

DEFINITIONS = {
    "contextlib": "import contextlib",
    "functools": "import functools",
    "collections": "import collections",
    "count": """
        def count(n):
            for i in range(n):
                yield i
    """,
    "careful": """
        def careful(n):
            try:
                yield from count(n)
                return n
            finally:
                n = 0
    """,
    "fall": """
        def fall(n):
            return 0 if n == 0 else 1 + fall(n - 1)
    """,
    "tree": """
        def tree(n):
            if n:
                yield from tree(n - 1)
                yield n
    """,
    "twice": """
        def twice(f):
            @functools.wraps(f)
            def inner(*args):
                return f(*args) + f(*args)
            return inner
    """,
    "one": """
        @twice
        @functools.lru_cache
        def one(x=1):
            return x
    """,
    "fails": """
        def fails(x):
            raise ValueError(x)
    """,
    "square": """
        def square(x):
            return x * x
    """,
    "apply": """
        def apply(f, *args):
            return f(*args)
    """,
}
"""What the bodies use; a program has those alone that it needs, since one class or module loosens all that is known of the rest."""

BODIES = {
    "generators_in_loops": """
        for x in count(4):
            for y in count(x):
                if y > 1:
                    break
            else:
                continue
        return [z for z in careful(2)], sum(count(3)), any(i > 1 for i in count(9))
    """,
    "generators_by_hand": """
        g, h = careful(3), count(2)
        next(g); g.close(); g = careful(1)
        try:
            next(g); g.throw(KeyError(1))
        except KeyError:
            pass
        del h
        return next(count(0), None), list(zip(count(2), count(3)))
    """,
    "left_by_exceptions": """
        try:
            for x in count(3):
                for y in (fails(i) for i in [1]):
                    pass
        except ValueError as error:
            seen = error
        try:
            1 / 0
        except ZeroDivisionError:
            try:
                for x in count(2):
                    raise
            except ArithmeticError:
                pass
        return seen
    """,
    "left_by_return": """
        def first(n):
            for x in count(n):
                try:
                    return x
                finally:
                    x += 1
        return first(3)
    """,
    "finally_and_with": """
        for x in [1, 2]:
            try:
                with contextlib.suppress(ZeroDivisionError), contextlib.nullcontext(x) as y:
                    y / (x - 1)
                    continue
            finally:
                x = 0
        try:
            try:
                fails(1)
            finally:
                x = 1
        except (KeyError,
                ValueError) as e:
            x = str(e)
        return x
    """,
    "match": """
        found = []
        for case in [1, "a", [1, 2], {"k": 3}, (4, 5, 6), None, 2.5]:
            match case:
                case int(n) if n > 5: found.append(n)
                case str() | None:
                    found.append("s")
                case [x, *rest] if rest:
                    found.append(
                        len(rest)
                    )
                case {"k": v, **others}:
                    found.append(v)
                case _:
                    pass
        return found
    """,
    "comprehensions": """
        a = [i for i in range(3) if i % 2 == 0]
        b = {j: [k for k in range(j)] for j in a}
        c = {(x, y) for x in a
             for y in b if x != y}
        d = [[(lambda v: v + i)(i) for i in a] for _ in a]
        e = tuple(x for x in a if (y := x))
        return a, b, len(c), d, e, y
    """,
    "recursion": """
        return fall(3), list(tree(3)), (lambda f: f(f, 2))(lambda f, n: n and f(f, n - 1))
    """,
    "decorators": """
        @twice
        def two():
            return 2
        return one(), one(2), one(2), two()
    """,
    "lines_with_the_same_text": """
        x = 0
        if x:
            x += 1
        x += 1
        for _ in range(2):
            x += 1
        while x < 6:
            x += 1
        else:
            x += 1
        x += 1
        return x
    """,
    "several_calls_in_a_line": """
        return fall(1) + fall(0) + fall(fall(1)), [fall(i) for i in (fall(0), fall(1))], fall(0) or fall(1) or fall(2)
    """,
    "statements_over_lines": """
        x = fall(
            1
        ) + (
            2 if fall(1)
            else 3
        )
        y = [
            i
            for i in range(
                x
            )
        ]
        assert x and (
            y
        ), "no"
        return x
    """,
    "callbacks": """
        xs = sorted([3, 1, 2], key=lambda v: -v)
        ys = list(map(lambda a, b: a + b, xs, filter(lambda a: a > 1, xs)))
        zs = functools.reduce(lambda a, b: a * b, xs, 1)
        d = collections.defaultdict(lambda: fall(1))
        d["a"] += 1
        return xs, ys, zs, d, max(xs, key=fall), [*map(fall, xs)]
    """,
    "classes": """
        class Odd:
            kinds = [k for k in "ab"]
            def __init__(self, n): self.n = n
            def __iter__(self): return iter(range(self.n))
            def __bool__(self): return self.n > 1
            def __eq__(self, other): return self.n == other
            def __hash__(self): return fall(1)
            def __getitem__(self, i):
                if i > 1: raise IndexError
                return i
            def __enter__(self): return self
            def __exit__(self, *error): return True
            def __del__(self): self.n = 0
            @property
            def half(self): return self.n / 2
            @classmethod
            def make(cls): return cls(2)
        o = Odd(2)
        with o: fails(o.half)
        if o and o == 2 and 3 not in {o: 1}: o = Odd.make()
        del o
        return list(Odd(2)), Odd.kinds
    """,
    "groups": """
        try:
            raise ExceptionGroup("g", [ValueError(1), KeyError(2)])
        except* ValueError as group:
            x = 1
        except* KeyError:
            x = 2
        return x
    """,
    "unpacking": """
        a, (b, *c), *d = 1, count(3), *count(2)
        e = {**dict(zip("ab", count(2))), "c": 3}
        a = b = 5; c = a
        del a
        return b, c, d, e, f"{b!r:>4}{[x for x in d]}"
    """,
    "closures": """
        total = 0
        def add(n=1):
            nonlocal total
            total += n
            return lambda: total
        adders = [add, add]
        return [f()() for f in adders], add(3)()
    """,
    "rebound": """
        def f(): return 1
        g = f
        x = f()
        def f(): return 2
        return x + f() + g()
    """,
    "coroutines": """
        async def wait(n):
            return n
        async def both():
            return await wait(1) + await wait(2)
        k = both()
        try:
            k.send(None)
        except StopIteration as end:
            return end.value
    """,
    "raises_at_last": """
        for x in count(2):
            try:
                fails(x)
            except ValueError:
                continue
        return [][x]
    """,
    "plain_readers": """
        x = any(i > 1 for i in [1, 2, 3]), all(i for i in (1, 0, 2)), sum(i for i in range(3))
        y = "".join(str(i) for i in x), max(i for i in [2]), sorted(-i for i in [1, 2]), set(count(2))
        try:
            sum(c for c in "ab")
        except TypeError:
            x = 0
        try:
            {[i] for i in [1]}
        except TypeError:
            x = 1
        try:
            set([i] for i in [1, 2])
        except TypeError:
            x = 2
        try:
            ", ".join(i for i in [1])
        except TypeError:
            x = 3
        return x, y, min(i for i in "ba")
    """,
    "plain_callbacks": """
        x = sorted([2, 1], key=square), max([1, 2], key=lambda v: -v)
        y = [1, 2]
        y.sort(key=lambda v: square(-v))
        z = map(square, y)
        for w in z: break
        y += filter(lambda v: v > 1, [w, 2])
        return x, y, list(z), apply(square, 3), 9 in map(square, y), apply(lambda: 1), dict(a=square)["a"](2)
    """,
    "plain_loops": """
        for x in count(3):
            if x: break
        for x in count(2):
            for x in count(2): pass
        while True:
            try:
                for x in count(3):
                    if x: fails(x)
            except ValueError:
                break
        for x in count(1): return x
    """,
    "plain_generators": """
        g = count(3)
        x = next(g)
        for y in g: break
        h = (i for i in g)
        z = list(h)
        for y in (square(i) for i in count(2)): x += y
        count(1)
        return x, z, [*count(2)], (lambda: count(1))()
    """,
    "plain_nested_readers": """
        x = any(any(y for y in count(x)) for x in count(3)), sum(x for x in count(4) if all(y < 2 for y in count(x)))
        try:
            x = [sum(1 // (i - 1) for i in count(3)) for _ in count(2)]
        except ZeroDivisionError:
            x = max((i for i in count(3)), key=lambda v: -v)
        def outer():
            for x in count(3):
                for y in (square(z) for z in count(2)):
                    yield x + y
        for y in outer():
            if y > 1: break
        return x, y, min(count(0), default=square(2)), sorted(outer(), key=square, reverse=True)
    """,
    "plain_ends_of_iteration": """
        x = list(map(lambda i: next(iter([])) if i else i, [0, 1, 2]))
        for y in map(lambda i: next(iter([0][i:])), [0, 1, 2]):
            x.append(y)
        def early():
            yield 1
            return [next(iter(()))]
        try:
            for y in early(): pass
        except RuntimeError:
            x.append(2)
        def valued():
            got = yield 1
            return got or 5
        for y in valued(): pass
        g = valued(); next(g)
        try:
            g.send(3)
        except StopIteration as end:
            y = end.value
        return x, y, [*valued()]
    """,
    "plain_exceptions_kept": """
        def leave():
            for x in count(3):
                for y in count(2):
                    if x: fails(x)
        kept = []
        for _ in [0, 1]:
            try:
                leave()
            except ValueError as error:
                kept.append(error)
        x = kept.pop()
        del x, kept[:]
        try:
            try:
                leave()
            except KeyError:
                pass
            else:
                x = 0
            finally:
                x = [i for i in count(1)]
        except ValueError as error:
            try:
                raise KeyError(1) from error
            except (KeyError, IndexError): x = 3
        return x
    """,
    "plain_returns_from_everywhere": """
        def leave(n):
            while True:
                try:
                    for x in count(n):
                        try:
                            if x == 1: return x
                            if x == 2: continue
                        except ValueError:
                            break
                        finally:
                            if n == 5: return -1
                    else:
                        return None
                finally:
                    if n == 4: break
            return [leave(2) for _ in [0]]
        return [leave(n) for n in (0, 1, 2, 3, 4, 5)]
    """,
    "plain_functions_as_values": """
        table = {"a": square, "b": lambda v: v}
        fs = [lambda v, k=k: v + k for k in range(2)]
        def make(n):
            def inner(v=square(2)): return v + n
            return inner
        f = make(1)
        (a := f)(2)
        f = f if f() else square
        x = [table[k](3) for k in table] + [g(1) for g in fs] + [f(), a()]
        [(lambda: 0)(), *(h() for h in [f, a])]
        x[0:1] = map(square, x)
        y = {k: v for k, v in zip("ab", map(make(2), x))}
        return x, y, (lambda *b: apply(*b))(square, 4), sum(map(square, count(2)))
    """,
    "plain_generators_kept": """
        kept = [count(2), (i for i in count(3))]
        next(kept[0]); next(kept[1])
        it = iter(kept.pop())
        for x in it: break
        kept[0] = None
        kept += [count(1)]
        it = zip(count(2), it)
        next(it)
        try:
            x, y, z = count(2)
        except ValueError:
            x, *y = count(2)
        z = dict(zip(count(2), "ab")) if 1 in count(3) else 0
        if any(g := count(3)) and any(h := (i for i in [1, 2])):
            x = [*g, *h]
        return x, y, z, str(count(1))[:3], len(kept)
    """,
    "plain_attributes_and_coroutines": """
        def keep(): return 1
        keep.copy = lambda: square(2)
        keep.join = lambda g: next(g)
        x = keep.copy(), keep.join(i for i in [1, 2])
        async def later(): return 1
        for make in (lambda: list(later()), lambda: [i for i in later()]):
            try:
                make()
            except TypeError:
                pass
        try:
            for y in later(): pass
        except TypeError:
            y = any(i for i in [0, 1])
        return x, y
    """,
    "raise_again_in_a_loop": """
        try:
            try:
                fails(1)
            except ValueError:
                for x in count(2):
                    raise
        except ValueError:
            x = 0
        return x
    """,
}


def programs() -> list[Program]:
    """All of them."""
    return [
        Program(_needed(body) + f"\ndef main():  {MARKER}\n" + _indented(body), name) for name, body in BODIES.items()
    ]


def _indented(body: str) -> str:
    return textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n"


def _needed(body: str) -> str:
    """The definitions that a body names, and those that they name."""
    names: set[str] = set()
    more = {body}
    while more:
        words = set(re.findall(r"\w+", " ".join(more)))
        new = {name for name in DEFINITIONS if name in words} - names
        names |= new
        more = {DEFINITIONS[name] for name in new}
    return "".join(textwrap.dedent(text).strip("\n") + "\n\n" for name, text in DEFINITIONS.items() if name in names)
