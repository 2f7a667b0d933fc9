"""Scores of traces written as text: real outputs are scored as they were, and every failure class by its rule."""

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import Example, examples
from remedy.data_gen.roles import Role, Special
from remedy.eval.decoding.cursor import Generated
from remedy.eval.decoding.forcings import fed_roles
from remedy.eval.scoring.common import DecodedExample
from remedy.eval.scoring.frames import score_frames
from remedy.models.tokenizer import Encoded
from remedy.settings import build
from tests.eval.constrained_runs import CHARACTERS as TOKENIZER
from tests.eval.scoring.truths import freely, ids_of, start_of, true_runs

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


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_programs(tmp_path_factory.mktemp("programs") / "own.jsonl")


def write_programs(path: Path) -> Path:
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


def score(
    example: Example, truth: Encoded, runs: list[Generated], data: DataConfig, forcing: str = "free"
) -> dict[str, Any]:
    return dict(score_frames(DecodedExample(example, truth, runs, fed_roles(forcing), data), TOKENIZER))


def scored(data: DataConfig, change: Any, complete: bool = True) -> dict[str, Any]:
    """The score of a free trace that is the true one's pieces after `change`."""
    example, truth = truth_of(data)
    ids = ids_of(change(TOKENIZER.pieces(truth.ids[start_of(truth) :])), TOKENIZER)
    return score(example, truth, freely(truth, ids, complete), data)


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


@pytest.mark.parametrize(
    ("result", "spelled", "same"),
    [
        ("{1, 2}", "{2, 1}", True),
        ("{'a': 1, 'b': 2}", "{'b': 2, 'a': 1}", True),
        ("[1, 2]", "[ 1,2 ]", True),
        ("2", "2.0", True),
        ("2", "'2'", False),
        ("[1, 2]", "[2, 1]", False),
    ],
)
def test_a_value_on_the_way_is_right_by_what_it_means(tmp_path: Path, result: str, spelled: str, same: bool) -> None:
    path = tmp_path / "own.jsonl"
    code = f"def f(x):\n    g()\n    return x\ndef g():\n    return {result}"
    path.write_text(json.dumps({"code": code, "input": "7"}))
    record = scored(config(path), replaced(f'"{result}"', f'"{spelled}"'))
    assert record["right"]
    assert record["value_exact"] == (1 if same else pytest.approx(2 / 3))
    assert record["first_error_role"] == ("" if same else "value")
    assert record["state_exact"] == 1


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

    record = scored(data, wrong)
    assert (record["failure"], record["value_type"]) == (failure, value_type)
    assert operation is None or record["operation"] == operation
    assert not record["right"]


@pytest.mark.parametrize("reveal", [{"locals": "changes"}, {"spacing": float("inf"), "at": 0.5}])
def test_states_that_a_sparse_trace_shows_are_counted_and_one_more_is_an_error(
    programs: Path, reveal: dict[str, Any]
) -> None:
    data = config(programs, reveal=reveal)

    def one_more(pieces: list[Any]) -> list[Any]:
        pairs = list(pairwise(pieces))
        at = pairs.index((Special.LINE_SEP, Special.ACTION_SEP))
        return [*pieces[: at + 1], "{}", *pieces[at + 1 :]]

    shown = sum(frame.locals is not None for frame in truth_of(data)[0].frames)
    assert 1 < shown < scored(config(programs), list)["states"]
    record = scored(data, list)
    assert (record["right"], record["states"], record["state_exact"]) == (True, shown, 1)
    record = scored(data, one_more)
    assert (record["right"], record["first_error_role"]) == (True, "state")


def test_fed_values_do_not_mend_a_wrong_state_that_unchanged_refers_to(programs: Path) -> None:
    """`..` after a wrong state of the model's own means that state, whether values are fed or not."""
    data = config(programs, reveal={"locals": "diff"})
    example, truth = truth_of(data)
    wrong = next(at for at, string in enumerate(truth.strings) if string and truth.roles[at] == Role.STATE)
    counts = []
    for forcing in (("context", "structure", "event", "action"), ("context", "structure", "event", "action", "value")):
        runs = [
            run._replace(ids=[token + (run.start + i == wrong) for i, token in enumerate(run.ids)])
            for run in true_runs(truth, forcing)
        ]
        score = dict(score_frames(DecodedExample(example, truth, runs, fed_roles(forcing), data), TOKENIZER))
        counts.append(round(float(str(score["state_exact"])) * int(str(score["states"]))))
    assert counts[0] == counts[1] < score["states"] - 1


def test_a_trace_that_ran_out_of_tokens_is_a_runaway_and_one_with_an_error_may_be_right(programs: Path) -> None:
    data = config(programs)
    assert scored(data, lambda pieces: pieces[:30], complete=False)["failure"] == "runaway"
    record = scored(data, replaced('"i": "1"', '"i": "7"'))
    assert record["right"]
    assert (record["failure"], record["first_error_role"], record["value_type"]) == ("", "state", "")


@pytest.mark.parametrize("locals", ["diff", "full"])
def test_the_outputs_of_the_32b_model_are_scored_as_they_were(shared: Path, tmp_path: Path, locals: str) -> None:
    """It writes diffs: where the data has whole states, they mean the same."""
    rows = [json.loads(line) for line in (shared / "cwm_real_traces.jsonl").read_text().splitlines()]
    path = tmp_path / "real.jsonl"
    path.write_text("".join(json.dumps({k: row[k] for k in ("id", "code", "input")}) + "\n" for row in rows))
    data = config(path, reveal={"locals": locals})
    names = {special.value: special for special in Special}
    respelled = 0
    for row, example in zip(rows, examples(data, "all", range(len(rows)))):
        truth = TOKENIZER.encode(example.spans)
        parts = re.split("(" + "|".join(map(re.escape, names)) + ")", re.sub(r" at 0x[0-9a-f]+", "", row["generation"]))
        ids = ids_of([names.get(part, part) for part in parts], TOKENIZER)
        record = score(example, truth, freely(truth, ids), data)
        assert record["right"] == row["correct"]
        assert record["valid_format"]
        assert (record["failure"], record["first_error_role"], record["state_exact"]) == ("", "", 1.0)
        respelled += record["respelled"]
    assert (respelled > 0) == (locals == "full")
