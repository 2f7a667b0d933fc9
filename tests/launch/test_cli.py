"""The command line: what it prints, and how it fails."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from remedy.data_gen.roles import spans_text
from remedy.launch import trace as command
from tests.launch.in_process import remedy

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "reverse.py"


def trace(file: Path, overrides: Sequence[str]) -> str:
    spans, between = command.trace(file, overrides)
    return spans_text(spans, between) + "\n"


def test_a_trace_is_what_a_model_sees() -> None:
    text = trace(EXAMPLE, ["reveal.locals=diff"])
    assert text.startswith('<|begin_of_text|><|trace_context_start|>\ndef reverse(word):\n    result = ""\n')
    assert (
        '<|line_sep|>{"word": "..", "result": "\'a\'", "letter": ".."}<|action_sep|>    for letter in word:\n<|frame_sep|>'
        in text
    )
    assert text.endswith("<|arg_sep|>\"'cba'\"<|frame_sep|><|end_of_text|>\n")


@pytest.mark.parametrize(
    ("settings", "piece"),
    [
        ("format=repl reveal.spacing=inf", ">>>     return result\n'cba'\n"),
        ("format=symbolic", " result 'ba' "),
        ("string_encoding=spaced", "\"'c b a'\""),
        ("string_encoding=list", "\"['c', 'b', 'a']\""),
        ("string_encoding=indexed", "\"'0:c 1:b 2:a'\""),
        ("reveal.spacing=inf", "<|line_sep|><|action_sep|>    for letter in word:\n"),
    ],
)
def test_formats_spacing_and_encodings(settings: str, piece: str) -> None:
    assert piece in trace(EXAMPLE, settings.split())


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("def main(:  # << START_OF_TRACE\n    pass\n", "does not compile"),
        ("def main():\n    pass\n", "no function marked"),
        ("raise KeyError('k')\ndef main():  # << START_OF_TRACE\n    pass\n", "KeyError while loading"),
        ("def main():  # << START_OF_TRACE\n    import time; time.sleep(99)\n", "stopped after 1 s"),
        (
            "class A:\n    def __repr__(self): raise SystemExit\ndef main():  # << START_OF_TRACE\n    a = A()\n    a\n",
            "SystemExit",
        ),
    ],
)
def test_a_bad_program_is_one_line_that_names_it_and_exit_status_2(code: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "bad program.py"
    path.write_text(code)
    failed = remedy(["trace", path, "tracer.timeout_seconds=1"])
    assert (failed.status, failed.output) == (2, "")
    error = failed.errors.strip().splitlines()[-1]  # before it, once in a process, how programs are isolated
    assert error.startswith("error: ")
    assert "bad program.py" in error
    assert says in error


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("trace", EXAMPLE, "format=cwn"), "unknown trace format 'cwn'; did you mean 'cwm'?"),
        (
            ("trace", EXAMPLE, "reveal.spacing=4", "reveal.answer_only=true"),
            "spacing 4 does nothing with answer_only",
        ),
        (("trace", EXAMPLE, "reveal.max_tokens=4"), "reveal.max_tokens is counted with a tokenizer"),
        (("trace", EXAMPLE, "reveal.spacing=0"), "must be a whole number >= 1, or inf"),
        (("trace", "nothing.py"), "nothing.py: cannot be read"),
        (("evaluate", "nothing", ROOT / "configs/evaluate/any_model.yaml", "--out", "/tmp/none"), "not a model folder"),
        (
            ("evaluate", "nothing", ROOT / "configs/evaluate/permutation.yaml", "--out", "/tmp/none"),
            "nothing: there is no such folder here, and a model of the hub stores no data configuration",
        ),
        (("report", ROOT / "configs", "--out", "/tmp/none"), "no evaluation or measurement found"),
        (
            ("run", ROOT / "configs/experiment/quickstart.yaml", "worker=1"),
            "unknown key 'worker'; did you mean 'workers'?",
        ),
        (
            ("run", ROOT / "configs/experiment/quickstart.yaml", "groups.permutation.base.model.hiden=1"),
            "groups.permutation.runs.transformer,seed=0: unknown key 'model.hiden'; did you mean 'hidden_size'?",
        ),
    ],
)
def test_bad_options_exit_2_with_one_line(arguments: tuple[object, ...], says: str) -> None:
    failed = remedy(arguments, 60)
    assert failed.status == 2
    assert says in failed.errors
    assert len(failed.errors.strip().splitlines()) == 1
