"""A harvested package sees itself and what is installed: nothing beside it, nothing that leads out of it, no file without an end."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from remedy.data_gen.execution import isolation
from remedy.data_gen.harvest.sources import find, interpreter
from remedy.launch.tools import harvest
from remedy.settings import ConfigError

DOUBLED = '''def {name}(x):
    """
    >>> {name}({arguments})
    """
    return "{name}" + x + "{name}"
'''


def written(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def functions(words: list[str], out: Path) -> dict[str, list[dict[str, Any]]]:
    """The rows of a harvest by the name of their function."""
    harvest(words, out)
    found: dict[str, list[dict[str, Any]]] = {}
    for row in map(json.loads, out.read_text().splitlines()):
        found.setdefault(row["function"], []).append(row)
    return found


@pytest.fixture(params=isolation.PROBLEMS)
def walls(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each isolation with walls that works here, as the one that harvests."""
    if problem := isolation.PROBLEMS[request.param]():
        pytest.skip(problem)
    monkeypatch.setattr(isolation, "PROBLEMS", {request.param: isolation.PROBLEMS[request.param]})
    return str(request.param)


def reads(path: Path | str) -> str:
    return f"(lambda p: open(p).read() if __import__('os').access(p, 4) else 'closed')({str(path)!r})"


@pytest.mark.usefixtures("walls")
def test_nothing_beside_a_package_is_read_whatever_it_is_named_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own files, tests with a conftest.py, and packages that are installed are."""
    here = written(
        tmp_path / "downloads",
        {
            ".env": "SECRET",
            "beside/__init__.py": "SECRET = 1",
            "evil/__init__.py": "",
            "evil/data.txt": "own",
            "evil/inner/__init__.py": "from ..words import tested\n",
            "evil/words.py": f"""import os
HERE = os.path.dirname(__file__)
def secret(x):
    '''
    >>> secret({reads(tmp_path / "downloads" / ".env")})
    '''
    return 'secret' + x + 'secret'
def upwards(x):
    '''
    >>> upwards(open(os.path.join(HERE, '..', '.env')).read())
    '''
    return 'upwards' + x + 'upwards'
def listed(x):
    '''
    >>> listed([name for name in os.listdir(os.path.dirname(HERE)) if name != 'evil'])
    '''
    return x + [1]
def imported(x):
    '''
    >>> import beside
    >>> imported(beside.SECRET)
    '''
    return x + 1
def own(x):
    '''
    >>> own(open(os.path.join(HERE, 'data.txt')).read())
    '''
    return 'own' + x + 'own'
def sibling(x):
    '''
    >>> import pydantic
    >>> sibling(pydantic.__name__)
    '''
    return 'sibling' + x + 'sibling'
def tested(x):
    return 'tested' + x + 'tested'
""",
            "evil/tests/__init__.py": "",
            "evil/tests/conftest.py": "import pytest\n@pytest.fixture\ndef word():\n    return 'given'\n",
            "evil/tests/test_words.py": "from evil.inner import tested\ndef test_one(word):\n    assert tested(word)\n",
        },
    )
    found = functions([str(here / "evil")], tmp_path / "out.jsonl")
    given = {name: {row["input"] for row in rows if row["seen"] == "recorded"} for name, rows in found.items()}
    assert "SECRET" not in (tmp_path / "out.jsonl").read_text()
    assert given["own"] == {"'own'"}
    assert given["sibling"] == {"'pydantic'"}
    assert given["tested"] == {"'given'"}
    assert given.keys() - {"own", "sibling", "tested"} <= {"secret", "listed"}
    assert given.get("secret", {"'closed'"}) == {"'closed'"}
    assert given.get("listed", {"[]"}) == {"[]"}
    monkeypatch.syspath_prepend(str(here))  # by the name of a module, as of one that PYTHONPATH shows
    assert functions(["evil"], tmp_path / "named.jsonl") == {
        name: [{**row, "package": "evil"} for row in rows] for name, rows in found.items()
    }


@pytest.mark.usefixtures("walls")
def test_a_module_that_is_a_file_is_that_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beside = written(tmp_path / "one", {"note.txt": "SECRET"}) / "note.txt"
    source = DOUBLED.format(name="f", arguments=reads(beside)) + DOUBLED.format(name="g", arguments="'plain'")
    written(tmp_path / "one", {"single_file.py": source})
    monkeypatch.syspath_prepend(str(tmp_path / "one"))
    found = functions(["single_file"], tmp_path / "out.jsonl")
    assert {row["input"] for row in found["g"]} >= {"'plain'"}
    assert "SECRET" not in (tmp_path / "out.jsonl").read_text()


def test_what_was_installed_into_a_folder_is_imported_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `pip install --target` does, whose folder PYTHONPATH names."""
    source = "from near import ONE\n" + DOUBLED.format(name="f", arguments="str(ONE)")
    about = {
        "words-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: words\nVersion: 1.0\n",
        "words-1.0.dist-info/RECORD": "words/__init__.py,,\n../../bin/x.py,,\n/etc/passwd.py,,\n",
    }
    written(tmp_path / "target", {**about, "words/__init__.py": source, "near.py": "ONE = 1"})
    monkeypatch.syspath_prepend(str(tmp_path / "target"))
    found = find("words", interpreter(None))
    assert [name for name, _ in found.modules] == ["words"]
    assert "f" in functions(["words"], tmp_path / "out.jsonl")


@pytest.mark.parametrize("place", ["home/settings.py", "evil/own.py"])
def test_a_link_out_of_a_package_is_no_module_of_it(place: str, tmp_path: Path) -> None:
    """Else the text of a user's file, which the sandbox does not show, would be copied into programs. One to its own file is."""
    forged = (
        "import sys, types\nsys.modules['evil.settings'] = types.SimpleNamespace(KEY='')\nfrom .settings import KEY\n"
    )
    source = forged + DOUBLED.format(name="f", arguments="'a'").replace("return", "KEY; return")
    written(tmp_path, {place: "KEY = 'SECRET'\n", "evil/__init__.py": "", "evil/words.py": source})
    (tmp_path / "evil" / "settings.py").symlink_to(tmp_path / place)
    (tmp_path / "evil" / "linked").symlink_to(tmp_path / "home")
    harvest([str(tmp_path / "evil")], tmp_path / "out.jsonl")
    assert ("SECRET" in (tmp_path / "out.jsonl").read_text()) == (place == "evil/own.py")


def test_no_file_of_a_package_fills_the_memory_or_has_no_end(tmp_path: Path) -> None:
    here = written(tmp_path / "pkg", {"__init__.py": DOUBLED.format(name="f", arguments="'a'")})
    described = written(tmp_path, {"pkg-1.dist-info/METADATA": "Name: pkg\n", "x.egg-info/PKG-INFO": "Name: x\n"})
    sparse = ["README.md", "big.py", "test_big.py"]
    for path in [*(here / name for name in sparse), described / "x.egg-info" / "SOURCES.txt"]:
        path.touch()
        os.truncate(path, 12 << 30)
    for path in (
        here / "README.rst",
        here / "pipe.py",
        here / "test_pipe.py",
        described / "pkg-1.dist-info" / "RECORD",
    ):
        os.mkfifo(path)
    assert functions([str(tmp_path)], tmp_path / "project.jsonl").keys() == {"f"}
    (here / "test_big.py").unlink()
    assert functions([str(here)], tmp_path / "package.jsonl").keys() == {"f"}


@pytest.mark.parametrize(
    "record", ["\n\n", "a.py,b,c,d,e\n", '"\0\n', "a.py,,no number\n", ",,\n", f'"{"x" * 200_000}",,\n']
)
def test_a_list_of_files_that_is_none_names_none(record: str, tmp_path: Path) -> None:
    written(tmp_path, {"p-1.dist-info/METADATA": "Name: p\n", "p-1.dist-info/RECORD": record, "evil/__init__.py": ""})
    assert find(str(tmp_path / "evil"), interpreter(None)).version == "unknown"


def test_an_interpreter_that_is_too_old_is_said(tmp_path: Path) -> None:
    old = tmp_path / "python"
    old.write_text('#!/bin/sh\ncase "$*" in *prefix*) echo "$0"; echo /; echo /;; *) echo old >&2; exit 1;; esac\n')
    old.chmod(0o755)
    with pytest.raises(ConfigError, match=r"python is no working Python of version 3.10 or later \(old\)"):
        interpreter(str(old))
