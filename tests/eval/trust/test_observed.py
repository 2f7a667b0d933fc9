"""What generations and records say of the same frames agrees: the first error's place, whatever writes the trace and however."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from remedy.data_gen.examples import DataConfig
from remedy.data_gen.roles import Role
from remedy.data_gen.settings import build
from remedy.eval.config import EvalConfig
from remedy.eval.evaluate import run_condition
from remedy.eval.generators import LoopGenerator
from remedy.eval.trust.observed import CUT, FED, NOT_DECODED, NOT_RUN, observe
from remedy.eval.view.comparison import frame_at
from remedy.models.encoding import encoded_examples
from remedy.models.tokenizer import build_tokenizer
from remedy.models.tokenizer_backends import TOKENIZERS
from tests.eval.test_decoding import FORMS, Reciter


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
