"""`remedy simulate`: a trained model's trace of a file, what is said of it, and bad input in one line each."""

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from remedy.models.loading import load_checkpoint
from remedy.settings import load
from remedy.train.config import RunConfig
from remedy.train.run import train
from tests.contract_server import ContractServer
from tests.launch.in_process import remedy

SWAP = "def main():  # << START_OF_TRACE\n    a, b = 1, 2\n    a, b = b, a\n    return a\n"
FUNCTION = "def f(s, n):\n    return s * n\n"
LOOPING = """def main():  # << START_OF_TRACE
    a = 1
    for one in (1, 2):
        if one > a:
            a = one
    return a
"""


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has learnt one program by heart."""
    folder = tmp_path_factory.mktemp("memorised")
    (folder / "programs").mkdir()
    (folder / "programs" / "swap.py").write_text(SWAP)
    task = {"kind": "programs", "path": str(folder / "programs")}
    config = {
        "output": str(folder / "model"),
        "data": {"task": task, "reveal": {"locals": "diff"}},
        "tokenizer": {"kind": "bpe", "vocab_size": 300},
        "model": {"mixers": ["gru"], "num_hidden_layers": 1, "hidden_size": 48},
        "train": {"max_steps": 100, "batch_size": 1, "learning_rate": 2e-2, "save_steps": 1000, "threads": 1},
        "tracking": {"report_to": []},
    }
    (folder / "run.yaml").write_text(yaml.safe_dump(config))
    return train(load(RunConfig, folder / "run.yaml"))


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "swap.py"
    path.write_text(SWAP)
    return path


def test_what_a_model_writes_is_printed_frame_by_frame(checkpoint: Path, program: Path) -> None:
    done = remedy(["simulate", checkpoint, program, "--check"])
    assert done.status == 0
    assert "\x1b" not in done.output
    assert re.findall(r"^(context|frame \d|end)$", done.output, re.MULTILINE) == [
        "context",
        *(f"frame {number}" for number in range(1, 5)),
        "end",
    ]
    assert len(re.findall(r"^  written  \(probability [\d.]+, least likely", done.output, re.MULTILINE)) == 5
    assert re.search(r"\nwrote: 4 frames, \d+ tokens written, [\d.]+ s\nanswer: 2\nright: yes\n", done.output)
    assert "first error" not in done.output


def test_a_function_is_given_its_arguments_and_one_that_cannot_be_run_is_simulated(
    checkpoint: Path, tmp_path: Path
) -> None:
    (tmp_path / "function.py").write_text(FUNCTION)
    done = remedy(["simulate", checkpoint, tmp_path / "function.py", "--input", "'ab', 3", "--check"])
    assert done.status == 0
    assert "\ntrue answer: 'ababab'\n" in done.output
    (tmp_path / "one.py").write_text("1 / 0\n" + SWAP)
    done = remedy(["simulate", checkpoint, tmp_path / "one.py", "--check", "max_new_tokens=50"])
    assert done.status == 0
    assert re.search("truth: not known: .*ZeroDivisionError", done.output)


def test_terminals_and_pages_have_colours_and_obey_no_program(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile = "\x1b[31m[bold]</span><script>\N{RIGHT-TO-LEFT OVERRIDE}"
    (tmp_path / "x.py").write_text(SWAP.replace("return a", f"return a  # {hostile}"), encoding="utf-8")
    target = tmp_path / "new" / "page.html"
    words = [
        "simulate",
        checkpoint,
        tmp_path / "x.py",
        "--check",
        "--forcing",
        "control_flow",
        "max_new_tokens=90",
    ]
    texts = []
    for options in ({}, {"force_terminal": True, "color_system": "truecolor"}):
        monkeypatch.setattr("rich.console.Console", partial(Console, width=120, **options))
        texts.append(remedy(words).output)
    monkeypatch.undo()
    assert remedy([*words, "--html", target]).output == f"page: {target}\n"
    plain, coloured = texts
    page = target.read_text(encoding="utf-8")
    assert "\\x1b" in plain
    without_styles = re.sub(r"\x1b\[[\d;?]*[mhlAK]", "", coloured)
    assert without_styles != coloured
    assert "\x1b[31m" not in coloured
    for text in (plain, without_styles, page):
        assert "\x1b" not in text
        assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in text
    for unwanted in ("<script", "http"):
        assert unwanted not in page


def test_a_served_model_is_held_to_the_program_too(checkpoint: Path, tmp_path: Path) -> None:
    """The frames are those of the model here; a frame in which it chose is of unknown probability."""
    (tmp_path / "loop.py").write_text(LOOPING)
    words: list[Any] = ["simulate", checkpoint, tmp_path / "loop.py", "--check", "--forcing", "control_flow"]
    words += ["max_new_tokens=250", "set.memory=2"]
    local = remedy(words)
    with ContractServer(*load_checkpoint(str(checkpoint))).running() as url:
        served = remedy([*words, f"backend.url={url}", "backend.model=tiny"])
    assert served.status == 0, served.errors
    frames = [re.findall(r"^frame \d+.*$", done.output, re.MULTILINE) for done in (local, served)]
    assert len(frames[1]) >= 5
    assert frames[0] == frames[1]
    assert 1 <= served.output.count("probability unknown: a server chose") < len(frames[1])


BAD: dict[str, tuple[str | None, list[Any], str]] = {
    "no file": (None, [], "swap.py cannot be read: No such file"),
    "no entry": ("x = 1\n", [], "no function marked; write `def main()"),
    "no arguments": (FUNCTION, [], "marks no entry point, and defines f: give its arguments with --input"),
    "parameters": (SWAP.replace("main()", "main(x=1)"), [], "main has parameters, and only a run tells their values"),
    "forcing": (SWAP, ["--forcing", "contol_flow"], "did you mean 'control_flow'?"),
    "truth": (SWAP, ["--forcing", "action_forced"], "feeds what only a run of the program tells: give --check"),
    "memory without frames": (SWAP, ["set.memory=3", "set.format=repl"], "memory 3: nothing that a model writes in the repl"),
    "symbols": (SWAP, ["set.format=symbolic"], "symbolic: no trace of a program is written so"),
    "another program": (SWAP, ["set.task.path=other.py"], "does nothing here, where the program is given"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line(checkpoint: Path, tmp_path: Path, name: str) -> None:
    code, options, says = BAD[name]
    if code is not None:
        (tmp_path / "swap.py").write_text(code)
    assert says in refused(checkpoint, tmp_path / "swap.py", *options)


def refused(*words: object) -> str:
    done = remedy(["simulate", *words])
    assert (done.status, done.output) == (2, "")
    assert done.errors.count("\n") == 1
    return done.errors
