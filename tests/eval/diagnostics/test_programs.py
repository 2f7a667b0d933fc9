"""The `code` diagnostic: real outputs are judged as they were, every class by its rule, and the report tells them apart."""

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from remedy.data_gen.examples import DataConfig, Example, examples
from remedy.data_gen.execution.program import Program
from remedy.data_gen.execution.sandbox import TracerConfig
from remedy.data_gen.execution.tracer import trace
from remedy.data_gen.roles import Role, Special
from remedy.data_gen.settings import ConfigError, build
from remedy.data_gen.tasks.programs import ProgramsTask
from remedy.data_gen.traces.render import FORMATS
from remedy.eval.config import Condition, EvalConfig, fed_roles
from remedy.eval.decoding import Written
from remedy.eval.diagnostics import programs as code
from remedy.eval.diagnostics.operations import Operations, departing_frame
from remedy.eval.evaluate import evaluate
from remedy.eval.report.page import report
from remedy.models.config import DecoderSettings
from remedy.models.decoder import DecoderForCausalLM
from remedy.models.decoder_config import DecoderConfig
from remedy.models.tokenizer import Encoded, TraceTokenizer
from remedy.models.tokenizer_backends import Characters, CharacterSettings

TOKENIZER = TraceTokenizer(CharacterSettings(), Characters())
CODE = """def f(s, n):
    parts = [s]
    for i in range(n):
        parts.append(g(s))
        s = s[1:]
    total = n * 2
    return parts, total
def g(t):
    t = t.upper()
    return t
"""


def config(path: Path, **changes: Any) -> DataConfig:
    return build(DataConfig, {"task": {"kind": "programs", "path": str(path)}, **changes}, "test")


def condition(data: DataConfig, forcing: str = "free") -> Condition:
    return Condition(diagnostic="code", data=data, forcing=forcing, examples=1, split="all", labels={})


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("programs") / "own.jsonl"
    rows = [
        {"code": CODE, "input": "'ab', 2"},
        {"code": "def f(x):\n    while True:\n        x += 1", "input": "1"},
        {"code": "def f(x):\n    return f'{x}:{len(x.strip())}'", "input": "' a '"},
        {"code": "def f(x):\n    import socket\n    return socket.socket()", "input": "1"},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def truth_of(data: DataConfig, index: int = 0) -> tuple[Example, Encoded]:
    example = examples(data, "all", [index])[0]
    return example, TOKENIZER.encode(example.spans)


def judged(data: DataConfig, change: Any, complete: bool = True) -> dict[str, Any]:
    """The record of a free trace that is the true one's pieces after `change`."""
    example, truth = truth_of(data)
    start = next(place for place, role in enumerate(truth.roles) if role != Role.CONTEXT)
    pieces = change(TOKENIZER.pieces(truth.ids[start:]))
    ids = [
        i for p in pieces for i in ([TOKENIZER.special_ids[p]] if isinstance(p, Special) else TOKENIZER.string_ids(p))
    ]
    return code.judge(example, truth, [Written(start, len(truth.ids), ids, complete)], condition(data), TOKENIZER)


def replaced(old: str, new: str, count: int = 1) -> Any:
    def change(pieces: list[Any]) -> list[Any]:
        left = count
        out = []
        for piece in pieces:
            if left and isinstance(piece, str) and old in piece:
                piece, left = piece.replace(old, new), left - 1
            out.append(piece)
        assert left == 0
        return out

    return change


@pytest.mark.parametrize("every", [1, 3, float("inf")])
@pytest.mark.parametrize("show", ["full", "diff"])
@pytest.mark.parametrize("strings", ["plain", "indexed"])
@pytest.mark.parametrize("forcing", ["free", "action_forced", "direct"])
def test_the_truth_is_right_under_every_condition(
    programs: Path, every: float, show: str, strings: str, forcing: str
) -> None:
    reveal = {"answer_only": True} if forcing == "direct" else {"spacing": every, "locals": show}
    data = config(programs, reveal=reveal, string_encoding=strings)
    example, truth = truth_of(data)
    fed = fed_roles("free" if forcing == "direct" else forcing)
    flags = [role in fed for role in truth.roles]
    borders = [i for i in range(1, len(flags)) if flags[i] != flags[i - 1]] + [len(flags)]
    runs = [Written(a, b, truth.ids[a:b], True) for a, b in pairwise(borders) if not flags[a]]
    record = code.judge(example, truth, runs, condition(data, "free" if forcing == "direct" else forcing), TOKENIZER)
    assert (record["final_right"], record["valid_format"], record["failure"], record["departure_role"]) == (
        True,
        True,
        "",
        "",
    )
    assert record["state_exact"] == record["action_exact"] == record["key_value_match"] == 1.0


@pytest.mark.parametrize(
    ("change", "failure", "value_type", "operation"),
    [
        (replaced("['ab', 'AB']", "['ab', 'Ab']"), "wrong state", "list", "other"),
        (replaced('"s": "\'b\'"', '"s": "\'ab\'"'), "wrong state", "str", "index or slice"),
        (replaced('"i": "1"', '"i": "2"'), "wrong state", "int", "loop or counter"),
        (replaced('"i": "1"', '"j": "1"'), "wrong state", "names", "loop or counter"),
        (replaced('"total": "4"', '"total": "5"'), "wrong state", "int", "arithmetic"),
        (replaced("        parts.append(g(s))\n", "    total = n * 2\n"), "wrong action", "", "loop or counter"),
        (replaced("\"(['ab', 'AB', 'B'], 4)\"", "\"(['ab', 'AB', 'B'], 3)\""), "wrong return", "", "other"),
        (replaced("\"'AB'\"", "\"'BA'\"", 2), "wrong state", "str", "string method"),
        (replaced('{"s"', "{s"), "malformed", "", "other"),
        (lambda pieces: pieces[:40], "malformed", "", None),
    ],
)
def test_every_class_has_its_rule(
    programs: Path, change: Any, failure: str, value_type: str, operation: str | None
) -> None:
    data = config(programs)

    def wrong(pieces: list[Any]) -> list[Any]:
        """The change, and a wrong answer after it, as a failure has."""
        changed = change(pieces)
        return [p.replace("'B'], 4)", "'B'], 0)") if isinstance(p, str) else p for p in changed]

    record = judged(data, wrong)
    assert (record["failure"], record["value_type"]) == (failure, value_type)
    assert operation is None or record["operation"] == operation
    assert not record["final_right"]


def test_a_wrong_return_is_laid_to_what_its_line_does(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text(json.dumps({"code": "def f(s):\n    return s.count('a')", "input": "'banana'"}))
    record = judged(config(path), replaced('"3"', '"2"', 2))
    assert (record["failure"], record["operation"], record["answer"]) == ("wrong return", "string method", "2")


def test_a_trace_that_goes_on_after_its_end_took_a_wrong_action(programs: Path) -> None:
    more = [Special.LINE_SEP, Special.ACTION_SEP, "x\n", Special.FRAME_SEP]
    record = judged(config(programs), lambda pieces: [*pieces[:-1], *more, pieces[-1]])
    assert (record["final_right"], record["failure"]) == (False, "wrong action")


def test_a_trace_that_ran_out_of_tokens_is_a_runaway_and_a_departed_one_may_be_right(programs: Path) -> None:
    data = config(programs)
    assert judged(data, lambda pieces: pieces[:30], complete=False)["failure"] == "runaway"
    record = judged(data, replaced('"i": "1"', '"i": "7"'))
    assert record["final_right"]
    assert (record["failure"], record["departure_role"], record["value_type"]) == ("", "state", "")


def test_the_outputs_of_the_32b_model_are_judged_as_they_were(shared: Path, tmp_path: Path) -> None:
    rows = [json.loads(line) for line in (shared / "cwm_real_traces.jsonl").read_text().splitlines()]
    path = tmp_path / "real.jsonl"
    path.write_text("".join(json.dumps({k: row[k] for k in ("id", "code", "input")}) + "\n" for row in rows))
    data = config(path, reveal={"locals": "diff"})
    names = {special.value: special for special in Special}
    for row, example in zip(rows, examples(data, "all", range(len(rows)))):
        truth = TOKENIZER.encode(example.spans)
        start = next(place for place, role in enumerate(truth.roles) if role != Role.CONTEXT)
        parts = re.split("(" + "|".join(map(re.escape, names)) + ")", re.sub(r" at 0x[0-9a-f]+", "", row["generation"]))
        ids = [i for p in parts for i in ([TOKENIZER.special_ids[names[p]]] if p in names else TOKENIZER.string_ids(p))]
        record = code.judge(example, truth, [Written(start, len(truth.ids), ids, True)], condition(data), TOKENIZER)
        assert record["final_right"] == row["correct"]
        assert record["valid_format"]
        assert record["failure"] == ""


@pytest.mark.parametrize(
    ("line", "operation"),
    [
        ("x = s.split(',')", "string method"),
        ("x = ','.join(s)", "string method"),
        ("x = s.count('a')", "string method"),
        ("x = xs.count('a')", "other"),
        ("x = f'{s}'", "string method"),
        ("x = s[0] + 1", "index or slice"),
        ("for c in s: pass", "loop or counter"),
        ("for c in s.split(): pass", "string method"),
        ("while xs: xs.pop()", "loop or counter"),
        ("n += 1", "loop or counter"),
        ("n += n", "arithmetic"),
        ("n = n // 2", "arithmetic"),
        ("x = [c for c in xs]", "loop or counter"),
        ("if n % 2: pass", "arithmetic"),
        ("if n: x = s[0]", "index or slice"),
        ("x = len(xs)", "other"),
        ("return", "other"),
    ],
)
def test_operations_of_lines(line: str, operation: str) -> None:
    program = Program(f"def main():  # << START_OF_TRACE\n    s, xs, n = 'a,b', [1], 3\n    {line}\n")
    state = trace(program).frames[2].locals
    assert Operations(program).of(f"    {line}\n", state) == operation


def test_a_wrong_state_after_a_call_is_laid_to_the_line_that_called() -> None:
    traced = trace(Program.from_call(CODE, "'ab', 1"))
    sources = [frame.source.strip() for frame in traced.frames]
    after = next(i for i, s in enumerate(sources) if s == "s = s[1:]")
    assert sources[departing_frame(traced.frames, after, False)] == "parts.append(g(s))"
    inside = next(i for i, s in enumerate(sources) if s == "def g(t):")
    assert sources[departing_frame(traced.frames, inside, False)] == "parts.append(g(s))"
    assert departing_frame(traced.frames, after, True) == after


def small_model() -> DecoderForCausalLM:
    torch.manual_seed(0)
    settings = DecoderConfig.from_settings(DecoderSettings(mixers=("gru",), hidden_size=16), TOKENIZER.vocab_size)
    return DecoderForCausalLM(settings).eval()


def test_evaluation_and_report_of_ones_own_programs(programs: Path, tmp_path: Path) -> None:
    settings = build(
        EvalConfig,
        {"diagnostics": [{"kind": "code", "rewrites": ["none", "all"], "show": ["diff"]}], "budget": 1500, "data": {}},
        "test",
    )
    source = ProgramsTask(path=str(programs), tracer=TracerConfig(max_frames=500))
    settings = settings.model_copy(
        update={"diagnostics": (settings.diagnostics[0].model_copy(update={"programs": (source,)}),)}
    )
    data = DataConfig.model_validate({"task": {"kind": "permutation"}})
    evaluate(small_model(), TOKENIZER, data, settings, tmp_path / "run", "gru <b>")
    rows = pd.concat([pd.read_parquet(p) for p in (tmp_path / "run" / "records").glob("*.parquet")])
    assert len(rows) == 2 * 3 * 4
    assert set(rows["outcome"]) == {"ok", "frames", "network"}
    assert set(rows[rows["outcome"] == "frames"]["failure"]) == {"truncated"}
    assert set(rows[rows["outcome"] == "network"]["failure"]) == {"untraced"}
    assert (rows["failure"] != "").eq(~rows["final_right"]).all()
    assert rows["python"].str.startswith("CPython 3.").all()
    assert (
        rows.groupby("source")["example"].nunique().eq(1).all()
    )  # a program is the same example however it is rewritten
    page = report([tmp_path / "run"], tmp_path / "report")
    html, markdown = page.read_text(), (page.parent / "report.md").read_text()
    for title in ("Programs traced as code", "Failure classes", "What moved which failures", "Verdicts"):
        assert f"<h2>{title}</h2>" in html
        assert f"## {title}" in markdown
    assert "gru &lt;b&gt;" in html
    assert "could not be run: network 1." in html
    assert {c["examples"] for c in json.loads((tmp_path / "run" / "summary.json").read_text())["conditions"]} == {3}
    assert "rewrite all for none" in markdown
    assert "facebook/cwm 32B, published" not in markdown  # its programs are others
    assert "figures/accuracy_by_trace_tokens.png" in markdown


def test_of_programs_trained_on_only_the_split_is_evaluated(tmp_path: Path) -> None:
    path = tmp_path / "many.jsonl"
    path.write_text(
        "".join(json.dumps({"code": f"def f(x):\n    return x + {n}", "input": "1"}) + "\n" for n in range(60))
    )
    source = ProgramsTask(path=str(path))
    settings = build(EvalConfig, {"diagnostics": [{"kind": "code", "forcing": ["free"]}]}, "test")
    (everything,) = code.conditions(settings.diagnostics[0], config(path), settings)  # type: ignore[arg-type]
    seen = settings.model_copy(update={"trained_on": source})
    (held_out,) = code.conditions(seen.diagnostics[0], config(path), seen)  # type: ignore[arg-type]
    assert (everything.split, everything.examples, held_out.split) == ("all", 60, "test")
    assert 0 < held_out.examples < 30


def test_generated_programs_are_code_too(tmp_path: Path) -> None:
    data = DataConfig.model_validate({"task": {"kind": "composition", "functions": ["mirror_str"], "depth": 1}})
    diagnostic = {"kind": "code", "forcing": ["action_forced"], "examples": 3}
    settings = build(EvalConfig, {"diagnostics": [diagnostic], "budget": 1000}, "test")
    evaluate(small_model(), TOKENIZER, data, settings, tmp_path, "gru")
    (path,) = (tmp_path / "records").glob("*.parquet")
    rows = pd.read_parquet(path)
    assert (len(rows), set(rows["benchmark"]), set(rows["split"])) == (3, {"composition (strings)"}, {"test"})
    assert set(rows["isolation"]) == {"trusted"}


def test_what_cannot_be_read_as_traces_of_programs_is_refused(programs: Path) -> None:
    settings = build(EvalConfig, {"diagnostics": [{"kind": "code", "rewrites": ["none", "all"]}]}, "test")
    with pytest.raises(ConfigError, match="remove `rewrites`"):
        code.conditions(settings.diagnostics[0], DataConfig.model_validate({"task": {"kind": "permutation"}}), settings)  # type: ignore[arg-type]
    with pytest.raises(ConfigError) as error:
        build(EvalConfig, {"diagnostics": [{"kind": "code", "rewrites": ["non"]}]}, "e.yaml")
    assert str(error.value).count("\n") == 0
    assert "key 'diagnostics.0.rewrites.0'" in str(error.value)
    with pytest.raises(ConfigError, match="cwm format"):
        code.conditions(settings.diagnostics[0], config(programs, format="repl"), settings)  # type: ignore[arg-type]


@given(st.lists(st.one_of(st.sampled_from(list(Special)), st.text(max_size=5)), max_size=20))
def test_no_output_makes_the_judge_raise(pieces: list[Any]) -> None:
    path = Path("/nonexistent")
    traced = trace(Program.from_call("def f(x):\n    return x[1:]", "'ab'"))
    example = Example(0, "all", [], [], "'b'", traced, "id", {})
    from remedy.data_gen.traces.render import render

    truth = TOKENIZER.encode(render(traced).spans)
    start = next(place for place, role in enumerate(truth.roles) if role != Role.CONTEXT)
    ids = [
        i for p in pieces for i in ([TOKENIZER.special_ids[p]] if isinstance(p, Special) else TOKENIZER.string_ids(p))
    ]
    record = code.judge(example, truth, [Written(start, len(truth.ids), ids, True)], condition(config(path)), TOKENIZER)
    assert record["final_right"] == (FORMATS["cwm"].read(TOKENIZER.pieces(ids)).valid and record["answer"] == "'b'")
