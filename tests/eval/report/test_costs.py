"""Holds what reports say of token costs and cut strings."""

from pathlib import Path

import pandas as pd
import pytest

from remedy.eval.report.costs import (
    Density,
    Measurement,
    cut_table,
    densest_table,
    density,
    failures_by_cut,
    measure_sections,
    token_table,
    with_total,
)
from tests.eval.costs.test_measure import measured, own  # noqa: F401 (a fixture)
from tests.eval.made_records import made, together


@pytest.mark.slow
def test_tables_on_ones_own_programs(own: Path, tmp_path: Path) -> None:  # noqa: F811
    found = measured(own, tmp_path / "out", max_frames=500, costs={"max_tokens": 3000, "limits": [1000]})
    tokens = with_total(found.tokens)
    assert [row[-1] for row in token_table(tokens, [1000]) if row[3:5] == ["full", "1"]] == ["2\n66.7%"]
    kinds = {row[3]: row[4] for row in densest_table(tokens)[1:]}
    assert kinds == {"every state in full": "1", "wider spacing": "1", "nothing fits": "1"}
    sections = measure_sections([found], [], pd.DataFrame(), {})
    assert [section.title for section in sections] == [
        "Tokens of traces",
        "Traces longer than so many tokens",
        "Tokens by role",
        "How programs are written in 3,000 tokens",
        "How tokenizers cut strings",
    ]
    assert "Programs ran on CPython" in sections[0].note
    assert all(section.draw is None or section.draw() is not None for section in sections)


@pytest.mark.slow
def test_the_densest_variants_are_listed_where_no_state_in_full_was_asked_for(own: Path, tmp_path: Path) -> None:  # noqa: F811
    found = measured(own, tmp_path / "out", max_frames=500, costs={"max_tokens": 3000, "locals": ["diff"]})
    head, *rows = densest_table(with_total(found.tokens))
    assert sum(int(row[4]) for row in rows) == 3
    assert {dict(zip(head, row))["Each state in full"] for row in rows} == {""}


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({}, Density.WHOLE),
        ({"locals": "diff"}, Density.DIFF),
        ({"locals": "diff", "spacing": 4.0}, Density.SPACED),
        ({"locals": "diff", "spacing": float("inf"), "call_depth": 0.0}, Density.STEPPED_OVER),
        ({"call_depth": 1.0}, Density.STEPPED_OVER),
        ({"written": False, "call_depth": 1.0}, Density.NONE),
    ],
)
def test_what_was_given_up_for_a_variant_to_fit_is_in_its_columns(changes: dict[str, object], kind: Density) -> None:
    assert density({"written": True, "call_depth": None, "spacing": 1.0, "locals": "full", **changes}) is kind


def test_rates_of_cut_patterns_by_operation_and_tokenizer() -> None:
    cuts = pd.DataFrame(
        [
            {
                "tokenizer": name,
                "operation": operation,
                "example": operation,
                "discontinuous": name == "a" and operation == "split",
            }
            for operation in ("split", "find")
            for name in ("a", "b")
        ]
    )
    table = cut_table(cuts)
    assert table[0] == ["Operation", "Uses", "a", "b"]
    assert {row[0]: (row[1], row[2].split("\n")[0]) for row in table[1:]} == {
        "find": ("1", "0%"),
        "split": ("1", "100%"),
        "all": ("2", "50%"),
    }


def test_failures_are_set_beside_what_the_runs_own_tokenizer_cuts() -> None:
    examples = [f"{number:04}" for number in range(40)]
    cuts = pd.DataFrame(
        [
            {"tokenizer": name, "example": example, "discontinuous": name == "mine" and number % 2 == 0}
            for number, example in enumerate(examples[:30])  # ten programs use no pattern
            for name in ("mine", "other")
        ]
    )
    conditions, records = together(
        *(made([n % 2 == 1 for n in range(40)], labels={"rewrite": rewrite}) for rewrite in ("all", "none"))
    )
    measurement = Measurement({"tokenizers": {"mine": "f1", "other": "f2"}}, pd.DataFrame(), cuts)
    head, row = failures_by_cut(measurement, conditions, records, {"run": "f1"})  # every program once
    found = dict(zip(head, row))
    assert (found["Cut: failed"], found["Not cut: failed"]) == ("100.0%\nof 15", "0.0%\nof 15")
    assert found["p"] == "<\N{NO-BREAK SPACE}0.001"
    assert len(failures_by_cut(measurement, conditions, records, {"run": "f2"})) == 1  # its tokenizer cuts none
    assert len(failures_by_cut(measurement, [], records, {})) == 1
