"""`remedy show`: which tokens have which colour, what is escaped, what a training row holds, and what is said of bad input."""

import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import example
from remedy.data_gen.roles import Role, spans_text
from remedy.eval.view.model import View
from remedy.eval.view.terminal import page, show_view
from remedy.launch.show import example_view, load_source
from tests.launch.in_process import remedy

STRINGS = {"task": {"kind": "composition", "family": "strings", "depth": 1}, "reveal": {"locals": "diff"}}
SESSION = {"task": {"kind": "permutation", "n": 3, "length": [2, 4]}, "format": "repl"}


def written(folder: Path, data: dict[str, Any], **sections: Any) -> Path:
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump({"data": data, "tokenizer": {"kind": "chars"}, **sections}, sort_keys=False))
    return path


def of_program(folder: Path, code: str, **sections: Any) -> Path:
    programs = folder / "programs"
    programs.mkdir()
    (programs / "one.py").write_text(code)
    return written(folder, {"task": {"kind": "programs", "path": str(programs)}}, **sections)


def viewed(path: Path, index: int, split: str) -> View:
    return example_view(load_source(path, []), path, index, split)


def output(view: View, ids: bool = False, **options: Any) -> str:
    stream = io.StringIO()
    show_view(view, Console(file=stream, width=100, **options), ids)
    return stream.getvalue()


@pytest.mark.parametrize(("data", "kind"), [(STRINGS, "bpe"), (SESSION, "chars")])
def test_the_tokens_are_the_example_frame_by_frame(tmp_path: Path, data: dict[str, Any], kind: str) -> None:
    view = viewed(written(tmp_path, data, tokenizer={"kind": kind}), 3, "validation")
    spans = example(DataConfig.model_validate(data), "validation", 3).spans
    assert "".join(token.text for token in view.tokens) == spans_text(spans)
    for block in view.blocks:
        frame = block.tokens[0].frame
        assert {token.frame for token in block.tokens} == {frame}
        assert "".join(t.text for t in block.tokens) == spans_text([span for span in spans if span.frame == frame])
    assert (view.blocks[0].label, view.blocks[-1].label) == ("context", "end")


def test_a_run_supervises_its_loss_roles(tmp_path: Path) -> None:
    view = viewed(written(tmp_path, STRINGS, train={"loss_roles": ["value"]}), 0, "train")
    assert all(token.supervised == (token.role is Role.VALUE) for token in view.tokens)
    tokens = view.tokens
    assert sum(count for _, count, *_ in view.counts()) == len(tokens)
    share = sum(token.role is Role.VALUE for token in tokens) / len(tokens)
    assert f"tokens: {len(tokens)}, {share:.0%} supervised" in output(view)


HOSTILE = "\x1b[31m[bold]</span><script>alert(1)</script>\N{RIGHT-TO-LEFT OVERRIDE}[/bold]"


def test_programs_are_data_to_terminals_and_browsers(tmp_path: Path) -> None:
    code = f"# {HOSTILE}\ndef main():  # << START_OF_TRACE\n    return {HOSTILE!r}\n"
    view = viewed(of_program(tmp_path, code), 0, "all")
    html, plain, coloured = page(view), output(view), output(view, force_terminal=True, color_system="truecolor")
    assert "<script" not in html
    assert "&lt;" in html
    for text in (html, plain, coloured):
        assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in text
    assert "\x1b" not in html + plain
    without_styles = re.sub(r"\x1b\[[\d;]*m", "", coloured)
    assert "\x1b" not in without_styles
    assert "\\x1b[31m[bold]</span><script>" in without_styles
    assert "\x1b[31m" not in coloured


@pytest.mark.parametrize(
    ("source", "asked", "says"),
    [
        ("run", ["--split", "all"], "--split 'all'"),
        ("run", ["--split", "tset"], "--split 'tset': did you mean 'test'"),
        ("run", ["--condition", "forcing=free"], "remove --condition"),
        ("evaluation", ["data.seed=1"], "an evaluation's folder, which takes --index, --condition: remove"),
        ("run", ["--input", "1"], "a configuration, which takes --index, --split, --text, key=value: remove --input"),
        ("run", ["--text", "--ids"], "--text: shows neither ids nor a page"),
        ("configs/experiment/quickstart.yaml", [], "is the configuration of an experiment"),
    ],
)
def test_what_is_not_there_or_goes_with_another_source_is_named(
    tmp_path: Path, source: str, asked: list[object], says: str
) -> None:
    shown: object = source
    if source == "run":
        shown = written(tmp_path, SESSION)
    elif source == "evaluation":
        shown = tmp_path
        (tmp_path / "evaluation.json").write_text("{}")
    done = remedy(["show", shown, *asked])
    assert done.status == 2
    assert done.errors.count("\n") == 1
    assert says in done.errors


def test_a_program_is_shown_without_pytorch() -> None:
    command = "from remedy.launch.cli import app\napp(['show', 'examples/reverse.py'], standalone_mode=False)\n"
    code = f"import sys\n{command}assert not {{'torch', 'transformers'}} & {{*sys.modules}}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert "value" in done.stdout


def test_a_program_of_a_file_is_shown_by_its_number() -> None:
    file = "examples/functions.jsonl"
    third = json.loads(Path(file).read_text().splitlines()[2])
    text = remedy(["show", file, "--index", 2, "--text"]).output
    assert third["code"].splitlines()[0] in text
    assert remedy(["show", file, "--index", 2, "--text", "reveal.spacing=.inf"]).output != text
    assert "--index 8: the all split has 8 examples" in remedy(["show", file, "--index", 8]).errors


def test_a_program_says_how_it_ended_and_takes_input(tmp_path: Path) -> None:
    function, clock = tmp_path / "function.py", tmp_path / "clock.py"
    function.write_text("def f(s, n):\n    return s * n\n")
    text = remedy(["show", function, "--input", "'ab', 2", "--text"]).output
    assert text.endswith("<|arg_sep|>\"'abab'\"<|frame_sep|><|end_of_text|>\n")
    assert "defines f: give its arguments with --input" in remedy(["show", function]).errors
    clock.write_text("import time\ndef main():  # << START_OF_TRACE\n    return time.time()\n")
    assert re.search(r"^outcome: unstable \(.*clock\.py: ", remedy(["show", clock]).output, re.MULTILINE)
    refused = remedy(["show", clock, "--text"])
    assert (refused.status, refused.output) == (2, "")
    assert "error: --text: there is no trace: unstable (" in refused.errors
