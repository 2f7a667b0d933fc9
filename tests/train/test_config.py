"""Training settings: stages and their scaling, and that each setting does something wherever it is accepted."""

import copy
import json
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import Trainer, TrainerState

from remedy.settings import ConfigError, Settings, UserError, apply_changes, build, load
from remedy.train import arguments, run
from remedy.train.checkpoints import Checkpoints
from remedy.train.config import RunConfig, Stage, TrackingSettings, TrainSettings
from remedy.train.division import DeepSpeedSettings, FsdpSettings, describe_step, passes
from remedy.train.tracking import Tracking
from remedy.train.trainer import RowTrainer

ROOT = Path(__file__).parents[2]
TINY: dict[str, Any] = {
    "data": {"task": {"kind": "permutation", "n": 3, "moves": "swaps", "length": 4}, "format": "symbolic"},
    "tokenizer": {"kind": "symbols"},
    "model": {"mixers": ["attention"], "num_hidden_layers": 1, "hidden_size": 8, "num_attention_heads": 1},
    "tracking": {"report_to": []},
}


def tiny(**changes: Any) -> RunConfig:
    return build(RunConfig, apply_changes(TINY, {key.replace("__", "."): value for key, value in changes.items()}))


lengths = st.lists(st.integers(1, 40), min_size=1, max_size=6)


@given(lengths, st.integers(0, 300))
def test_stages_keep_their_proportions_in_any_number_of_steps(steps: list[int], more: int) -> None:
    total = len(steps) + more
    settings = TrainSettings(max_steps=total, curriculum=tuple(Stage(steps=n) for n in steps))
    ends = settings.stage_ends()
    sizes = [end - start for start, end in zip([0, *ends], ends)]
    assert ends[-1] == settings.total_steps == total
    assert min(sizes) >= 1
    assert len(sizes) == len(steps)
    exact = [sum(steps[: i + 1]) * total / sum(steps) for i in range(len(steps))]
    if min(steps) * total >= sum(steps):  # every stage is a step or more: no end is further off than rounding
        assert all(abs(end - at) <= 1 for end, at in zip(ends, exact))
    if total == sum(steps):
        assert sizes == steps


@pytest.mark.parametrize(
    ("nodes", "parts"),
    [(1, "8 passes x 1 row"), (2, "4 passes x 1 row"), (4, "2 passes x 1 row"), (8, "1 pass x 1 row")],
)
def test_the_shipped_recipe_divides_over_machines_of_eight_gpus(nodes: int, parts: str) -> None:
    settings = load(RunConfig, ROOT / "configs/train/cwm_lora.yaml").train
    sizes = settings.batch_size, settings.micro_batch_size
    assert describe_step(*sizes, 8 * nodes) == f"64 rows: {8 * nodes} processes x {parts}"
    with pytest.raises(
        UserError, match=r"not a multiple of 24 processes x train.micro_batch_size \(1\); choose a multiple of 24"
    ):
        passes(*sizes, 24)


def test_a_stage_changes_anything_of_the_data_and_a_wrong_change_is_named() -> None:
    stages = [{"steps": 1, "set": {"task": {"kind": "permutation", "n": 4}}}, {"steps": 1, "set": {"seed": 3}}]
    first, second = tiny(train__curriculum=stages).stage_data()
    assert (first.task.model_dump()["n"], second.seed) == (4, 3)
    with pytest.raises(ConfigError, match=r"train\.curriculum\.0\.set: unknown key 'task\.lenght'"):
        tiny(train__curriculum=[{"steps": 1, "set": {"task.lenght": 4}}])


class Recorded(Exception):
    """Ends `train` where training would begin."""


@pytest.fixture
def observed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[RunConfig], dict[str, Any]]:
    """What a run hands on to those who train, log and save, up to the first step."""
    seen: dict[str, Any] = {}

    class Recording(RowTrainer):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            rows: Any = self.train_dataset
            for callback in named["callbacks"]:
                if isinstance(callback, Tracking):
                    callback.on_train_begin(None, TrainerState(), None)
            seen.update(
                arguments={k: v for k, v in vars(named["args"]).items() if k != "output_dir"},
                rows=[len(rows), *(rows[i].ids.tolist() for i in (0, len(rows) - 1))],
                roles=self.data_collator.roles.tolist(),  # type: ignore[attr-defined]
                weights=str(self.data_collator.weights),  # type: ignore[attr-defined]
                kept=[one.config.train.save_total_limit for one in named["callbacks"] if isinstance(one, Checkpoints)],
                names=[callback.name for callback in named["callbacks"] if hasattr(callback, "name")],
                peak=self.peak,
                validation=self.validation and len(self.validation.rows),
                patience=self.patience,
                smoothing=self.head and self.head.smoothing,
            )
            raise Recorded

    def wandb_init(**given: Any) -> Any:
        seen["wandb"] = {key: value for key, value in given.items() if key not in ("config", "id", "dir", "mode")}

    fake = SimpleNamespace(init=wandb_init, login=lambda **given: False, __spec__=ModuleSpec("wandb", None))
    monkeypatch.setitem(sys.modules, "wandb", fake)
    monkeypatch.setattr(torch, "set_num_threads", lambda threads: seen.update(threads=threads))
    monkeypatch.setattr(run, "RowTrainer", Recording)
    monkeypatch.setattr(Trainer, "__init__", lambda self, **given: vars(self).update(given))
    monkeypatch.setattr(Trainer, "remove_callback", lambda *_: None)
    monkeypatch.setattr(arguments, "join", lambda on_cpu: None)
    monkeypatch.setattr(arguments, "check_fsdp", lambda on_cpu, world_size: None)
    monkeypatch.setattr(
        arguments,
        "TrainingArguments",
        lambda **given: SimpleNamespace(
            world_size=1,
            n_gpu=0,
            device=torch.device("cpu"),
            optim_args=None,
            adam_beta1=0.9,
            adam_epsilon=1e-8,
            hf_deepspeed_config=SimpleNamespace(mismatches=[], config={}),
            **given,
        ),
    )

    def observe(config: RunConfig) -> dict[str, Any]:
        seen.clear()
        runs = config.runs()
        with pytest.raises(Recorded):
            run.train(runs[0].changed({"output": str(tmp_path / "run")}))
        return copy.deepcopy(seen) | {"runs": [(one.train.seed, one.train.data_seed) for one in runs]}

    return observe


STAGES = [{"steps": 2, "set": {"task.length": 2}}, {"steps": 3, "set": {"task.length": 3}}]
BASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "curriculum": {"train.curriculum": STAGES},
    "mixture": {"mixture": {"short": {"set": {"task.length": 2}}, "long": {"set": {"task.length": 9}}}},
    "zero 0": {"train.deepspeed": {"stage": 0}},
    "zero 2": {"train.deepspeed": {"stage": 2}},
    "zero 3": {"train.deepspeed": {"stage": 3}},
    "validated": {"train.evaluate_every": 2},
    "the best kept": {"train.evaluate_every": 2, "train.keep_best": "loss"},
    "tracked": {"tracking.report_to": ["wandb"]},
}
OTHER: dict[type[Settings], dict[str, Any]] = {
    TrainSettings: {
        "max_steps": 17,
        "curriculum": [{"steps": 4, "set": {"task.length": 5}}, {"steps": 4, "set": {"task.length": 6}}],
        "batch_size": 6, "micro_batch_size": 2, "loss_roles": ["state"], "loss_weights": {"state": 4},
        "pack": 3, "learning_rate": 0.5, "lr_scheduler_type": "linear", "min_lr_ratio": 0.2, "warmup_ratio": 0.5,
        "weight_decay": 0.5, "label_smoothing_factor": 0.1, "max_grad_norm": 0.5, "adam_beta2": 0.5, "optim": "sgd",
        "precision": "bf16", "gradient_checkpointing": True, "torch_compile": True, "deepspeed": {"stage": 1}, "fsdp": {},
        "dataloader_num_workers": 1, "logging_steps": 3, "save_steps": 3, "save_total_limit": 3, "seed": 3,
        "data_seed": 3, "evaluate_every": 3, "validation_examples": 9, "keep_best": "exact_match", "patience": 3,
        "threads": 3, "stacked": 3,
    },
    FsdpSettings: {"reshard": False, "offload": True},
    DeepSpeedSettings: {"stage": 1, "offload": "optimizer", "param_persistence_threshold": 7, "file": "hand.json"},
    TrackingSettings: {"report_to": ["wandb", "tensorboard"], "project": "p", "group": "g", "tags": ["t"], "peak_tflops": 3.0},
}  # fmt: skip
WHERE = {
    TrainSettings: "train",
    DeepSpeedSettings: "train.deepspeed",
    FsdpSettings: "train.fsdp",
    TrackingSettings: "tracking",
}
REFUSALS = ("does nothing", "different optimizer path", "does not go with", "both divide a run")


def attempt(config: RunConfig, path: str, value: Any) -> tuple[str, RunConfig | None]:
    """Why a change is refused, or the changed configuration."""
    try:
        return "", config.changed({path: value})
    except ConfigError as error:
        return str(error), None


@pytest.mark.parametrize("settings", OTHER, ids=lambda s: s.__name__)
def test_every_setting_does_something_wherever_it_is_accepted(
    settings: type[Settings], observed: Callable[[RunConfig], dict[str, Any]], tmp_path: Path
) -> None:
    assert set(OTHER[settings]) == set(settings.model_fields)
    (tmp_path / "hand.json").write_text(json.dumps({"wall_clock_breakdown": True}))
    acted = set()
    for base, changes in BASES.items():
        config = build(RunConfig, apply_changes(TINY, changes))
        before = observed(config)
        for key, value in OTHER[settings].items():
            value = str(tmp_path / value) if key == "file" else value
            path = f"{WHERE[settings]}.{key}"
            if config.model_dump() == apply_changes(config.model_dump(), {path: value}):
                continue  # it has this value
            refused, changed = attempt(config, path, value)
            if changed is None:
                assert any(words in refused for words in REFUSALS), (base, path, refused)
                continue
            assert observed(changed) != before, (base, path)
            acted.add(key)
    assert acted == set(settings.model_fields)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"tracking.group": "g"}, "tracking: group g does nothing without wandb in report_to: remove it"),
        ({"train.loss_weights": {"value": 1}}, "loss_weights.value 1 does nothing, which all have: remove it"),
        ({"train.loss_roles": ["state"], "train.loss_weights": {"value": 4}}, "since value is not in loss_roles"),
        ({"train.loss_roles": ["state"], "train.loss_weights": {"state": 4}}, "does nothing where all loss_roles"),
        ({"train.deepspeed": {"offload": "all"}}, "offload all does nothing more than optimizer at stage 1"),
        ({"train.patience": 3}, "patience 3 does nothing without evaluate_every: remove it"),
        ({"train.stacked": 2, "train.deepspeed": {}}, "stacked 2 does not go with deepspeed"),
        ({"train.stacked": 2, "train.optim": "adafactor"}, "stacked 2 does not go with optim: its steps may mix"),
        ({"train.optim": "adamv"}, "optim: Transformers has no optimizer 'adamv'; AdamW is the default; did you mean"),
        ({"train.stacked": 2, "train.max_steps": 0}, "does not go with max_steps 0"),
        ({"train.stacked": 2, "model": {"kind": "pretrained", "name_or_path": "some/model"}}, "not pretrained models"),
        (
            {"train.curriculum": STAGES, "mixture": {"a": {"set": {"task.length": 9}}}},
            "0.set does nothing, since every",
        ),
    ],
)
def test_what_would_do_nothing_is_refused_with_a_sentence(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        build(RunConfig, apply_changes(TINY, changes))
    assert says in str(refused.value)


def test_what_writes_lines_learns_events_where_a_format_has_them() -> None:
    roles = ["state", "action", "structure"]
    tiny(train__loss_roles=roles)  # the symbolic format has no events
    with pytest.raises(ConfigError, match="structure and action without event"):
        tiny(data__format="cwm", tokenizer={"kind": "chars"}, train__loss_roles=roles)
    tiny(data__format="cwm", tokenizer={"kind": "chars"}, train__loss_roles=[*roles, "event"])


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"train.optim": "lomo"}, "train.optim lomo cannot be used here: "),
        ({"train.optim": "galore_adamw"}, "train.optim galore_adamw cannot be used here: "),
        ({"train.optim": "sgd", "train.adam_beta2": 0.9}, "train.adam_beta2 0.9 does nothing with train.optim sgd"),
    ],
)
def test_an_optimizer_that_cannot_be_made_or_ignores_a_setting_is_an_error(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError) as refused:
        arguments.training_arguments(build(RunConfig, apply_changes(TINY, changes)), 1)
    assert says in str(refused.value)
