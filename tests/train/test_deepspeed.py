"""DeepSpeed's JSON: made from our settings whole, or from a hand-written file that must agree with them."""

import json
from pathlib import Path
from typing import Any

import pytest

from remedy.settings import ConfigError, build
from remedy.train.config import TrainSettings
from remedy.train.deepspeed import deepspeed_json, zero_stage


def settings(tmp_path: Path | None = None, file: dict[str, Any] | None = None, **changes: Any) -> TrainSettings:
    section = dict(changes.pop("deepspeed", {}))
    if file is not None and tmp_path is not None:
        path = tmp_path / "hand.json"
        path.write_text(json.dumps(file))
        section["file"] = str(path)
    return build(
        TrainSettings, {"batch_size": 64, "gradient_accumulation_steps": 2, **changes, "deepspeed": section}, "train"
    )


def test_the_json_says_everything_of_the_typed_settings_and_leaves_nothing_open() -> None:
    config = settings(
        precision="bf16", max_grad_norm=0.5, deepspeed={"stage": 3, "offload": "all", "param_persistence_threshold": 7}
    )
    made = deepspeed_json(config, world=4)
    assert made["train_batch_size"] == 64
    assert made["train_micro_batch_size_per_gpu"] == 8
    assert made["gradient_accumulation_steps"] == 2
    assert made["gradient_clipping"] == 0.5
    assert made["bf16"] == {"enabled": True}
    assert made["fp16"] == {"enabled": False}
    zero = made["zero_optimization"]
    assert zero["stage"] == 3
    assert zero["offload_optimizer"]["device"] == zero["offload_param"]["device"] == "cpu"
    assert zero["stage3_param_persistence_threshold"] == 7
    assert zero["stage3_gather_16bit_weights_on_model_save"] is True
    assert "auto" not in json.dumps(made)
    assert deepspeed_json(settings(), 1)["zero_optimization"]["stage"] == 1


def test_a_hand_written_file_is_kept_where_it_agrees_or_says_nothing(tmp_path: Path) -> None:
    file = {
        "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": 2,
        "zero_optimization": {"stage": 2, "reduce_bucket_size": 123, "offload_optimizer": {"device": "nvme"}},
        "wall_clock_breakdown": True,
    }
    config = settings(tmp_path, file)
    made = deepspeed_json(config, 4)
    assert made["zero_optimization"]["stage"] == zero_stage(config) == 2
    assert made["zero_optimization"]["reduce_bucket_size"] == 123
    assert made["zero_optimization"]["offload_optimizer"] == {"device": "nvme"}
    assert made["wall_clock_breakdown"] is True
    assert made["train_micro_batch_size_per_gpu"] == 8


@pytest.mark.parametrize(
    ("file", "changes", "says"),
    [
        ({"gradient_clipping": 5}, {}, "gradient_clipping is 5, but train.max_grad_norm gives 1.0"),
        ({"bf16": {"enabled": True}}, {}, "bf16.enabled is true, but train.precision gives false"),
        ({"train_batch_size": 8}, {}, "train_batch_size is 8, but train.batch_size gives 64"),
        (
            {"zero_optimization": {"stage": 2}},
            {"deepspeed": {"stage": 3}},
            "zero_optimization.stage is 2, but train.deepspeed.stage gives 3",
        ),
        (
            {"zero_optimization": {"offload_param": {"device": "cpu"}}},
            {"deepspeed": {"offload": "none"}},
            "zero_optimization.offload_param is set, but train.deepspeed.offload says not to",
        ),
        ({"optimizer": {"type": "AdamW"}}, {}, "`optimizer` is set by train.learning_rate"),
        ({"scheduler": {"type": "WarmupLR"}}, {}, "`scheduler` is set by train.lr_scheduler_type"),
    ],
)
def test_a_contradiction_is_an_error_that_names_both_sides(
    file: dict[str, Any], changes: dict[str, Any], says: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as failed:
        deepspeed_json(settings(tmp_path, file, **changes), 4)
    assert says in str(failed.value)
    assert "hand.json" in str(failed.value)


def test_a_file_that_cannot_be_read_and_a_stage_that_trains_otherwise_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        deepspeed_json(settings(deepspeed={"file": str(tmp_path / "none.json")}), 1)
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(ConfigError, match="not valid JSON"):
        deepspeed_json(settings(deepspeed={"file": str(tmp_path / "bad.json")}), 1)
    with pytest.raises(ConfigError, match="stage 0 with bf16 uses a different optimizer path"):
        settings(precision="bf16", deepspeed={"stage": 0})
    with pytest.raises(ConfigError, match=r"unknown key 'deepspeed\.satge'; did you mean 'stage'"):
        settings(deepspeed={"satge": 1})
