"""The boundary of every command line: errors of a user or of the machine are one line and status 2, an interrupt is 130, and a
mistake of ours keeps its traceback."""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from remedy.launch import console
from remedy.launch.console import command_line, in_words
from remedy.owner import owned
from tests.launch.in_process import remedy

ROOT = Path(__file__).resolve().parents[2]
PERMUTATION = ROOT / "configs" / "train" / "permutation.yaml"
DATA = ROOT / "configs" / "data" / "permutation.yaml"
EXAMPLE = ROOT / "examples" / "reverse.py"
QUICKSTART = ROOT / "configs" / "experiment" / "quickstart.yaml"
TINY = ("train.max_steps=2", "train.batch_size=4", "tracking.report_to=[]", "train.curriculum=[]")
FEW = ("write.splits={train: 3}", "tokenizer={kind: chars}")


def refused(arguments: list[object]) -> str:
    """The one line of a command that is refused."""
    ended = remedy(arguments)
    assert ended.status == 2, ended
    assert ended.errors.startswith("error: "), ended.errors
    assert len(ended.errors.splitlines()) == 1, ended.errors
    assert len(ended.errors) < 1000
    return ended.errors.strip()


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "/d/f"), "/d/f: No space left on device; make room and give"),
        (ConnectionError("the hub\ndid not answer"), "the hub did not answer"),
        (MemoryError("Unable to allocate 72.8 TiB"), "out of memory (Unable to allocate 72.8 TiB): make the numbers"),
        (KeyError("x"), None),
    ],
)
def test_errors_in_words(error: Exception, says: str | None) -> None:
    words = in_words(error)
    assert (words is None) if says is None else (words is not None and says in words)
    assert "\n" not in str(words)


def test_a_mistake_of_ours_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    app = command_line()

    @app.command()
    def fails() -> None:
        raise KeyError("ours")

    monkeypatch.setattr(sys, "argv", ["fails"])
    with pytest.raises(KeyError, match="ours"):
        console.start(app)


@pytest.mark.parametrize(("command", "name"), [("train", "file"), ("generate", "/proc/x/y"), ("run", "x" * 300)])
def test_an_output_that_cannot_be_made_is_one_line(
    command: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("in the way")
    words: dict[str, list[object]] = {
        "train": ["train", PERMUTATION, *TINY, f"output={name}"],
        "generate": ["generate", DATA, *FEW, "--out", name],
        "run": ["run", QUICKSTART, f"output={name}"],
    }
    assert ": cannot be written: " in refused(words[command])
    assert (tmp_path / "file").read_text() == "in the way"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["generate", DATA, "write.splits={}"], "splits have no examples"),
        (["generate", DATA, "--shard", f"{'9' * 5000}/{'9' * 5001}"], "write i/N"),
        (["train", PERMUTATION, "output=''"], "output: must not be empty, which would mean the current folder"),
        (["train", QUICKSTART], "is an experiment, of many runs: `remedy run "),
        (["train", PERMUTATION, f"train.max_steps={'x' * 5000}"], "xxx...xxx"),
        (["train", PERMUTATION, "data={task: {}, task: {}}"], "key 'task' is given twice"),
        (["measure", ROOT / "configs/measure/programs.yaml", "costs.limits=[-1]"], "'costs.limits.0'"),
        (["show", EXAMPLE, "reveal.spacin=4"], "'data.reveal.spacin'; did you mean 'spacing'"),
        (["compare", EXAMPLE, EXAMPLE, "--right-from", "nan"], "--right-from nan: is no score"),
        (["evaluate", "nothing", ROOT / "configs/evaluate/permutation.yaml"], "nothing: there is no such folder here"),
    ],
)
def test_a_wrong_setting_is_one_line(arguments: list[object], says: str, tmp_path: Path) -> None:
    needs_out = arguments[0] in ("generate", "evaluate", "measure", "report", "compare")
    assert says in refused([*arguments, *(["--out", tmp_path / "out"] if needs_out else [])])
    assert not list(tmp_path.iterdir())


def interrupted(words: list[object], begun: str, how: signal.Signals = signal.SIGINT) -> str:
    """What a command says that a terminal interrupts, with all its processes, once a file of this pattern is there; or that gets
    another signal alone."""
    process = subprocess.Popen(
        [sys.executable, "-m", "remedy.launch.cli", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        start_new_session=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    folder = Path(str(words[-1]).partition("=")[2] or str(words[-1]))
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None and not list(folder.glob(begun)):
        time.sleep(0.01)
    if how is signal.SIGINT:
        os.killpg(process.pid, how)
    else:
        os.kill(process.pid, how)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert len(errors.splitlines()) == 1, errors
    return errors


@pytest.mark.slow
def test_an_interrupt_of_generate_is_one_line_and_what_is_written_stays(tmp_path: Path) -> None:
    settings = ("tokenizer={kind: chars}", "write.shard_size=20")
    says = interrupted(["generate", DATA, *settings, "--workers", 2, "--out", tmp_path / "o"], "data/*.parquet")
    assert says == "interrupted: what is written stays, and the same command goes on from there\n"
    assert 0 < len(list((tmp_path / "o").glob("data/*.parquet"))) < 120
    assert not [path for path in tmp_path.rglob("*") if path.name.endswith(".partial")]


@pytest.mark.slow
def test_an_interrupted_training_leaves_a_checkpoint_of_its_step(tmp_path: Path) -> None:
    out = tmp_path / "o"
    settings = ("train.batch_size=4", "train.logging_steps=1", "train.max_steps=2500", "tracking.report_to=[]")
    says = interrupted(["train", PERMUTATION, *settings, f"output={out}"], "metrics.jsonl")
    assert says.startswith("stopped: SIGINT after step ")
    step = int(says.split()[4])
    assert says.endswith(f"; go on with: remedy train {out / 'config.yaml'} --resume\n")
    assert (out / f"checkpoint-{step}").is_dir()


@pytest.mark.slow
def test_an_experiment_that_is_told_to_end_leaves_checkpoints(tmp_path: Path) -> None:
    group = {
        "base": {
            "data": {"task": {"kind": "permutation", "n": 3, "length": 4}, "format": "symbolic"},
            "tokenizer": {"kind": "symbols"},
            "model": {"hidden_size": 16, "num_attention_heads": 2},
            "train": {"max_steps": 9000, "batch_size": 4, "logging_steps": 1, "threads": 1},
            "tracking": {"report_to": []},
        },
        "runs": {"a": {}},
        "evaluate": {"diagnostics": [{"kind": "permutation", "lengths": [4], "examples": 2}]},
    }
    path = tmp_path / "e.yaml"
    path.write_text(json.dumps({"name": "e", "output": str(tmp_path / "o"), "groups": {"g": group}}))
    says = interrupted(["run", path, f"output={tmp_path / 'o'}"], "g/a/model/metrics.jsonl", signal.SIGTERM)
    assert says == "interrupted: what is written stays, and the same command goes on from there\n"
    assert list((tmp_path / "o").glob("g/a/model/checkpoint-*"))


@pytest.mark.parametrize("command", [("generate", DATA, *FEW), ("run", QUICKSTART)])
def test_a_folder_into_which_another_process_writes_is_refused(command: tuple[object, ...], tmp_path: Path) -> None:
    with owned(tmp_path):
        said = refused([*command, f"output={tmp_path}"] if command[0] == "run" else [*command, "--out", tmp_path])
    assert f"{tmp_path}: process {os.getpid()} on " in said
    assert said.endswith("is writing there: wait until it ends, or end it, or choose another folder")
    assert not list(tmp_path.iterdir())


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_is_shown_a_source_without_what_it_would_obey(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.py"
    line = "    x = '\x1b]0;mine\x07\u202e\t'\n"
    path.write_text(f"def main():  # << START_OF_TRACE\n{line}    return x\n")
    for command in (["show", "--text"], ["rewrite"]):
        exact = remedy([*command, path]).output
        assert line in exact
        monkeypatch.setattr(sys, "stdout", Terminal())
        console.show_source(exact)
        assert "    x = '\\x1b]0;mine\\x07\\u202e\t'\n" in sys.stdout.getvalue()  # type: ignore[attr-defined]
        monkeypatch.undo()
