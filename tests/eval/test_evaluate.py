"""An evaluation writes records and a summary, continues where it was interrupted, and never takes another's records."""

import json
import logging
import shutil
from pathlib import Path

import pandas as pd
import pytest

from remedy.checksums import read_json
from remedy.data_gen.config import DataConfig
from remedy.data_gen.roles import Role
from remedy.eval.conditions import CheckpointInfo
from remedy.eval.config import EvalConfig
from remedy.eval.evaluate import evaluate
from remedy.eval.progress import Progress
from remedy.eval.records.schema import answered
from remedy.models.decoder import DecoderForCausalLM
from remedy.models.tokenizer import TraceTokenizer
from remedy.owner import owned
from remedy.settings import UserError, build
from tests.tiny_models import small_decoder, tiny_model, tokenizer_for

TASK = {"kind": "permutation", "n": 3, "moves": "swaps", "length": 4}
PERMUTATION = DataConfig.model_validate({"task": TASK, "format": "symbolic", "reveal": {"spacing": 2}})
FORCINGS = ["free", "action_forced", "teacher_forced"]
GRID = {"kind": "permutation", "lengths": [3, 6], "forcing": FORCINGS, "examples": 6}
SETTINGS = build(EvalConfig, {"diagnostics": [GRID], "batch_size": 4, "max_new_tokens": 200}, "x")


def model_for(data: DataConfig, kind: str, seed: int = 0) -> tuple[DecoderForCausalLM, TraceTokenizer]:
    tokenizer = tokenizer_for(data, kind)
    return small_decoder(tokenizer, seed=seed), tokenizer


def test_one_row_per_example_and_condition_and_a_summary(tmp_path: Path) -> None:
    model, tokenizer = model_for(PERMUTATION, "symbols")
    with owned(tmp_path), pytest.raises(UserError, match="is writing there"):
        evaluate(model, tokenizer, CheckpointInfo(PERMUTATION), SETTINGS, tmp_path, "gru")
    with pytest.raises(UserError, match="characters that cannot be shown"):
        evaluate(model, tokenizer, CheckpointInfo(PERMUTATION), SETTINGS, tmp_path, "gr\x1bu")
    assert not list(tmp_path.iterdir())
    path = evaluate(model, tokenizer, CheckpointInfo(PERMUTATION), SETTINGS, tmp_path, "gru")
    summary = json.loads(path.read_text())
    rows = pd.concat([pd.read_parquet(p) for p in (tmp_path / "records").glob("*.parquet")])
    assert len(rows) == 2 * 3 * 6
    assert len(summary["conditions"]) == 6
    for condition in summary["conditions"]:
        fed = condition["labels"]["forcing"] == "teacher_forced"
        assert (condition["right"] is None) == fed
        found = condition["per_frame"]["states"] if fed else condition["right"]
        assert found["low"] <= found["mean"] <= found["high"]
        assert condition["examples"] == 6
    sixes = rows[(rows["length"] == 6) & (rows["forcing"] == "action_forced")]
    assert (sixes["tokens_state"] == 4 * 3).all()  # reveals before commands 0, 2, 4 and at the end, of three values
    assert answered(rows)[answered(rows)["first_error_role"] == ""]["right"].astype(bool).all()
    assert set(rows["first_error_role"]) <= {"", *(role.label for role in Role)}


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model, tokenizer = model_for(PERMUTATION, "symbols")
    folder: Path = tmp_path_factory.mktemp("done")
    evaluate(model, tokenizer, CheckpointInfo(PERMUTATION), SETTINGS, folder, "gru")
    return folder


@pytest.fixture
def again(done: Path, tmp_path: Path) -> Path:
    """A copy of an evaluation that is done."""
    return Path(shutil.copytree(done, tmp_path / "again"))


def test_interrupted_and_rerun_it_continues(tmp_path: Path) -> None:
    model, tokenizer = model_for(PERMUTATION, "symbols")

    def interrupt(done: Progress) -> None:
        if done.number == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(model, tokenizer, CheckpointInfo(PERMUTATION), SETTINGS, tmp_path, "gru", interrupt)
    written = {path: path.stat().st_mtime_ns for path in (tmp_path / "records").glob("*.parquet")}
    assert len(written) == 3
    evaluate(model, tokenizer, CheckpointInfo(PERMUTATION), SETTINGS, tmp_path, "gru")
    assert len(list((tmp_path / "records").glob("*.parquet"))) == 6
    assert {path: path.stat().st_mtime_ns for path in written} == written
    with pytest.raises(UserError, match=r"another evaluation \(it differs in run, evaluation\.max_new_tokens\)"):
        evaluate(
            model, tokenizer, CheckpointInfo(PERMUTATION), SETTINGS.changed({"max_new_tokens": 9}), tmp_path, "other"
        )


def test_damaged_records_and_generations_are_evaluated_again(again: Path, caplog: pytest.LogCaptureFixture) -> None:
    model, tokenizer = model_for(PERMUTATION, "symbols")
    kept = {path: path.read_bytes() for path in sorted(again.rglob("*")) if path.is_file()}
    first, second, third, *_ = sorted((again / "records").iterdir())
    first.write_bytes(kept[first][:-9])
    second.write_bytes(kept[third])  # of another condition
    (again / "generations" / third.name).unlink()
    (again / "summary.json").write_bytes(b"[")
    evaluate(model, tokenizer, CheckpointInfo(PERMUTATION), SETTINGS, again, "gru")
    assert {path: path.read_bytes() for path in kept} == kept
    assert caplog.text.count("the condition is evaluated again") == 3


def test_records_are_not_taken_for_another_evaluations(again: Path) -> None:
    model, tokenizer = model_for(PERMUTATION, "symbols")
    retrained, _ = model_for(PERMUTATION, "symbols", seed=1)
    with pytest.raises(UserError, match="another evaluation"):
        evaluate(retrained, tokenizer, CheckpointInfo(PERMUTATION), SETTINGS, again, "gru")
    (again / "evaluation.json").write_bytes(b"null")
    with pytest.raises(UserError, match=r"evaluation\.json: is damaged .*delete the file and evaluate again"):
        evaluate(model, tokenizer, CheckpointInfo(PERMUTATION), SETTINGS, again, "gru")
    (again / "evaluation.json").unlink()
    with pytest.raises(UserError, match="belongs to another evaluation"):
        evaluate(model, tokenizer, CheckpointInfo(PERMUTATION), SETTINGS, again, "other")
    kept = {path: path.stat().st_mtime_ns for path in (again / "records").iterdir()}
    evaluate(model, tokenizer, CheckpointInfo(PERMUTATION), SETTINGS, again, "gru")
    assert {path: path.stat().st_mtime_ns for path in kept} == kept


@pytest.mark.parametrize(
    ("family", "setting", "most"), [("gpt2", "n_positions", 44), ("llama", "max_position_embeddings", 20)]
)
def test_examples_longer_than_the_models_context_are_said_and_truncated_where_it_ends(
    family: str, setting: str, most: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Where GPT-2's positions ended there was an IndexError, and on a GPU a device assertion; Llama reads on, which is said once."""
    _, tokenizer = model_for(PERMUTATION, "symbols")
    model, hard = tiny_model(family, tokenizer.vocab_size, **{setting: most}), family == "gpt2"
    with caplog.at_level(logging.WARNING):
        evaluate(model, tokenizer, CheckpointInfo(PERMUTATION), SETTINGS, tmp_path, "short")
    rows = pd.concat([pd.read_parquet(p) for p in (tmp_path / "records").glob("*.parquet")])
    long = rows[[column for column in rows if str(column).startswith("tokens_")]].sum(axis=1) > most
    assert (len(rows), set(long)) == (2 * 3 * 6, {True, False} if hard else {True})
    fed = rows["forcing"] == "teacher_forced"
    if hard:
        assert rows[long]["truncated"].all()
        assert (rows[long]["written_tokens"] == 0).all()
    assert (rows[fed & ~(long & hard)]["written_tokens"] > 0).all()
    said = [record.getMessage() for record in caplog.records if record.name.startswith("remedy")]
    assert len(said) == (3 if hard else 1)
    ends = "it cannot read them, and they count as truncated" if hard else "what it was made for (this is said once)"
    assert all(f"6 of 6 examples have more than the {most} tokens of short ({setting})" in line for line in said)
    assert all(line.endswith(ends) for line in said)
    context = {"tokens": most, "setting": setting, "hard": hard}
    assert read_json(tmp_path / "reading.json", "")["context"] == context
