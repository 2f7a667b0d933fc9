"""DeepSpeed's JSON: made from our settings whole, or from a hand-written file that must agree with them."""

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import TrainingArguments

from remedy.settings import ConfigError, build
from remedy.train import arguments
from remedy.train.arguments import training_arguments, zero_stage
from remedy.train.config import RunConfig
from tests.train.launching import CONFIG


def run(tmp_path: Path, file: dict[str, Any] | None = None, **section: Any) -> RunConfig:
    if file is not None:
        (tmp_path / "hand.json").write_text(json.dumps(file))
        section["file"] = str(tmp_path / "hand.json")
    train = {**CONFIG["train"], "batch_size": 64, "micro_batch_size": 32, "deepspeed": section}
    return build(RunConfig, {**CONFIG, "output": str(tmp_path / "run"), "train": train})


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What a run of one process hands on to DeepSpeed."""
    pytest.importorskip("deepspeed")
    monkeypatch.setattr(arguments, "join", lambda on_cpu: None)
    for name, value in (("device", None), ("world_size", 1), ("n_gpu", 0)):  # no process group is made
        monkeypatch.setattr(TrainingArguments, name, value)
    return lambda config: training_arguments(config, 1).hf_deepspeed_config.config


def test_a_hand_written_file_is_kept_where_it_agrees_or_says_nothing(made: Any, tmp_path: Path) -> None:
    zero = {"stage": 2, "reduce_bucket_size": 123, "offload_optimizer": {"device": "nvme"}}
    file = {"gradient_accumulation_steps": 2, "zero_optimization": zero, "wall_clock_breakdown": True}
    config = run(tmp_path, file)
    found = made(config)
    assert zero.items() <= found["zero_optimization"].items()
    assert found["wall_clock_breakdown"] is True
    assert found["train_micro_batch_size_per_gpu"] == 32
    assert zero_stage(config.train) == 2


@pytest.mark.parametrize(
    ("file", "says"),
    [
        ({"gradient_clipping": 5}, "gradient_clipping=5, but train's max_grad_norm=1.0"),
        ({"train_batch_size": 8}, "train_batch_size=8, but train's train_batch_size (calculated)=64"),
        ({"zero_optimization": None}, "must be a mapping, and so must its `zero_optimization`"),
        ({"optimizer": {"type": "AdamW"}}, "`optimizer` is set by train.optim, learning_rate"),
    ],
)
def test_a_contradiction_is_an_error_that_names_both_sides(
    file: dict[str, Any], says: str, made: Any, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as failed:
        made(run(tmp_path, file))
    assert says in str(failed.value)
    assert "hand.json" in str(failed.value)
