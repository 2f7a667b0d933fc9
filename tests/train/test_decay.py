"""Weight decay leaves decay rates, norms and biases alone, in the optimizer's groups and in what a run saves."""

from pathlib import Path
from typing import Any

from transformers import TrainingArguments

from remedy.models.mixers import MIXERS
from remedy.models.tokenizer import build_tokenizer
from remedy.settings import build
from remedy.train.config import RunConfig
from remedy.train.run import build_model
from remedy.train.trainer import RowTrainer

MIXED: dict[str, Any] = {"mixers": list(MIXERS), "num_hidden_layers": len(MIXERS), "qk_norm": True}
LEFT_ALONE = ("A_log", ".D", "bias", "norm", ".shift_", ".k_k", ".k_a", ".r_k")


def test_the_optimizers_groups(tmp_path: Path) -> None:
    config = build(
        RunConfig, {"data": {"task": {"kind": "permutation"}}, "tokenizer": {"kind": "chars"}, "model": MIXED}
    )
    tokenizer = build_tokenizer(config.tokenizer, config.data)
    model: Any = build_model(config, tokenizer)
    arguments = TrainingArguments(output_dir=str(tmp_path), weight_decay=0.3, use_cpu=True, report_to=[])
    groups = RowTrainer(config, tokenizer, model=model, args=arguments).create_optimizer().param_groups
    decay = {id(p): group["weight_decay"] for group in groups for p in group["params"]}
    for name, parameter in model.named_parameters():
        alone = any(part in name for part in LEFT_ALONE)
        assert decay[id(parameter)] == (0.0 if alone else 0.3), name
        assert alone or parameter.ndim >= 2, name
