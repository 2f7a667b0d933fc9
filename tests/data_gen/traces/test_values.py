"""Values that are known by their text alone are compared as Python compares the values: never run, and in linear time."""

import ast
import json
import math
import random
import time
import warnings
from typing import Any

import pytest

from remedy.data_gen.execution.describe import describe
from remedy.data_gen.traces.frames import value_text
from remedy.data_gen.traces.string_encodings import ENCODINGS, pieces
from remedy.data_gen.traces.values import same_value

STRINGS = ["", "a b", "'", '"', "'\"", "\\", "\\'", "\n", "\x00", "\ud800"]
STRINGS += ["a", "b", "ab", "é", "😀", "0:a", "[]", "''", "None", "1"]
LEAVES = [None, True, False, 0, 1, 2, -1, 10**30, 1 + 0j, 1j, -2.5j, b"", b"ab"]
LEAVES += [0.0, -0.0, 1.0, 0.5, 1e16, 1e-7, math.inf, -math.inf, math.nan]
SPECIALS = ["<|frame_sep|>", "<|end_of_text|>", "f'{1}'", "__import__('os')", "2-0", "1 + 1", "[1, 2", "{**{}}", "()"]


def drawn(rng: random.Random, depth: int = 3, hashable: bool = False) -> Any:
    """A value made of built-in ones."""
    if depth == 0 or rng.random() < 0.3:
        return rng.choice(STRINGS) if rng.random() < 0.6 else rng.choice(LEAVES)
    members = [drawn(rng, depth - 1, hashable) for _ in range(rng.randrange(4))]
    kind = rng.choice(["tuple"] if hashable else ["tuple", "list", "set", "dict"])
    if kind in ("set", "dict"):
        keys = [drawn(rng, depth - 1, hashable=True) for _ in range(rng.randrange(4))]
        return set(keys) if kind == "set" else dict(zip(keys, [*members, 0, 0, 0, 0]))
    return tuple(members) if kind == "tuple" else members


def mutated(rng: random.Random, text: str) -> str:
    """The text with a few characters taken out, put in or changed."""
    found = list(text)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(found) + 1)
        found[at : at + rng.randrange(2)] = rng.choice(["", *"'\"\\[](){},:0123 abx_.-+jeTN#"])
    return "".join(found)


def frozen(value: Any, encoding: str) -> Any:
    """What is written for a value, as something that Python can compare even where a set holds lists."""
    if isinstance(value, str):
        value = ENCODINGS[encoding](value)
        encoding = "plain"
    if isinstance(value, list | tuple):
        return type(value).__name__, tuple(frozen(one, encoding) for one in value)
    if isinstance(value, set):
        return "set", frozenset(frozen(one, encoding) for one in value)
    if isinstance(value, dict):
        return "dict", frozenset((frozen(key, encoding), frozen(one, encoding)) for key, one in value.items())
    return value


def evaluated(text: str) -> Any:
    """What Python makes of a literal.

    Raises:
        ValueError: it is none.
        TypeError: no value can be so, since a list is in a set.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.literal_eval(text)
        except (SyntaxError, MemoryError, RecursionError, OverflowError) as error:
            raise ValueError from error


def equal(left: str, right: str) -> bool | None:
    """Whether Python evaluates two texts to equal values; None if it cannot say."""
    try:
        return left == right or bool(evaluated(left) == evaluated(right))
    except ValueError:
        return False
    except TypeError:
        return None


def writes_strings(value: Any, encoding: str) -> str:
    """The encoding that the strings of a value are written in."""
    return encoding if any(piece.string for piece in pieces(describe(value), encoding)) else "plain"


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_ten_thousand_outputs_are_judged_as_python_judges_their_values(encoding: str) -> None:
    rng = random.Random(encoding)
    right = 0
    for _ in range(2_500):
        true, other = drawn(rng), drawn(rng)
        text, written = (value_text(describe(value), encoding) for value in (true, other))
        assert same_value(text, text), "a perfect answer"
        literal = "nan" not in text and "inf" not in text
        by_value = frozen(true, writes_strings(true, encoding)) == frozen(other, writes_strings(other, encoding))
        assert same_value(written, text) == (written == text or (literal and by_value)), (written, text)
        in_another = value_text(describe(true), rng.choice(list(ENCODINGS)))
        for output in (mutated(rng, text), in_another, rng.choice([repr(text), json.dumps(text), *SPECIALS])):
            expected, judged = equal(output, text), same_value(output, text)
            assert expected is None or judged == expected, (output, text)
            right += judged
    assert right > 100


@pytest.mark.parametrize(
    ("true", "written", "encoding", "same"),
    [
        (["ab", "cd"], "['a b', 'WRONG']", "spaced", False),
        (["ab", "cd"], "['a b']", "spaced", False),
        (["ab", "cd"], "'a   b'", "spaced", False),
        (["ab", "cd"], "['a b', 'c d']", "spaced", True),
        ("ab", "'a b'", "spaced", True),
        ("ab", '"a b"', "spaced", True),
        ("ab", "'a-b'", "spaced", False),  # another string's writing, or none's
        ("ab", "'ab'", "spaced", False),
        ("ab", "['a', 'b']", "spaced", False),
        ("", "[]", "spaced", False),
        ("", "[]", "plain", False),
        ("", "[]", "list", True),  # which is how this encoding writes it
        ([], "[]", "list", True),
        ([], "[]", "indexed", True),
        (["ab"], "['0:a 1:b']", "indexed", True),
        ({"ab": 1}, "{['a', 'b']: True}", "list", True),
        ({"b", "a"}, "{['b'], ['a']}", "list", True),
        ({"ab"}, "{['a'], ['b']}", "list", False),
    ],
)
def test_a_string_is_encoded_where_the_truth_has_one(true: Any, written: str, encoding: str, same: bool) -> None:
    assert same_value(written, value_text(describe(true), encoding)) == same


COLLIDING = ",".join(str(i * (2**61 - 1)) for i in range(20_000))
"""Numbers with one hash."""


@pytest.mark.parametrize(
    "text",
    [
        f"{{{COLLIDING}}}",
        f"{{{COLLIDING.replace(',', ':0,')}:0}}",
        "f'" + "{1}" * 160_000 + "'",
        '""" " \' """ f\'' + "{1}" * 160_000 + "'",
        "9" * 200_000,
        "'a' " * 50_000,
        "1+" * 100_000 + "1",
        "(" * 100_000 + ")" * 100_000,
        "{1:" * 70_000,
        "\\'" * 100_000,
        "a" * 200_000,
        "{" + "'" + "\\" * 200_000,
        "#" * 200_000,
        f"{'1' * 4000}+1j",
    ],
    ids=lambda text: text[:12],
)
def test_no_text_takes_long(text: str) -> None:
    started = time.process_time()
    same_value(text, f"{text} ")
    assert time.process_time() - started < 4  # quadratic time would be 10 s and more
