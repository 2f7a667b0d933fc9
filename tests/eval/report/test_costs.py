"""Holds what reports say of token costs and cut strings."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from remedy.eval.records.schema import TRACE_COLUMNS
from remedy.eval.report.costs import (
    Density,
    densest_table,
    density,
    measure_sections,
    token_table,
)
from remedy.eval.report.cuts import Measurement, cut_table, failures_by_cut, with_total
from tests.eval.costs.test_measure import measured, own  # noqa: F401 (a fixture)
from tests.eval.made_records import made, together


@pytest.mark.slow
def test_tables_on_ones_own_programs(own: Path, tmp_path: Path) -> None:  # noqa: F811
    found = measured(own, tmp_path / "out", max_frames=500, costs={"max_tokens": 3000, "limits": [1000]})
    tokens = with_total(found.tokens)
    assert [row[-1] for row in token_table(tokens, [1000]) if row[4:6] == ["full", "1"]] == ["2\n66.7%"]
    kinds = {row[4]: row[5] for row in densest_table(tokens)[1:]}
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
    assert sum(int(row[5]) for row in rows) == 3
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
                "benchmark": "own",
                "operation": operation,
                "cluster": operation,
                "discontinuous": name == "a" and operation == "split",
            }
            for operation in ("split", "find")
            for name in ("a", "b")
        ]
    )
    table = cut_table(cuts)
    assert table[0] == ["Benchmark", "Operation", "Uses", "a", "b"]
    assert {row[1]: (row[2], row[3].split("\n")[0]) for row in table[1:]} == {
        "find": ("1", "0%"),
        "split": ("1", "100%"),
        "all": ("2", "50%"),
    }


def test_patterns_that_executions_of_one_function_share_count_by_function_and_benchmark() -> None:
    """Twenty executions of two functions, one of which is always cut, say no more than two programs do; benchmarks are not pooled."""
    cuts = pd.DataFrame(
        [
            {"tokenizer": "a", "operation": "split", "discontinuous": number % 2 == 0, "benchmark": benchmark}
            | {"cluster": f"{number % 2 if benchmark == 'shared' else number}"}
            for benchmark in ("shared", "apart")
            for number in range(20)
        ]
    )
    found = {(row[0], row[1]): row[3] for row in cut_table(cuts)[1:]}
    assert set(found) == {(benchmark, of) for benchmark in ("shared", "apart") for of in ("split", "all")}
    assert found["apart", "all"] == "50%\n30 to 70 %"
    assert found["shared", "all"] == "50%\n0 to 100 %"


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
    measurement = Measurement({"tokenizers": {"mine": "f1", "other": "f2"}}, counted(examples, [10] * 40), cuts)
    head, row = failures_by_cut(measurement, conditions, records, {"run": "f1"})  # every program once
    found = dict(zip(head, row))
    assert (found["Cut: failed"], found["Not cut: failed"]) == ("100 %\nof 15", "0 %\nof 15")
    assert found["Difference"].startswith("+100.0 points\n+")
    assert found["Strata"] == "1\n0 of 30 programs left out"
    assert len(failures_by_cut(measurement, conditions, records, {"run": "f2"})) == 1  # its tokenizer cuts none
    assert len(failures_by_cut(measurement, [], records, {})) == 1


def counted(examples: list[str], tokens: list[int]) -> pd.DataFrame:
    zeros = dict.fromkeys(TRACE_COLUMNS, 0)
    return pd.DataFrame(
        [
            {"tokenizer": name, "example": example, **zeros, "tokens_state": count}
            for name in ("mine", "other")
            for example, count in zip(examples, tokens)
        ]
    )


def test_programs_are_compared_with_those_of_as_many_uses_and_tokens() -> None:
    """Long programs are cut more often and fail more often; among programs of one length cutting makes no difference here."""
    examples = [f"{number:04}" for number in range(400)]
    long = [number >= 200 for number in range(400)]
    cut = [number % 10 < (8 if is_long else 2) for number, is_long in enumerate(long)]
    failed = [(number // 10) % 10 < (8 if is_long else 2) for number, is_long in enumerate(long)]
    cuts = pd.DataFrame(
        [{"tokenizer": "mine", "example": one, "discontinuous": is_cut} for one, is_cut in zip(examples, cut)]
    )
    conditions, records = together(made([not one for one in failed]))
    tokens = counted(examples, [1000 if is_long else 10 for is_long in long])
    measurement = Measurement({"tokenizers": {"mine": "f1"}}, tokens, cuts)
    _, row = failures_by_cut(measurement, conditions, records, {"run": "f1"})
    assert row[2:4] == ["50 %\nof 200", "50 %\nof 200"]  # 68 % and 32 % without strata
    assert row[4].startswith("+0.0 points\n-")
    # Three uses in the long ones: the same strata; and where all of a stratum are cut, it says nothing.
    more = pd.concat([cuts, *[cuts[np.array(long)]] * 2])
    _, row = failures_by_cut(measurement._replace(cuts=more), conditions, records, {"run": "f1"})
    assert row[5] == "2\n0 of 400 programs left out"
    always = cuts.assign(discontinuous=cuts["discontinuous"] | np.array(long))
    _, row = failures_by_cut(measurement._replace(cuts=always), conditions, records, {"run": "f1"})
    assert row[5] == "1\n200 of 400 programs left out"
