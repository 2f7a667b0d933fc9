import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from remedy.data_gen.examples import DataConfig
from remedy.data_gen.roles import Role
from remedy.data_gen.settings import ConfigError, UserError, build
from remedy.eval import evaluate as module
from remedy.eval.config import EvalConfig
from remedy.eval.evaluate import evaluate, for_checkpoint
from remedy.eval.report.generated import theory_line
from remedy.eval.report.page import report
from remedy.eval.report.verdicts import Comparison, judge, pairwise
from remedy.models.config import DecoderSettings
from remedy.models.decoder import DecoderForCausalLM
from remedy.models.decoder_config import DecoderConfig
from remedy.models.tokenizer import TraceTokenizer, build_tokenizer
from remedy.models.tokenizer_backends import TOKENIZERS

PERMUTATION = DataConfig.model_validate(
    {
        "task": {"kind": "permutation", "n": 3, "moves": "swaps", "length": 4},
        "format": "symbolic",
        "reveal": {"spacing": 2},
    }
)
SETTINGS = build(
    EvalConfig,
    {
        "diagnostics": [
            {
                "kind": "permutation",
                "lengths": [3, 6],
                "forcing": ["free", "action_forced", "fully_forced"],
                "examples": 6,
            }
        ],
        "batch_size": 4,
        "budget": 200,
    },
    "x",
)


def model_for(data: DataConfig, kind: str, seed: int = 0) -> tuple[DecoderForCausalLM, TraceTokenizer]:
    tokenizer = build_tokenizer(TOKENIZERS[kind].model_validate({"kind": kind}), data)
    torch.manual_seed(seed)
    config = DecoderConfig.from_settings(DecoderSettings(mixers=("gru",), hidden_size=16), tokenizer.vocab_size)
    return DecoderForCausalLM(config).eval(), tokenizer


def test_one_row_per_example_and_condition_and_a_summary(tmp_path: Path) -> None:
    model, tokenizer = model_for(PERMUTATION, "symbols")
    summary = json.loads(evaluate(model, tokenizer, PERMUTATION, SETTINGS, tmp_path, "gru").read_text())
    rows = pd.concat([pd.read_parquet(p) for p in (tmp_path / "records").glob("*.parquet")])
    assert len(rows) == 2 * 3 * 6
    assert len(summary["conditions"]) == 6
    for condition in summary["conditions"]:
        assert condition["low"] <= condition["accuracy"] <= condition["high"]
        assert condition["examples"] == 6
    sixes = rows[(rows["length"] == 6) & (rows["forcing"] == "action_forced")]
    assert (sixes["tokens_state"] == 4 * 3).all()  # reveals before commands 0, 2, 4 and at the end, of three values
    assert (rows[rows["departure_role"] == ""]["final_right"]).all()
    assert set(rows["departure_role"]) <= {"", *(role.label for role in Role)}


def test_interrupted_and_rerun_it_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, tokenizer = model_for(PERMUTATION, "symbols")
    original, calls = module.run_condition, []

    def interrupted(*arguments: Any) -> Any:
        calls.append(arguments[2].slug)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return original(*arguments)

    monkeypatch.setattr(module, "run_condition", interrupted)
    with pytest.raises(KeyboardInterrupt):
        evaluate(model, tokenizer, PERMUTATION, SETTINGS, tmp_path, "gru")
    assert len(list((tmp_path / "records").glob("*.parquet"))) == 3
    evaluate(model, tokenizer, PERMUTATION, SETTINGS, tmp_path, "gru")
    assert len(calls) == 4 + 3
    assert len(set(calls)) == 6
    with pytest.raises(UserError, match="another evaluation"):
        evaluate(model, tokenizer, PERMUTATION, SETTINGS.model_copy(update={"budget": 9}), tmp_path, "gru")


def test_records_of_other_weights_are_not_taken_for_this_models(tmp_path: Path) -> None:
    model, tokenizer = model_for(PERMUTATION, "symbols")
    evaluate(model, tokenizer, PERMUTATION, SETTINGS, tmp_path, "gru")
    retrained, _ = model_for(PERMUTATION, "symbols", seed=1)
    with pytest.raises(UserError, match="another evaluation"):
        evaluate(retrained, tokenizer, PERMUTATION, SETTINGS, tmp_path, "gru")


def test_free_decoding_without_the_program_is_refused() -> None:
    blind = PERMUTATION.model_copy(update={"context": False})
    with pytest.raises(ConfigError, match=r"data\.context=true"):
        module.DIAGNOSTICS["permutation"].conditions(SETTINGS.diagnostics[0], blind, SETTINGS)


def test_a_checkpoint_without_data_needs_it_in_the_config(tmp_path: Path) -> None:
    def with_data(data: dict[str, Any]) -> EvalConfig:
        return SETTINGS.model_copy(update={"data": data})

    with pytest.raises(ConfigError, match="stores no data configuration"):
        for_checkpoint(str(tmp_path), with_data({}))
    (tmp_path / "config.yaml").write_text("data: {task: {kind: permutation, n: 4}, format: repl}")
    merged, settings = for_checkpoint(str(tmp_path), with_data({"task": {"n": 5}}))
    assert (merged.task.n, merged.format, settings.trained_on) == (5, "repl", None)  # type: ignore[union-attr]
    other, _ = for_checkpoint(str(tmp_path), with_data({"task": {"kind": "programs", "path": "p"}, "format": "cwm"}))
    assert other.task.kind == "programs"
    (tmp_path / "config.yaml").write_text("data: {task: {kind: programs, benchmark: cruxeval}}")
    own, _ = for_checkpoint(str(tmp_path), with_data({"task": {"kind": "programs", "path": "p"}}))
    assert (own.task.benchmark, own.task.path) == (None, "p")  # type: ignore[union-attr]
    _, settings = for_checkpoint(str(tmp_path), with_data({}))
    assert settings.trained_on is not None
    assert settings.trained_on.benchmark == "cruxeval"


def composition_records() -> pd.DataFrame:
    atomic = [("a", True), ("a", True), ("b", True), ("b", False)]
    rows = [{"form": "atomic", "depth": 1, "function": f, "functions": f, "final_right": right} for f, right in atomic]
    rows += [
        {"form": "nested", "depth": 2, "function": "", "functions": names, "final_right": False}
        for names in ("a b", "b b")
    ]
    return pd.DataFrame(rows)


def test_the_theory_line_is_the_product_of_atomic_accuracies() -> None:
    line = theory_line(composition_records())
    assert line.to_dict() == {1: 0.75, 2: pytest.approx((0.5 + 0.25) / 2)}


@pytest.fixture
def two_runs(tmp_path: Path) -> list[Path]:
    folders = []
    for seed, name in enumerate(["first", '<second> & "co"']):
        model, tokenizer = model_for(PERMUTATION, "symbols", seed)
        evaluate(model, tokenizer, PERMUTATION, SETTINGS, tmp_path / str(seed), name)
        folders.append(tmp_path / str(seed))
    return folders


def test_the_report_is_one_self_contained_escaped_page_and_markdown(two_runs: list[Path], tmp_path: Path) -> None:
    page = report(two_runs, tmp_path / "report", title="A <b>title</b>")
    html = page.read_text()
    assert "<second>" not in html
    assert "&lt;second&gt;" in html
    assert "A &lt;b&gt;title" in html
    assert "src=" not in html
    assert html.count("<svg") == 3  # accuracy by length, attribution, accuracy against tokens
    markdown = (tmp_path / "report" / "report.md").read_text()
    assert "![Where traces first go wrong](figures/attribution.png)" in markdown
    assert (tmp_path / "report" / "figures" / "attribution.png").exists()
    assert markdown.count("No evidence of a difference") + markdown.count("Fixed") + markdown.count("Worse") > 0


def test_comparisons_are_paired_on_the_same_examples_and_say_what_is_missing(two_runs: list[Path]) -> None:
    records = pd.concat(
        [pd.read_parquet(p) for f in two_runs for p in (f / "records").glob("*.parquet")], ignore_index=True
    )
    every = pairwise(records, "first")
    assert len(every) == 6
    found = judge(every[0], records)
    assert found.result.examples == 6
    assert found.token_ratio == 1.0

    def comparison(where: dict[str, Any], run: str = "first") -> Comparison:
        return Comparison.model_validate(
            {"mitigation": "m", "baseline": {"run": run, "where": where}, "treatment": {"run": "first", "where": where}}
        )

    full = {"length": 3, "forcing": "free"}
    for wrong, says in (
        (comparison(full, "frist"), "did you mean 'first'"),
        (comparison({**full, "lenght": 3}), "did you mean 'length'"),
        (comparison({"length": 7}), "has no records"),
        (comparison({"length": 3}), "leaves several conditions"),
    ):
        with pytest.raises(ConfigError, match=says):
            judge(wrong, records)


def test_a_folder_without_evaluations_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no evaluation or measurement found"):
        report([tmp_path], tmp_path / "out")


def test_composition_runs_over_functions_depths_and_forms(tmp_path: Path) -> None:
    data = DataConfig.model_validate({"task": {"kind": "composition", "functions": ["mirror_str", "sort_chars"]}})
    model, tokenizer = model_for(data, "chars")
    settings = build(
        EvalConfig,
        {"diagnostics": [{"kind": "composition", "depths": [2, 3], "forcing": ["fully_forced"], "examples": 3}]},
        "x",
    )
    summary = json.loads(evaluate(model, tokenizer, data, settings, tmp_path, "gru").read_text())
    cells = {(c["form"], c["depth"], c["function"]) for c in summary["conditions"]}
    assert cells == {
        ("atomic", 1, "mirror_str"),
        ("atomic", 1, "sort_chars"),
        *((form, depth, "") for form in ("nested", "flattened") for depth in (2, 3)),
    }
