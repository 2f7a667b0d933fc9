"""The `composition` diagnostic: every function alone, then compositions by depth and form, and what is said of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import example
from remedy.data_gen.tasks import Task
from remedy.data_gen.tasks.families import FAMILIES
from remedy.eval.diagnostics import Condition
from remedy.eval.diagnostics.composition import CompositionDiagnostic, expectation_table
from remedy.eval.diagnostics.composition_null import (
    corrected_line,
    every_frame_right,
    given_true_inputs,
    published_line,
)
from remedy.settings import ConfigError
from tests.eval.made_records import made, together

LABELS: dict[str, Any] = {"family": "strings", "function": "", "forcing": "free"}


def condition(form: str, depth: int, right: list[bool], functions: list[str], function: str = "") -> pd.DataFrame:
    labels: dict[str, Any] = {"family": "strings", "form": form, "depth": depth, "function": function}
    return made(right, diagnostic="composition", labels=labels, functions=functions)


def test_forcings_and_forms_are_never_pooled() -> None:
    """What is always wrong under one and always right under another is neither half right nor expected to be a quarter right."""
    parts = []
    for forcing, right in (("free", False), ("action_forced", True)):
        for form, depth, function in (("atomic", 1, "a"), ("nested", 2, ""), ("flattened", 2, "")):
            labels = {"family": "strings", "form": form, "depth": depth, "function": function, "forcing": forcing}
            rights = [right != (form == "flattened")] * 20
            names = [function or "a a"] * 20
            parts.append(made(rights, diagnostic="composition", labels=labels, functions=names))
    conditions, records = together(*parts)
    head, *rows = expectation_table(records)
    found = {(row[head.index("Forcing")], row[3]): (row[5].split("\n")[0], row[6]) for row in rows}
    assert found["free", "nested"] == ("0%", "0%")
    assert found["free", "flattened"] == ("100%", "0%")
    assert found["action_forced", "nested"] == ("100%", "100%")
    assert found["action_forced", "flattened"] == ("0%", "100%")
    figure, _ = CompositionDiagnostic.sections(conditions, records)
    drawn = figure.draw and figure.draw()
    assert [panel.get_title() for panel in drawn.axes] == ["run\nstrings, free", "run\nstrings, action_forced"]  # type: ignore[union-attr]


PAIRS = {"depths": [2, 3], "forms": ["nested"], "test_pairs": ["with", "without"], "forcing": ["teacher_forced"]}


def test_compositions_with_a_held_out_pair_and_without_are_conditions_and_rows_of_their_own() -> None:
    task = {"kind": "composition", "depth": [1, 3], "held_out_pairs": [["mirror_str", "sort_chars"]]}
    data = DataConfig.model_validate({"task": task})
    diagnostic = CompositionDiagnostic.model_validate(PAIRS)
    found = [one for one in diagnostic.conditions(data, "test", data.task) if one.labels["form"] == "nested"]
    assert [one.labels["test_pairs"] for one in found] == ["with", "without"] * 2
    parts = [
        made(
            [True] * 20, diagnostic="composition", labels={**LABELS, "form": "atomic", "depth": 1}, functions=["a"] * 20
        )
    ]
    for one in found:
        counts = {bool(example(one.data, "test", index).slices["held_out_pairs"]) for index in range(20)}
        assert counts == {one.labels["test_pairs"] == "with"}
        labels = {**LABELS, "form": "nested", "depth": one.labels["depth"], "test_pairs": one.labels["test_pairs"]}
        rights = [one.labels["test_pairs"] == "without"] * 20
        parts.append(made(rights, diagnostic="composition", labels=labels, functions=["a a"] * 20))
    head, *rows = expectation_table(together(*parts)[1])
    assert {(row[head.index("Family")], row[head.index("Observed")].split("\n")[0]) for row in rows} == {
        ("strings, with held-out pairs", "0%"),
        ("strings, without held-out pairs", "100%"),
    }


@pytest.mark.parametrize(
    ("settings", "task", "says"),
    [
        (PAIRS, {}, "this training held out none"),
        ({**PAIRS, "depths": [1, 2]}, {"held_out_pairs": [["mirror_str", "sort_chars"]]}, "depths of at least 2"),
        ({**PAIRS, "depths": []}, {}, "does nothing without depths"),
    ],
)
def test_pairs_of_functions_that_cannot_be_asked_for_are_refused(
    settings: dict[str, Any], task: dict[str, Any], says: str
) -> None:
    data = DataConfig.model_validate({"task": {"kind": "composition", "depth": [1, 3], **task}})
    with pytest.raises((ConfigError, ValidationError), match=says):
        CompositionDiagnostic.model_validate(settings).conditions(data, "test", data.task)


def test_the_correction_undoes_the_luck_of_functions_that_were_chosen() -> None:
    """Of 25 functions measured on 10 programs each, those at 90 % and above are worse than they looked."""
    random = np.random.default_rng(4)
    products, plain, corrected, covered = [], [], [], 0
    for _ in range(12):
        true = random.beta(8, 2, 25)
        right = random.binomial(10, true)
        chosen = [number for number in range(25) if right[number] >= 9]
        parts = [
            condition("atomic", 1, [True] * k + [False] * (10 - k), [f"f{n}"] * 10, f"f{n}")
            for n, k in enumerate(right)
        ]
        names = [" ".join(f"f{n}" for n in random.choice(chosen, 5)) for _ in range(100)]
        records = pd.concat([*parts, condition("nested", 5, [True] * 100, names)], ignore_index=True)
        products.append(np.mean([np.prod([true[int(name[1:])] for name in one.split()]) for one in names]))
        plain.append(published_line(records)[5])
        mean, low, high = corrected_line(records)[5]
        corrected.append(mean)
        covered += low <= products[-1] <= high
    assert np.mean(plain) - np.mean(products) > 0.15
    assert abs(np.mean(corrected) - np.mean(products)) < 0.06
    assert covered >= 11


def one_step(form: str, **columns: Any) -> pd.DataFrame:
    labels = {"family": "strings", "form": form, "depth": 3, "function": "", "forcing": "teacher_forced"}
    return made([None] * 40, diagnostic="composition", labels=labels, functions=["a a a"] * 40, **columns)  # type: ignore[list-item]


def test_the_right_null_is_of_calls_and_not_of_frames() -> None:
    """One call of eight fails given its true input, and the four calls of a program are expected to be right as often as that four
    times over; states that are wrong beside right answers lower what is said of frames alone."""
    fed = one_step("nested", returns=4, value_exact=[1.0] * 20 + [0.75] * 20, state_exact=[0.9] * 10 + [1.0] * 30)
    _, records = together(condition("nested", 3, [True] * 20 + [False] * 20, ["a a a"] * 40), fed)
    mean, low, high = given_true_inputs(records)[3]
    assert mean == pytest.approx(0.875**4)
    assert 0.4 < low < mean < high < 0.8
    assert every_frame_right(records)[3][0] == 0.25
    head, row = expectation_table(records)
    cells = {name: cell.split("\n")[0] for name, cell in zip(head, row)}
    assert (cells["Forcing"], cells["Observed"]) == ("free", "50%")
    assert (cells["Given true inputs"], cells["Every frame, after a true past"]) == ("59%", "25%")


@pytest.mark.parametrize("flatten", [False, True])
def test_a_function_alone_is_written_as_it_was_learnt(flatten: bool) -> None:
    task = {"kind": "composition", "functions": ["mirror_str"], "flatten": flatten}
    data = DataConfig.model_validate({"task": task})
    (one,) = CompositionDiagnostic(depths=()).conditions(data, "test")
    assert ("t1 = " in example(one.data, "test", 0).trace.program.code) is flatten


def test_functions_of_parallel_lines_are_asked_one_by_one_and_not_composed() -> None:
    task = {"kind": "composition", "family": "string_operations", "parallel": 12, "split_by": "inputs"}
    data = DataConfig.model_validate({"task": task})
    asked = CompositionDiagnostic(families=("string_operations",), depths=()).conditions(data, "test")
    assert [one.labels["function"] for one in asked] == list(FAMILIES["string_operations"].functions)
    assert example(asked[0].data, "test", 0).program.count("'[::-1]\n") == 12
    with pytest.raises(ConfigError, match="12 parallel lines answer with their last line alone"):
        CompositionDiagnostic(families=("string_operations",)).conditions(data, "test")


ZOO = ("booleans", "bitwise", "math", "characters", "lists", "sets", "dicts")
ANOTHER = DataConfig.model_validate({"task": {"kind": "permutation"}}).task


def zoo_conditions(split: str, trained_on: Task | None, families: Sequence[str] = ZOO) -> list[Condition]:
    data = DataConfig.model_validate({"task": {"kind": "composition", "family": "booleans"}})
    diagnostic = CompositionDiagnostic(families=tuple(families), depths=(2,), examples=100)
    return diagnostic.conditions(data, split, trained_on)


def test_all_domains_can_be_evaluated_and_a_small_space_is_evaluated_whole() -> None:
    found = zoo_conditions("test", None)
    assert {one.labels["family"] for one in found} == set(ZOO)
    sizes = {one.labels["function"]: (one.split, one.examples) for one in found}
    assert sizes["bool_not"] == ("all", 2)
    assert sizes["bool_majority"] == ("all", 8)
    assert sizes["char_lower"] == ("all", 52)
    assert sizes["math_absolute"] == ("all", 100)
    assert sizes["list_reverse"] == ("test", 100)  # endless
    for one in found:
        drawn = one.data.task.draw(one.split, range(one.examples), 0, False)
        if one.split == "all":
            assert len({program.identity for program in drawn}) == one.examples


def test_a_model_that_was_trained_here_is_asked_what_its_training_did_not_have(
    caplog: pytest.LogCaptureFixture,
) -> None:
    found = zoo_conditions("test", ANOTHER, ["booleans"])
    assert {one.split for one in found} == {"test"}
    assert "bool_not" not in {one.labels["function"] for one in found}
    assert "no program of the test split is of" in caplog.text
    everything = zoo_conditions("all", ANOTHER, ["booleans"])
    assert {one.split for one in everything} == {"all"}
    assert len(everything) == 8 + 2
    only = CompositionDiagnostic(families=("booleans",), functions=("bool_not",), depths=())
    data = DataConfig.model_validate({"task": {"kind": "composition", "family": "booleans"}})
    with pytest.raises(ConfigError, match="`split: all` evaluates every program"):
        only.conditions(data, "test", ANOTHER)
