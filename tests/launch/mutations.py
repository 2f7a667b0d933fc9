"""Broken configurations: what people, scripts and editors make of a good one, drawn from a seed."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import yaml

Tree = Any
"""Sections, lists and values of a YAML file."""

DEEP = 60
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3, 7, 8, 64, 0.0, -0.5, 0.3, 1e-30, 1e300, -1e300),
    *(float("inf"), float("-inf"), float("nan"), 2**31, 2**32, 2**63, 2**64, -(2**64), 10**12, 10**30, 10**400),
    *("", " ", "x", "0", "1e-3", "1e999", "null", "true", ".inf", "²", "٣", "½", "1_0", "0x10", "1:30", "2020-13-45"),
    *(
        "\x00",
        "\x07\x1b[31m",
        "a\nb",
        "a\u2028b",
        "\ud800",
        "\ufeff",
        "😀",
        "é" * 30,
        "a" * 5000,
        "/",
        "..",
        "/dev/null",
    ),
    *("all", "direct", "free", "train", "permutation", "composition", "programs", "chars", "bpe", "cwm", "plain"),
    *([], [[]], [None], [1], [1, 2], [2, 1], [1, 2, 3], ["a"], ["a", 1], [float("inf")], [-1], [10**30], [[1, 2], [3]]),
    *({}, {"a": 1}, {"": {}}, {"kind": "permutation"}, {"kind": "nothing"}, {"kind": None}, {"kind": ["a"]}, {1: 2}),
    *({"task": {}}, {"set": {}}, {None: None}, {"a.b.c": 1}, {".": 1}, {"task.length": 4}, list(range(300))),
)
ODD_TEXTS = (
    *("2020-01-01", "2020-13-45", "12:30:45", "0o17", "010", "1__0", "~", "yes", "No", "=", "<<", "!!str 1", "!!int a"),
    *("!!binary aGk=", "!!set {a, b}", "!!omap [a: 1]", "!!timestamp 2020-01-01", "!!python/name:os.system", "!x y"),
    *(
        "&a [*a]",
        "&a {b: *a}",
        "*nothing",
        "&a [1, *a]",
        "[" * 200,
        "{" * 200,
        "[" * 3000,
        "]",
        "}",
        "'",
        '"',
        "|",
        ">",
    ),
    *('"\\ud83d\\ude00"', '"\\ud800"', '"\\0"', '"\\x1b[2J"', '"\\q"', "9" * 5000, "1e" + "9" * 50, "0x" + "f" * 400),
    *("{a: 1, a: 2}", "{<<: {a: 1}, b: 2}", "{<<: [1]}", "{<<: 3}", "{? [a] : b}", "{? {} : b}", "[a, b", "a: b: c"),
    *(
        "&x [&y [&z [1, 2], *z], *y, *y]",
        "\t",
        "%YAML 9.9",
        "--- a",
        "...",
        "#",
        "# x",
        "- a",
        "\ufeff",
        "\x85",
        "@",
        "`",
    ),
    "[" + ", ".join(["&a0 [1, 1]", *(f"&a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 40))]) + "]",
    "{a0: &m0 {x: 1}, " + ", ".join(f"a{i}: &m{i} {{<<: [*m{i - 1}, *m{i - 1}]}}" for i in range(1, 40)) + "}",
)


class Mutation(NamedTuple):
    """A file and the `key=value` words given with it."""

    file: bytes
    overrides: tuple[str, ...]


def mutated(text: str, others: list[str], draws: random.Random) -> Mutation:
    """One or two changes of a configuration's text. `others`: configurations that sections are taken from."""
    tree, overrides = yaml.safe_load(text), []
    kind = draws.choice(("tree", "tree", "tree", "text", "override", "override", "bytes"))
    if kind == "tree":
        for _ in range(draws.choice((1, 1, 2))):
            tree = draws.choice(_TREE)(tree, others, draws)
        return Mutation(_written(tree, draws), ())
    if kind == "override":
        overrides = [_override(tree, draws) for _ in range(draws.choice((1, 1, 1, 2)))]
        return Mutation(text.encode(), tuple(overrides))
    changed = _odd_text(text, draws)
    file = changed.encode("utf-8", "surrogatepass")
    return Mutation(_bytes(file, draws) if kind == "bytes" else file, ())


def places(tree: Tree, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where every value below the top is."""
    inside = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in inside:
        yield (*path, key)
        yield from places(value, (*path, key))


def _at(tree: Tree, path: tuple[Any, ...]) -> Tree:
    for key in path:
        tree = tree[key]
    return tree


def _changed(tree: Tree, draws: random.Random, change: Callable[[Any, Any], None]) -> Tree:
    """The tree after a change of one of its places: of the container, at the key."""
    result = copy.deepcopy(tree)
    found = list(places(result))
    if not found:
        return {"a": 1}
    *above, key = draws.choice(found)
    change(_at(result, tuple(above)), key)
    return result


def _replace(tree: Tree, others: list[str], draws: random.Random) -> Tree:
    value = copy.deepcopy(draws.choice(VALUES))
    return _changed(tree, draws, lambda holder, key: holder.__setitem__(key, value))


def _remove(tree: Tree, others: list[str], draws: random.Random) -> Tree:
    return _changed(tree, draws, lambda holder, key: holder.__delitem__(key))


def _misspell(tree: Tree, others: list[str], draws: random.Random) -> Tree:
    def change(holder: Any, key: Any) -> None:
        if isinstance(holder, dict):
            word, at = str(key), draws.randrange(len(str(key)) + 1)
            wrong = draws.choice(
                (word[:at] + word[at + 1 :], word[:at] + "x" + word[at:], word.upper(), word + "." + word)
            )
            holder[draws.choice((wrong, wrong, 3, None, True, "", "names", "hints", "a" * 3000, "\ud800", "a\nb"))] = (
                holder.pop(key)
            )
        else:
            holder.append(holder[key])

    return _changed(tree, draws, change)


def _nest(tree: Tree, others: list[str], draws: random.Random) -> Tree:
    depth = draws.choice((1, 2, DEEP))
    in_lists = draws.random() < 0.5

    def change(holder: Any, key: Any) -> None:
        for _ in range(depth):
            holder[key] = [holder[key]] if in_lists else {"set": holder[key]}

    return _changed(tree, draws, change)


def _transplant(tree: Tree, others: list[str], draws: random.Random) -> Tree:
    other = yaml.safe_load(draws.choice(others))
    value = copy.deepcopy(_at(other, draws.choice(list(places(other)))))

    def change(holder: Any, key: Any) -> None:
        if isinstance(holder, dict) and draws.random() < 0.5:
            holder[draws.choice(("data", "task", "train", "model", "tokenizer", "reveal", "mixture", "set", "x"))] = (
                value
            )
        else:
            holder[key] = value

    return _changed(tree, draws, change)


def _perturb(tree: Tree, others: list[str], draws: random.Random) -> Tree:
    """A number a little or a lot off, a text cut or doubled."""

    def change(holder: Any, key: Any) -> None:
        value = holder[key]
        if isinstance(value, bool) or value is None:
            holder[key] = draws.choice((not value, str(value)))
        elif isinstance(value, (int, float)):
            holder[key] = draws.choice(
                (-value, value + 1, value * 1000, value * 10**12, value / 2, float(value), str(value))
            )
        elif isinstance(value, str):
            holder[key] = draws.choice((value[:-1], value * 2, value.upper(), [value], {value: value}, f" {value} "))
        elif isinstance(value, list):
            holder[key] = draws.choice((value * 2, value[::-1], value[:1], dict(enumerate(value)), value * 300))
        else:
            holder[key] = draws.choice((list(value), list(value.values()), dict.fromkeys(value), str(value)))

    return _changed(tree, draws, change)


_TREE = (_replace, _replace, _replace, _remove, _misspell, _nest, _transplant, _perturb, _perturb)


def _written(tree: Tree, draws: random.Random) -> bytes:
    text = yaml.safe_dump(
        tree, allow_unicode=draws.random() < 0.5, sort_keys=False, default_flow_style=draws.choice((None, True))
    )
    return text.encode("utf-8", "surrogatepass")


def _odd_text(text: str, draws: random.Random) -> str:
    """A line's value in YAML's odder forms, a line twice, indented otherwise, or cut."""
    lines = text.splitlines()
    at = draws.randrange(len(lines))
    line, way = lines[at], draws.randrange(6)
    if way <= 2 and ":" in line:
        lines[at] = f"{line.partition(':')[0]}: {draws.choice(ODD_TEXTS)}"
    elif way == 3:
        lines.insert(draws.randrange(len(lines)), line)
    elif way == 4:
        lines[at] = draws.choice((" ", "\t", "- ", "? ", ": ", "  # ")) + line
    else:
        cut = draws.randrange(len(line) + 1)
        lines[at] = (
            line[:cut] + draws.choice(("", draws.choice(ODD_TEXTS), ":", "}", "]", ",", "'", " &a ")) + line[cut:]
        )
    return "\n".join(lines)


def _bytes(file: bytes, draws: random.Random) -> bytes:
    changed = bytearray(file)
    for _ in range(draws.choice((1, 3, 10))):
        changed[draws.randrange(len(changed))] = draws.randrange(256)
    return bytes(changed[: draws.choice((len(changed), len(changed), draws.randrange(len(changed))))])


def _override(tree: Tree, draws: random.Random) -> str:
    path = [str(key) for key in draws.choice(list(places(tree)))]
    way = draws.randrange(8)
    if way == 0:
        path.append(draws.choice(("x", "0", "²", "-1", "set", "9" * 5000, "")))
    elif way == 1:
        path.insert(draws.randrange(len(path) + 1), draws.choice(("x", "0", "99", "", "task", "runs", "grid")))
    elif way == 2:
        path = path * draws.choice((2, 300))
    if draws.random() < 0.5:
        value = draws.choice(ODD_TEXTS)
    else:
        value = yaml.safe_dump(draws.choice(VALUES), default_flow_style=True, allow_unicode=True, width=10**6)
        value = value.removesuffix("...\n").strip()
    word = draws.choice(
        (f"{'.'.join(path)}={value}",) * 8 + (value, f"={value}", f"{'.'.join(path)}:{value}", f"{value}={value}")
    )
    # What a shell can pass on: no NUL, and bytes that are no UTF-8 as half surrogates of their own.
    text = word.replace("\0", "").encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape")
    return text if not text.startswith("-") else f"x{text}"
