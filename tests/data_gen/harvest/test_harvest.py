"""A harvest of a small package: what is kept, and each reason for which something is not."""

import json
from pathlib import Path
from typing import Any

import pytest

from remedy.data_gen.harvest.duplicates import ProgramIndex
from remedy.data_gen.harvest.package import Options
from remedy.data_gen.harvest.run import harvest_all
from remedy.launch.tools import harvest
from remedy.owner import owned
from remedy.settings import UserError

FILES = {
    "PKG-INFO": "Metadata-Version: 2.4\nName: tidy-words\nVersion: 1.2\nLicense-Expression: MIT\n",
    "tidy/__init__.py": "from .words import squeeze\n",
    "tidy/_marks.py": "BLANK = ' '\nLIMIT = 3\ndef double(mark):\n    return mark + mark\n",
    "tidy/words.py": '''"""Words."""
import functools
from typing import Iterator, overload
from ._marks import BLANK, double as twice
from . import _marks

@overload
def squeeze(text: str) -> str: ...
@functools.lru_cache(maxsize=None)
def squeeze(text: str, mark: str = BLANK) -> str:
    """Make one of two marks.

    >>> squeeze('a  b    c')
    'a b c'
    >>> squeeze('a--b', mark='-')
    'a-b'
    """
    while twice(mark) in text:  # as long as there are two
        text = text.replace(twice(mark), mark)
    return text

def pairs(items) -> Iterator[tuple]:
    """
    >>> list(pairs([1, 2, 3]))
    [(1, 2), (2, 3)]
    """
    for at in range(len(items) - 1):
        yield items[at], items[at + 1]

def neighbours(things):
    for at in range(len(things) - 1):
        yield things[at], things[at + 1]

def never_called(x):
    return x

def of_objects(thing):
    return str(thing)[:1]

def as_object(n):
    return object()

def fails(x):
    raise ValueError(x)

def endless(n):
    while True:
        yield n

seen = []
def counts(x):
    seen.append(x)
    return len(seen)

def whole(x):
    return vars(_marks)['double'](x)

def through(text):
    return [text, _marks.double(text), _marks.double(_marks.BLANK), 'ß', _marks.LIMIT]

def late(x):
    from ._marks import double
    return double(x)

globals()['hidden'] = 3
def looks(x):
    return hidden + x

def published(numbers):
    total = 0
    for number in numbers:
        total = total + number * 2
    return total

TABLE = "'''
    + "x" * 8000
    + """"
def tabled(x):
    return TABLE[x:x + 1]
""",
    "tidy/deep.py": f"def deep(x):\n    return x{' + x' * 400}\n",
    "tidy/other.py": """import pytest
from ._marks import LIMIT
from .clash import beyond

def foreign(x):
    return float(pytest.approx(x).expected)

def clashes(x):
    return beyond(x) + LIMIT
""",
    "tidy/broken.py": "import nothing_of_this_name\ndef lost(x):\n    return x\n",
    "tidy/clash.py": "LIMIT = 9\ndef beyond(x):\n    return x > LIMIT\n",
    "tests/test_words.py": """import pytest
from tidy import deep, other, words

ONE = ['never_called'], ['squeeze']
CALLS = [words.fails, words.as_object, words.endless, words.counts, words.whole, words.late, words.looks, words.tabled]

@pytest.mark.parametrize('call', [*CALLS, deep.deep, other.foreign, other.clashes])
def test_one(call):
    call(1)

def test_more():
    words.of_objects(object())
    words.through('a')
    list(words.neighbours('abc'))
    assert words.published([1, 2]) == 6

def test_that_ends_nothing():
    import os, socket, subprocess, threading
    with pytest.raises(RuntimeError):
        os.fork()
    with pytest.raises(RuntimeError):
        subprocess.run(['true'])
    with pytest.raises(RuntimeError):
        threading.Thread(target=print).start()
    with pytest.raises(RuntimeError):
        socket.create_connection(('localhost', 80))
""",
    "tests/test_hostile.py": """import os
from tidy import words

def test_hostile():
    words.squeeze('lost')
    with open(os.environ.get('PLACE', '{place}'), 'w') as file:
        file.write('escaped')
""",
    "tests/test_forger.py": """import gc, json, sys
from tidy import words

def test_forger():
    words.squeeze('never said')
    words.squeeze('never')
    profile = sys.getprofile()
    for module in profile.calls.values():
        for noted in module.values():
            noted[:] = ['__import__("os").abort()', 'print', '1)(2']
""",
    "tests/test_flood.py": """import sys
from tidy import words

def test_flood():
    words.squeeze('flooded')
    sys.getprofile().calls['tidy.words']['squeeze'] *= 1_000_000
""",
}
PUBLISHED = "def f(xs):\n    '''Says something else.'''\n    s = 0\n    for x in xs:\n        s = s + x * 2  # twice\n    return s\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked project, and beside it a benchmark."""
    folder = tmp_path_factory.mktemp("harvest")
    for name, text in FILES.items():
        path = folder / "tidy_words-1.2" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("{place}", str(folder / "escaped")))
    (folder / "benchmark.jsonl").write_text(json.dumps({"code": PUBLISHED, "input": "[1]"}) + "\n")
    return folder


def run(folder: Path, out: Path, licences: tuple[str, ...] = (), **changed: Any) -> list[str]:
    said: list[str] = []
    options = Options(4, 0, None, 2, ProgramIndex())._replace(**changed)
    against = [str(folder / "benchmark.jsonl")]
    harvest_all([str(folder / "tidy_words-1.2")], out, licences, against, options, folder / "caught.jsonl", said.append)
    return said


@pytest.fixture(scope="module")
def harvested(folder: Path) -> Path:
    """The file of a whole harvest."""
    run(folder, folder / "programs.jsonl")
    return folder / "programs.jsonl"


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_every_function_is_kept_or_counted_with_its_reason(folder: Path, harvested: Path) -> None:
    [summary] = json.loads(harvested.with_suffix(".summary.json").read_text())["packages"].values()
    assert summary["functions"] == {
        "all": 21,
        "kept": 5,
        "never called": 1,
        "its module cannot be imported": 1,
        "called with objects alone": 1,
        "nested too deeply to be compared": 1,
        "no call of it can be kept": 4,
        "not self-contained: a whole module of its package": 1,
        "not self-contained: an import inside a statement": 1,
        "not self-contained: a name that is not found": 1,
        "not self-contained: another package": 1,
        "not self-contained: two modules' names clash": 1,
        "not self-contained: longer than 8,000 characters": 1,
        "in a benchmark": 1,
        "duplicate": 1,
    }
    assert {"raised", "its result is no short literal", "it ran too long", "another result the second time"} <= set(
        summary["calls"]
    )
    kinds = {row["kind"]: row["of"].rpartition("/")[2] for row in rows(folder / "caught.jsonl")}
    assert kinds == {"in a benchmark": "benchmark.jsonl:1", "duplicate": "tidy.words.pairs"}


def test_a_program_holds_what_its_function_needs_and_no_answer(harvested: Path) -> None:
    first, second = [row for row in rows(harvested) if row["function"] == "squeeze" and row["seen"] == "recorded"]
    assert first["code"] == (
        "from __future__ import annotations\n"
        "import functools\n"
        "BLANK = ' '\n\n"
        "def double(mark):\n"
        "    return mark + mark\n\n"
        "twice = double\n\n"
        "@functools.lru_cache(maxsize=None)\n"
        "def squeeze(text: str, mark: str = BLANK) -> str:\n"
        "    while twice(mark) in text:  # as long as there are two\n"
        "        text = text.replace(twice(mark), mark)\n"
        "    return text\n\n"
        "f = squeeze\n"
    )
    assert (first["input"], first["output"]) == ("'a  b    c'", "'a b c'")
    assert (second["input"], second["output"]) == ("'a--b', '-'", "'a-b'")
    about = {"package": "tidy-words", "version": "1.2", "licence": "MIT", "file": "tidy/words.py", "line": 9}
    assert about.items() <= first.items()
    assert first["families"] == ["strings"]
    [through, *_] = [row for row in rows(harvested) if row["function"] == "through"]
    assert through["code"] == (
        "BLANK = ' '\nLIMIT = 3\n\n"
        "def double(mark):\n    return mark + mark\n\n\n"
        "def through(text):\n    return [text, double(text), double(BLANK), 'ß', LIMIT]\n\n"
        "f = through\n"
    )


def test_an_iterator_is_listed_and_calls_are_made_up_where_few_were_seen(harvested: Path) -> None:
    found = [row for row in rows(harvested) if row["function"] == "pairs"]
    assert found[0]["code"].endswith("def f(*arguments, **named):\n    return list(pairs(*arguments, **named))\n")
    assert [row["seen"] for row in found] == ["recorded", *["made up"] * (len(found) - 1)]
    assert len({row["output"] for row in found}) == len(found) > 1
    assert found[0]["families"] == ["generators", "numbers"]


def test_hostile_code_writes_nothing_and_loses_its_own_calls_alone(folder: Path, harvested: Path) -> None:
    assert not (folder / "escaped").exists()
    [summary] = json.loads(harvested.with_suffix(".summary.json").read_text())["packages"].values()
    assert summary["runs"] == {"ok": 3, "files": 1, "forged": 1}
    assert not any(
        word in row["input"] for row in rows(harvested) for word in ("lost", "said", "abort", "print", "flooded")
    )


def test_an_interrupted_harvest_goes_on_to_the_same_bytes(folder: Path, harvested: Path) -> None:
    out = folder / "again.jsonl"
    whole = harvested.read_bytes()
    out.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match=r"again.jsonl: is not a harvest's"):
        run(folder, out)
    summary = json.loads(harvested.with_suffix(".summary.json").read_text())
    out.with_suffix(".summary.json").write_text(json.dumps({**summary, "packages": {}}))
    run(folder, out)
    assert out.read_bytes() == whole
    before = out.with_suffix(".summary.json").read_bytes()
    assert run(folder, out)[1].startswith("| tidy-words | 21 | 18 |")
    assert (out.read_bytes(), out.with_suffix(".summary.json").read_bytes()) == (whole, before)
    with pytest.raises(UserError, match=r"begun with calls 4, not 5: give the same"):
        run(folder, out, calls=5)


def test_what_is_asked_for_is_checked_and_what_is_said_is_escaped(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UserError, match="is a folder"):
        run(folder, tmp_path)
    for name in ("one", "other"):
        (tmp_path / name / "same").mkdir(parents=True)
        (tmp_path / name / "same" / "__init__.py").touch()
        (tmp_path / name / "PKG-INFO").write_text("Name: same\nLicense: \x1b[31mred\n")
    words, out = [str(tmp_path / name) for name in ("one", "other")], tmp_path / "out.jsonl"
    with pytest.raises(UserError, match=r"same: is in .*one and in .*other: give each"):
        harvest(words, out)
    harvest(words[:1], out, licences=["MIT"])
    assert "left out: its licence is \\x1b[31mred" in capsys.readouterr().out
    with owned(tmp_path, "-out.jsonl"), pytest.raises(UserError, match="is writing there"):
        harvest(words[:1], out)
