"""Holds what traces of programs cost in tokens, against published figures where vocabulary and programs are at hand."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from remedy.eval.costs.measure import MeasureConfig, measure
from remedy.eval.costs.token_costs import CostSettings
from remedy.eval.report.measured import measured_sections, with_total
from remedy.eval.report.reading import Measurement, read_measurement
from remedy.models.tokenizer import TokenizerError, TraceTokenizer, build_tokenizer
from remedy.models.tokenizer_backends import CharacterSettings, Llama3Settings
from remedy.settings import ConfigError, UserError, build

SEEDED = 12
"""The reference counts the seeded first frame with its marker, and not the end: 12 tokens more for every program."""


def llama3() -> TraceTokenizer:
    try:
        return build_tokenizer(Llama3Settings())
    except TokenizerError as error:
        pytest.skip(f"needs the Llama-3 vocabulary: {error}")


def measured(path: Path, out: Path, max_frames: int = 200_000, **changes: Any) -> Measurement:
    """A measurement of the programs in a file, by characters where `changes` say nothing else."""
    source = {"path": str(path), "tracer": {"max_frames": max_frames, "timeout_seconds": 3}}
    settings = {"sources": [source], "tokenizers": {"characters": {"kind": "chars"}}, **changes}
    measure(build(MeasureConfig, settings, "test"), out)
    return read_measurement(out)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own.jsonl"
    rows = [
        {"code": "def f(s):\n    return s.split(',')", "input": "'a,b,c'"},
        {"code": "def f(n):\n    xs = []\n    for i in range(n):\n        xs.append(i)\n    return xs", "input": "30"},
        {"code": "def f(n):\n    while True:\n        n += 1", "input": "1"},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.slow
def test_costs_of_ones_own_programs(own: Path, tmp_path: Path) -> None:
    build_tokenizer(CharacterSettings()).save(tmp_path / "run")
    settings = {"tokenizers": {}, "checkpoints": [str(tmp_path / "run")], "costs": {"max_tokens": 3000}}
    found = measured(own, tmp_path / "out", max_frames=500, **settings)
    assert set(found.tokens["tokenizer"]) == {str(tmp_path / "run")}
    tokens = with_total(found.tokens)
    fixed = tokens[tokens["variant"] == "fixed"]
    assert len(fixed) == 3 * 4 * 2
    sizes = fixed[fixed["locals"] == "diff"].pivot_table(index="example", columns="spacing", values="tokens")
    assert (sizes.diff(axis=1).iloc[:, 1:] <= 0).all(axis=None)
    untraced = fixed[fixed["outcome"] == "frames"]
    assert untraced["tokens"].isna().all()
    assert not untraced["written"].any()
    fitted = tokens[tokens["variant"] == "densest"].set_index("outcome")
    totals = fitted["tokens"] + fitted["tokens_context"]
    assert (totals.dropna() <= 3000).all()
    assert not fitted.loc["frames", "written"]  # it never ends, so no result can be written
    patterns = found.patterns[["operation", "discontinuous"]].to_dict("records")
    assert patterns == [{"operation": "split", "discontinuous": False}]
    assert found.request["python"].startswith("CPython")


def test_a_program_traced_to_a_call_depth_only_is_written_to_that_depth(tmp_path: Path) -> None:
    path = tmp_path / "deep.jsonl"
    # `g`, at level 2 below the entry point and `f`, runs too long to be traced.
    code = "def f(n):\n    return g(n)\ndef g(n):\n    for i in range(n):\n        pass\n    return n"
    path.write_text(json.dumps({"code": code, "input": "300"}))
    tokens = measured(path, tmp_path / "out", max_frames=100).tokens
    (densest,) = tokens[tokens["variant"] == "densest"].to_dict("records")
    assert (densest["written"], densest["call_depth"], densest["locals"], densest["spacing"]) == (True, 1, "full", 1)


@pytest.mark.slow
def test_the_same_measurement_continues_and_another_is_refused(own: Path, tmp_path: Path) -> None:
    first, again = (measured(own, tmp_path / "out", max_frames=500).tokens for _ in range(2))
    pd.testing.assert_frame_equal(first, again)
    with pytest.raises(UserError, match="another measurement"):
        measured(own, tmp_path / "out", max_frames=400)


CHANGES: dict[str, list[dict[str, Any]]] = {
    "sources": [{"sources": [{"path": "examples/functions.jsonl", "rewrites": ["temporaries"]}]}],
    "tokenizers": [{"tokenizers": {"by another name": {"kind": "chars"}}}],
    "costs.spacings": [{"costs": {"spacings": [2]}}],
    "costs.locals": [{"costs": {"locals": ["diff"]}}, {"costs": {"locals": ["one_in_turn"]}}],
    "costs.formats": [{"costs": {"formats": ["cwm_numbers"]}}],
    "costs.string_encodings": [{"costs": {"string_encodings": ["spaced"]}}],
    "costs.limits": [{"costs": {"limits": [3]}}],
    "costs.max_tokens": [{"costs": {"max_tokens": None}}, {"costs": {"max_tokens": 100}}],
}
"""Fields, with changes that must each show in what is measured and reported; `test_costs_of_ones_own_programs` holds `checkpoints`, and
tests/launch/test_first_steps.py holds `plugins`."""


def test_every_setting_changes_what_is_measured(tmp_path: Path) -> None:
    costs = {f"costs.{name}" for name in CostSettings.model_fields}
    assert set(CHANGES) == costs | set(MeasureConfig.model_fields) - {"costs", "checkpoints", "plugins"}
    base = {"sources": [{"path": "examples/functions.jsonl"}], "tokenizers": {"characters": {"kind": "chars"}}}
    seen = []
    for number, change in enumerate([{}, *(change for changes in CHANGES.values() for change in changes)]):
        folder = tmp_path / str(number)
        measure(build(MeasureConfig, {**base, **change}, "test"), folder)
        sections = measured_sections([read_measurement(folder)])
        shown = [section.rows for section in sections]
        assert shown not in seen, change
        seen.append(shown)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"costs": {"spacings": [1.5]}}, "whole number"),
        ({"costs": {"spacings": [4, 4]}}, "4 is given twice"),
        ({"tokenizers": {"b": {"kind": "bpe"}}}, "belongs to a run's data"),
        ({"tokenizers": {}}, "nothing to count with"),
        ({"sources": [{"path": "a", "held_out_programs": ["b"]}]}, r"sources\.0\.held_out_programs does nothing"),
        ({"sources": [{"path": "a"}, {"path": "a"}]}, "hold the same programs"),
    ],
)
def test_what_would_do_nothing_is_refused(changes: dict[str, Any], says: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=says):
        measured(tmp_path / "own.jsonl", tmp_path / "out", **changes)


@pytest.mark.weekly
def test_token_counts_are_the_published_ones(shared: Path, tmp_path: Path) -> None:
    llama3()
    settings = {
        "sources": [
            # A program that takes seconds must not run out of time on a busy machine.
            {"benchmark": name, "path": str(shared / f"{name}.jsonl"), "tracer": {"timeout_seconds": 120}}
            for name in ("cruxeval", "humaneval")
        ],
        "tokenizers": {"llama3": {"kind": "llama3"}},
        "costs": {"spacings": [1], "max_tokens": 8192},
    }
    measure(build(MeasureConfig, settings, "test"), tmp_path, workers=2)
    tokens = with_total(read_measurement(tmp_path).tokens)
    cruxeval = tokens[(tokens["benchmark"] == "cruxeval") & (tokens["variant"] == "fixed")]
    full, diff = (cruxeval[cruxeval["locals"] == shown]["tokens"] + SEEDED for shown in ("full", "diff"))
    assert (full.median(), full.max()) == (268.5, 597_472)
    assert (diff.median(), diff.max()) == (231, 28_393)
    # The order of sets of strings, which a few programs show, differs from run to run outside the sandbox.
    assert full.quantile(0.9) == pytest.approx(1251, abs=2)
    assert diff.quantile(0.9) == pytest.approx(902, abs=2)
    humaneval = tokens[tokens["benchmark"] == "humaneval"]
    diff = humaneval[(humaneval["variant"] == "fixed") & (humaneval["locals"] == "diff")]["tokens"]
    assert len(diff) == 723
    assert (diff.isna() | (diff > 8192)).sum() == 24
    fitted = humaneval[humaneval["variant"] == "densest"]
    assert (fitted["tokens"] + fitted["tokens_context"]).le(8192).all()
    assert fitted["tokens"].notna().all()
    # What fits as it is, is written as it is.
    whole = humaneval[(humaneval["variant"] == "fixed") & (humaneval["locals"] == "full")].set_index("example")
    fits = whole[whole["tokens"] + whole["tokens_context"] <= 8192]
    chosen = fitted.set_index("example").loc[fits.index]
    assert (chosen["tokens"] == fits["tokens"]).all()
    assert (chosen["locals"] == "full").all()
    assert (chosen["spacing"] == 1).all()
