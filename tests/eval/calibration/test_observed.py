"""What generations and records say of the same frames agrees: the first error's place, whatever writes the trace and however."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from remedy.data_gen.config import DataConfig
from remedy.data_gen.roles import Role, Special
from remedy.data_gen.traces.reveal import levels
from remedy.eval.calibration.signals import CUT, FED, NOT_DECODED, NOT_RUN, observe
from remedy.eval.config import EvalConfig
from remedy.eval.decoding.call_depth import CallDepth
from remedy.eval.decoding.cursor import Generated, runs_of
from remedy.eval.decoding.forcings import ACTION_FORCED, fed_roles
from remedy.eval.evaluate import run_condition
from remedy.eval.generators import LoopGenerator
from remedy.eval.scoring.common import Decoded
from remedy.eval.scoring.places import depths_written, generated_places
from remedy.eval.view.model import frame_at
from remedy.models.encoding import encoded_examples
from remedy.models.tokenizer import build_tokenizer
from remedy.models.tokenizer_backends import TOKENIZERS
from remedy.settings import build
from tests.eval.decoding.test_decoding import FORMS, Reciter


def evaluated(
    form: str, forcing: str, mistaken: bool, count: int = 12
) -> tuple[Any, pd.DataFrame, pd.DataFrame, list[Any]]:
    """A condition's records and generations of a model that errs once in each trace, and where."""
    data = DataConfig.model_validate(FORMS[form])
    kind = "symbols" if form == "symbolic" else "chars"
    tokenizer = build_tokenizer(TOKENIZERS[kind].model_validate({"kind": kind}), data)
    diagnostic = {"kind": "programs", "forcing": [forcing], "answer_only": [False], "examples": count}
    config = build(EvalConfig, {"diagnostics": [diagnostic]}, "x")
    (condition,) = config.diagnostics[0].conditions(data, "test")
    batch = encoded_examples(data, tokenizer, "test", range(count))
    truths = [truth for _, truth in batch]
    places: dict[int, int] = {}
    for row, truth in enumerate(truths):
        states = [at for at, role in enumerate(truth.roles) if Role(role) in (Role.STATE, Role.VALUE)]
        if mistaken:
            places[row] = states[(row * 7) % len(states)]
    wrong = next(
        token for token in range(tokenizer.vocab_size - 1, 0, -1) if tokenizer.decode([token]) in ("q", "Z", "2", "c")
    )
    reciter = Reciter(truths, tokenizer.vocab_size, places, wrong)
    ran = run_condition(LoopGenerator(reciter, tokenizer), tokenizer, condition, config)
    records = pd.DataFrame(ran.rows).assign(run="r", **condition.labels).set_index("index", drop=False)
    kept = pd.DataFrame(ran.kept).set_index("index", drop=False)
    where = [
        (example, int(truth.frames[places[row]]) if row in places else None)
        for row, (example, truth) in enumerate(batch)
    ]
    return tokenizer, records, kept, where


@pytest.mark.parametrize("forcing", ["free", "action_forced"])
@pytest.mark.parametrize("form", FORMS)
def test_the_first_error_is_the_frame_in_which_the_model_erred(form: str, forcing: str) -> None:
    _, records, kept, where = evaluated(form, forcing, mistaken=True)
    observed = observe([(records, kept)])
    assert not observed.left_out
    seen = 0
    for number, (example, frame) in enumerate(where):
        numbers = [one.number for one in example.frames]
        error = observed.traces["error"][number]
        if error < 0:  # the wrong token was the true one there
            continue
        seen += 1
        assert numbers[error] == frame == frame_at(numbers, error) == records.loc[number, "first_error_frame"]
        frames = observed.frames[observed.frames["trace"] == number]
        assert frames.loc[frames["event"], "place"].tolist() == [error]
        assert (frames["at_risk"] == (frames["place"] <= error)).all()
    assert seen >= 8


@pytest.mark.parametrize("form", FORMS)
def test_signals_of_a_frame_use_nothing_that_comes_after_it(form: str) -> None:
    _, records, kept, _ = evaluated(form, "free", mistaken=False, count=3)
    whole = observe([(records, kept)]).frames
    for column in kept:
        if str(column).startswith("frame_"):
            kept[column] = [values[:2] for values in kept[column]]
    cut = observe([(records, kept)]).frames
    first = whole[whole.groupby("trace").cumcount() < 2].reset_index(drop=True)
    pd.testing.assert_frame_equal(first, cut)


def test_true_traces_do_not_contradict_themselves_and_formats_without_events_do_not_tell() -> None:
    _, _, kept, _ = evaluated("cwm", "free", mistaken=False)
    assert all(list(found) == [] for found in kept["contradictions"])
    _, _, kept, _ = evaluated("symbolic", "free", mistaken=False)
    assert kept["contradictions"].isna().all()


def test_what_is_left_out_is_counted() -> None:
    _, records, kept, _ = evaluated("symbolic", "teacher_forced", mistaken=True)
    assert observe([(records, kept)]).left_out == {FED: 12}
    _, records, kept, where = evaluated("symbolic", "free", mistaken=True)
    records.loc[0, "outcome"] = "time"
    kept.at[1, "frame_places"] = []
    last = int(np.max(kept.loc[2, "frame_places"]))
    records.loc[2, ["truncated", "respelled", "frames_right", "first_error_frame"]] = [True, 1, last, 5]
    observed = observe([(records, kept)])
    assert observed.left_out == {NOT_RUN: 1, NOT_DECODED: 1, CUT: 1}
    assert len(observed.traces) == len(where) - 2
    assert observed.traces["error"][0] == -1
    assert observed.frames.loc[observed.frames["trace"] == 0, "place"].max() < last


NESTED = (
    "def f(n):\n    return n if n < 1 else f(n - 1) + sum(one for one in (n, 1))\n",
    "def g(a):\n    for one in a:\n        yield one\n    raise KeyError(a)\n"
    "def f(a):\n    try:\n        return [one + 1 for one in g(a)]\n    except KeyError:\n"
    "        return sorted(a, key=lambda one: -one)\n",
)
"""Recursion, generators that are resumed, exceptions that unwind, callbacks."""


@pytest.mark.parametrize("format", ["cwm", "cwm_unseeded", "cwm_numbers"])
@pytest.mark.parametrize("forcing", ["free", "action_forced", "line_forced", "teacher_forced"])
def test_the_depth_of_true_traces_is_their_call_level(tmp_path: Path, format: str, forcing: str) -> None:
    """Whoever writes or is fed the events; of a trace whose states are all wrong it is the same."""
    rows = [
        {"id": str(at), "code": code, "input": given} for at, (code, given) in enumerate(zip(NESTED, ("2", "[2, 1]")))
    ]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = {"kind": "programs", "path": str(tmp_path / "p.jsonl"), "tracer": {"isolation": "trusted"}}
    data = DataConfig.model_validate({"task": task, "format": format})
    tokenizer = build_tokenizer(TOKENIZERS["chars"].model_validate({"kind": "chars"}), data)
    for example, truth in encoded_examples(data, tokenizer, "all", range(2)):
        assert example.outcome == "ok"
        fed = fed_roles(forcing)
        runs = [
            Generated(start, stop, list(truth.ids[start:stop]), [-0.1] * (stop - start), True)
            for start, stop, is_fed in runs_of(truth, fed if forcing != "teacher_forced" else ACTION_FORCED)
            if not is_fed
        ]
        decoded = Decoded(example, truth, runs, fed, data)
        found = depths_written(decoded, generated_places(decoded, tokenizer), tokenizer)
        expected = levels(example.trace.frames)[example.frames[0].number :]
        assert max(expected) >= 2
        assert found == [*expected, 0]
        states = [run for run in runs if truth.roles[run.start] == Role.STATE] if forcing != "free" else []
        wrong = [run._replace(ids=run.ids[:-1]) if run in states else run for run in runs]
        assert depths_written(decoded._replace(runs=wrong), generated_places(decoded, tokenizer), tokenizer) == found


def test_a_trace_that_returns_too_often_stays_in_its_entry_and_formats_without_events_do_not_tell() -> None:
    tokenizer = build_tokenizer(
        TOKENIZERS["chars"].model_validate({"kind": "chars"}), DataConfig.model_validate(FORMS["cwm"])
    )
    call, back = ([(tokenizer.special_ids[one], Role.EVENT)] for one in (Special.CALL_SEP, Special.RETURN_SEP))
    depth = CallDepth("cwm", tokenizer)
    assert [depth.take(one) for one in (back, back, call, call, [], back, back)] == [0, 0, 0, 1, 1, 1, 0]
    assert math.isnan(CallDepth("repl", tokenizer).take(call))
    _, records, kept, _ = evaluated("symbolic", "free", mistaken=True)
    assert observe([(records, kept)]).frames["depth"].isna().all()
