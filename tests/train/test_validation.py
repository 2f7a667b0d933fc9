"""Validation while training: what its figures are, that training goes on as without it, and what is kept, also when resumed."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.nn.functional import cross_entropy

from remedy.data_gen.examples import examples
from remedy.data_gen.roles import Role
from remedy.eval.config import EvalConfig
from remedy.eval.diagnostics import Condition
from remedy.eval.evaluate import run_condition
from remedy.eval.generators.speculative import LocalGenerator
from remedy.models.loading import load_checkpoint
from remedy.models.model_manifest import read_training
from remedy.models.reader import ModelReader
from remedy.models.tokenizer import build_tokenizer
from remedy.processes import Process
from remedy.settings import build
from remedy.train.config import RunConfig
from remedy.train.processes import TrainingStopped
from remedy.train.run import train
from remedy.train.tracking import read_metrics
from remedy.train.trainer import RowTrainer
from remedy.train.validation import Validation, validation_rows
from tests.train.launching import CONFIG

ALONE = Process(0, 0, 1)
RESTLESS = {
    "learning_rate": 3.0,
    "warmup_ratio": 1.0,  # it rises in all steps, soon too far on any processor
    "max_steps": 60,
    "evaluate_every": 2,
    "validation_examples": 20,
}
"""A run that soon gets worse again."""
PATIENT = {**RESTLESS, "keep_best": "loss", "patience": 2, "save_steps": 2, "save_total_limit": 2}


def settings(folder: Path, **changes: Any) -> RunConfig:
    return build(RunConfig, {**CONFIG, "output": str(folder), "train": {**CONFIG["train"], **changes}}, "run")


def validations(folder: Path) -> list[dict[str, Any]]:
    return [record for record in read_metrics(folder / "metrics.jsonl") if "eval_loss" in record]


def test_figures_are_those_of_one_token_after_another_and_of_the_validation_split() -> None:
    config = settings(Path("x"), evaluate_every=5, validation_examples=7, loss_roles=["state", "action"])
    tokenizer = build_tokenizer(config.tokenizer, config.data)
    rows = [row for rows in validation_rows(config, tokenizer) for row in rows]
    [other] = validation_rows(config.changed({"train.data_seed": 3}), tokenizer)[2]
    assert other.ids.tolist() == rows[2].ids.tolist()
    trained, held_out = ({e.identity for e in examples(config.data, s, range(50))} for s in ("train", "validation"))
    assert not trained & held_out

    torch.manual_seed(0)
    table = torch.randn(len(tokenizer.settings.kind) + tokenizer.vocab_size, tokenizer.vocab_size)
    # A model that knows what follows what in the first example, so that some parts are right.
    for before, after in zip(rows[0].ids.tolist(), rows[0].ids[1:].tolist()):
        table[before, after] += 5

    class Bigrams(torch.nn.Module):
        def forward(self, input_ids: torch.Tensor, **_: Any) -> Any:
            return type("Output", (), {"logits": table[input_ids]})

    wanted = {Role.STATE: [0.0, 0.0], Role.ACTION: [0.0, 0.0]}
    right: dict[tuple[int, Role, int], bool] = {}
    for number, row in enumerate(rows):
        for role, sums in wanted.items():
            places = [i for i in range(1, len(row.ids)) if row.roles[i] == role]
            logits, targets = table[row.ids[[i - 1 for i in places]]], torch.from_numpy(row.ids[places])
            sums[0] += float(cross_entropy(logits, targets, reduction="sum"))
            sums[1] += len(places)
            for place, hit in zip(places, (logits.argmax(-1) == targets).tolist()):
                part = (number, role, int(row.frames[place]))
                right[part] = right.get(part, True) and hit
    exact = [all(hit for (of, *_), hit in right.items() if of == number) for number in range(len(rows))]
    for size in (1, 3, 7):
        validation = Validation([[row] for row in rows], tokenizer.pad_id, config.train.supervised(), size)
        found = validation.metrics(Bigrams(), torch.device("cpu"), ALONE)  # type: ignore[arg-type]
        for role, (total, tokens) in wanted.items():
            assert found[f"loss_{role.label}"] == pytest.approx(total / tokens, rel=1e-5)
            hits = [hit for (_, of, _), hit in right.items() if of == role]
            assert 0 < sum(hits) < len(hits)
            assert found[f"right_{role.label}"] == pytest.approx(sum(hits) / len(hits))
        assert found["exact_match"] == pytest.approx(sum(exact) / 7)
        assert found["loss"] == pytest.approx(
            sum(total for total, _ in wanted.values()) / sum(tokens for _, tokens in wanted.values()), rel=1e-5
        )


def test_training_is_the_same_to_the_bit_with_validation_and_without(tmp_path: Path) -> None:
    plain, validated = train(settings(tmp_path / "a")), train(settings(tmp_path / "b", evaluate_every=5))
    assert (plain / "model.safetensors").read_bytes() == (validated / "model.safetensors").read_bytes()
    assert [record["step"] for record in validations(validated)] == [5, 10, 15, 20, 24]
    last, account = validations(validated)[-1], read_training(validated)
    assert account is not None
    curve = [(one["step"], one["eval_loss"], one["eval_exact_match"]) for one in validations(validated)]
    assert [tuple(point) for point in account["curve"]] == curve
    assert account["computed"]["all_logits"] is None
    assert "by PyTorch (no CUDA device)" in account["computed"]["mixers"]["deltanet"]
    assert account["validation"] == {k.removeprefix("eval_"): v for k, v in last.items() if k.startswith("eval_")}
    assert {key: account[key] for key in ("steps", "examples", "kept_step", "stopped_early", "learning_rate")} == {  # type: ignore[literal-required]
        "steps": 24,
        "examples": 192,
        "kept_step": 24,
        "stopped_early": False,
        "learning_rate": 1e-3,
    }
    other = read_training(plain)
    assert other is not None
    assert other["validation"] is None
    assert (other["tokens"], other["flops"]) == (account["tokens"], account["flops"])


@pytest.mark.parametrize("memory", [None, 1])
def test_an_exact_match_of_what_a_forcing_leaves_is_a_decoding_without_a_fault(
    memory: int | None, tmp_path: Path
) -> None:
    data = {
        **CONFIG["data"],
        "memory": memory,
        "context": False,
        "task": {**CONFIG["data"]["task"], "length": [1, 3], "distinct_values": True},
    }
    learnt = {"loss_roles": ["state"], "max_steps": 60, "learning_rate": 1e-2, "batch_size": 32, "threads": 1}
    run = {**CONFIG, "data": data, "model": {"mixers": ["deltanet"], "num_hidden_layers": 1, "hidden_size": 32}}
    checks = {"evaluate_every": 60, "validation_examples": 60}
    output = train(build(RunConfig, {**run, "output": str(tmp_path), "train": {**learnt, **checks}}, "run"))
    config = RunConfig.model_validate({**run, "train": learnt})
    condition = Condition(
        diagnostic="x", data=config.data, forcing="action_forced", examples=60, split="validation", own_labels={}
    )
    evaluation = EvalConfig.model_validate({"diagnostics": [{"kind": "permutation", "lengths": [3]}]})
    model, tokenizer = load_checkpoint(str(output))
    records, *_ = run_condition(LocalGenerator(ModelReader(model, "x"), tokenizer), tokenizer, condition, evaluation)
    faultless = sum(record["first_error_token"] == -1 for record in records) / 60
    assert validations(output)[-1]["eval_exact_match"] == pytest.approx(faultless)
    assert 0.05 < faultless < 0.999


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of which the best is kept, and which stops when it is out of patience."""
    return train(settings(tmp_path_factory.mktemp("whole"), **PATIENT))


def test_the_best_is_kept_and_a_run_out_of_patience_stops(whole: Path, tmp_path: Path) -> None:
    found = validations(whole)
    best = min(found, key=lambda record: record["eval_loss"])
    assert found[-1]["step"] == best["step"] + 4 < 60
    account = read_training(whole)
    assert account is not None
    assert (account["kept_step"], account["steps"], account["stopped_early"]) == (best["step"], found[-1]["step"], True)
    # The model that is kept is the one of that step: of a run of all its steps too, and of one that ends there by itself.
    endless = train(settings(tmp_path / "endless", keep_best="loss", **{**RESTLESS, "max_steps": found[-1]["step"]}))
    for output in (whole, endless):
        kept = load_file(output / f"checkpoint-{read_training(output)['kept_step']}" / "model.safetensors")  # type: ignore[index]
        assert all((kept[name] == value).all() for name, value in load_file(output / "model.safetensors").items())
    load_checkpoint(str(whole))  # sealed as what it is
    # Patience alone is of the loss too, and leaves the last model.
    last = read_training(train(settings(tmp_path / "last", patience=2, **RESTLESS)))
    assert last is not None
    assert (last["kept_step"], last["stopped_early"]) == (found[-1]["step"], True)


@pytest.mark.slow
@pytest.mark.parametrize("after", ["best", "last"])
def test_resumed_with_validation_all_is_the_same_to_the_bit(
    whole: Path, tmp_path: Path, after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = validations(whole)
    best = min(records, key=lambda record: record["eval_loss"])["step"]
    stop = {"best": best + 1, "last": records[-1]["step"]}[after]
    step = RowTrainer.training_step

    def signalled(self: RowTrainer, *args: Any, **kwargs: Any) -> torch.Tensor:
        if self.state.global_step + 1 == stop:
            os.kill(os.getpid(), signal.SIGTERM)
        return step(self, *args, **kwargs)

    config = settings(tmp_path / "resumed", **PATIENT)
    with monkeypatch.context() as patched:
        patched.setattr(RowTrainer, "training_step", signalled)
        with pytest.raises(TrainingStopped):
            train(config)
    resumed = train(config, resume=True)
    assert validations(resumed) == records
    assert (resumed / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert read_training(resumed) == read_training(whole)
