"""Holds what reports say of token costs and cut strings."""

from pathlib import Path

import pandas as pd
import pytest

from remedy.eval.report.measured import (
    DENSITIES,
    densest_table,
    measured_sections,
    pattern_table,
    token_table,
    with_total,
)
from tests.eval.costs.test_measure import measured, own  # noqa: F401 (a fixture)


@pytest.mark.slow
def test_tables_on_ones_own_programs(own: Path, tmp_path: Path) -> None:  # noqa: F811
    found = measured(own, tmp_path / "out", max_frames=500, costs={"max_tokens": 3000, "limits": [1000]})
    tokens = with_total(found.tokens)
    assert [row[-1] for row in token_table(tokens, [1000]) if row[4:6] == ["full", "1"]] == ["2\n66.7%"]
    kinds = {row[4]: row[5] for row in densest_table(tokens)[1:]}
    assert kinds == {"every state in full": "1", "wider spacing": "1", "nothing fits": "1"}
    sections = measured_sections([found])
    assert [section.title for section in sections] == [
        "Tokens of traces",
        "How programs are written in 3,000 tokens",
        "How tokenizers cut strings",
    ]
    assert "Programs ran on CPython" in sections[0].note


def test_what_was_given_up_for_a_variant_to_fit_is_in_its_columns() -> None:
    about = {"benchmark": "own", "tokenizer": "a", "format": "cwm", "string_encoding": "plain", "variant": "densest"}
    about |= {"written": True, "call_depth": None, "spacing": 1.0, "locals": "full", "tokens": 7.0}
    about |= {"frames": "all", "loops": None}
    changes: list[dict[str, object]] = [
        {},
        {"locals": "diff"},
        {"locals": "changes"},
        {"locals": "changes", "spacing": 4.0},
        {"locals": "changes", "spacing": 16.0, "frames": "shown"},
        {"locals": "changes", "spacing": 16.0, "frames": "shown", "loops": 2.0},
        {"locals": "changes", "spacing": float("inf"), "call_depth": 0.0},
        {"written": False, "call_depth": 1.0},
    ]
    rows = [{**about, "example": str(number), **change} for number, change in enumerate(changes)]
    assert [row[4] for row in densest_table(pd.DataFrame(rows))[1:]] == list(DENSITIES)


def test_patterns_that_executions_of_one_function_share_count_by_function_and_benchmark() -> None:
    """Twenty executions of two functions, one of which is always cut, say no more than two programs do; benchmarks are not pooled."""
    patterns = pd.DataFrame(
        [
            {"tokenizer": "a", "operation": "split", "discontinuous": number % 2 == 0, "benchmark": benchmark}
            | {"cluster": f"{number % 2 if benchmark == 'shared' else number}"}
            for benchmark in ("shared", "apart")
            for number in range(20)
        ]
    )
    found = {(row[0], row[1]): row[3] for row in pattern_table(patterns)[1:]}
    assert set(found) == {(benchmark, of) for benchmark in ("shared", "apart") for of in ("split", "all")}
    assert found["apart", "all"] == "50%\n30 to 70 %"
    assert found["shared", "all"] == "50%\n0 to 100 %"
