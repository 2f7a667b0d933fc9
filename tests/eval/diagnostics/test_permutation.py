"""The `permutation` diagnostic: lengths by spacing, locals and forcing, and how far a run follows a state."""

import math

import pandas as pd
import pytest

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import examples
from remedy.data_gen.traces.reveal import RevealConfig
from remedy.eval.diagnostics import DIAGNOSTICS
from remedy.eval.diagnostics.permutation import horizon, solved_horizon_section
from remedy.settings import ConfigError
from tests.eval.made_records import made, together

DATA = DataConfig.model_validate({"task": {"kind": "permutation", "n": 3, "length": 4}, "format": "repl"})


def test_every_length_under_every_spacing_and_forcing() -> None:
    settings = {"lengths": [3, 5], "reveals": [{"spacing": 1}, {"spacing": 2}], "forcing": ["free", "action_forced"]}
    conditions = DIAGNOSTICS["permutation"].model_validate(settings).conditions(DATA, "test")
    found = {(c.data.task.model_dump()["length"], c.data.reveal.spacing, c.forcing) for c in conditions}
    assert found == {(n, k, forcing) for n in (3, 5) for k in (1, 2) for forcing in ("free", "action_forced")}
    assert [c.labels["length"] for c in conditions] == [c.data.task.model_dump()["length"] for c in conditions]


def test_one_model_is_asked_at_several_densities() -> None:
    data = DATA.changed({"format": "cwm", "reveal.locals": "diff"})
    reveals = [{}, {"spacing": 4}, {"spacing": 4, "frames": "shown"}, {"spacing": math.inf, "frames": "shown"}]
    found = DIAGNOSTICS["permutation"].model_validate({"lengths": [8], "reveals": reveals}).conditions(data, "test")
    names = ("locals", "spacing", "reveal_frames", "horizon")
    assert [[condition.labels.get(name) for name in names] for condition in found] == [
        ["diff", 1, None, 1],
        ["diff", 4, None, 4],
        ["diff", 4, "shown", 4],
        ["diff", math.inf, "shown", 8],
    ]
    with pytest.raises(ConfigError, match=r"diagnostic permutation: unknown key 'reveal\.frame'; did you mean"):
        DIAGNOSTICS["permutation"].model_validate({"reveals": [{"frame": "shown"}]}).conditions(data, "test")


def test_conditions_of_marked_lines_say_so_and_have_no_horizon() -> None:
    marked = DATA.changed({"reveal.spacing": math.inf, "reveal.at": 0.25})
    (found,) = DIAGNOSTICS["permutation"].model_validate({"lengths": [3]}).conditions(marked, "test")
    assert (found.labels["spacing"], found.labels["at"]) == (math.inf, "0.25")
    assert "horizon" not in found.labels  # a mark starts it anew
    assert "__at-0.25__" in found.slug


PAIRS = {"lengths": [8], "test_pairs": ["with", "without"], "examples": 30}


def test_programs_with_a_held_out_pair_and_without_are_conditions_of_their_own() -> None:
    held = DATA.changed({"task.held_out_pairs": 1, "seed": 5})
    found = DIAGNOSTICS["permutation"].model_validate(PAIRS).conditions(held, "test", held.task)
    assert [one.labels["test_pairs"] for one in found] == ["with", "without"]
    for condition in found:
        counts = {bool(one.slices["held_out_pairs"]) for one in examples(condition.data, "test", range(30))}
        assert counts == {condition.labels["test_pairs"] == "with"}


@pytest.mark.parametrize(
    ("settings", "changes", "split", "says"),
    [
        (PAIRS, {}, "test", "this training held out none; for a control, set those of the runs"),
        (PAIRS, {"task.held_out_pairs": 1}, "validation", "programs of the validation split have none"),
        (
            {**PAIRS, "lengths": [1]},
            {"task.held_out_pairs": 1},
            "test",
            "needs length and repertoire of at least 2; got 1",
        ),
        (
            {**PAIRS, "lengths": [2], "examples": 200},
            {"task.held_out_pairs": 1},
            "test",
            "at most 100 .* 200 are asked",
        ),
    ],
)
def test_pairs_that_cannot_be_asked_for_are_refused(
    settings: dict[str, object], changes: dict[str, object], split: str, says: str
) -> None:
    data = DATA.changed(changes)
    with pytest.raises(ConfigError, match=says):
        DIAGNOSTICS["permutation"].model_validate(settings).conditions(data, split, data.task)


@pytest.mark.parametrize(
    ("reveal", "expected"),
    [
        ({"spacing": 4}, 4),
        ({"spacing": 4, "locals": "diff"}, 4),
        ({"spacing": math.inf}, 16),
        ({"spacing": 1, "locals": "one_in_turn"}, 16),
        ({"answer_only": True}, 16),
    ],
)
def test_the_horizon_is_what_lies_between_two_full_states(reveal: dict[str, object], expected: int) -> None:
    assert horizon(16, RevealConfig.model_validate(reveal)) == expected


def outcomes(share: float, run: str, at: int, **labels: object) -> pd.DataFrame:
    right = round(400 * share)
    return made([True] * right + [False] * (400 - right), run=run, labels={"length": at, "horizon": at, **labels})


def test_the_horizon_is_the_largest_that_is_surely_at_95_per_cent() -> None:
    rates = {"a": {8: 1.0, 16: 0.9, 32: 0.99, 64: 0.96}, "b": {8: 0.9, 16: 0.3}}
    conditions, _ = together(*(outcomes(share, run, at) for run, line in rates.items() for at, share in line.items()))
    (section,) = solved_horizon_section("Permutation programs", conditions)
    # 96 % of 400 reaches 95 % as an estimate, but with an interval from 93.6 %.
    assert section.rows == [
        ["Recipe", "Horizon at 95%"],
        ["a", "32\ntested: 8, 16, 32, 64\nnot always 16"],
        ["b", "none\ntested: 8, 16"],
    ]
