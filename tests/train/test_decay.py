"""Weight decay leaves decay rates, norms and biases alone, in the optimizer's groups and in what a run saves."""

from pathlib import Path
from typing import Any

from transformers import TrainingArguments

from remedy.models.config import DecoderSettings
from remedy.models.decoder import DecoderForCausalLM
from remedy.models.decoder_config import DecoderConfig
from remedy.models.mixers import MIXERS
from remedy.train.trainer import RowTrainer

MIXED: dict[str, Any] = {"mixers": list(MIXERS), "num_hidden_layers": len(MIXERS), "qk_norm": True}
LEFT_ALONE = ("A_log", ".D", "bias", "norm", ".shift_", ".k_k", ".k_a", ".r_k")


def test_the_optimizers_groups(tmp_path: Path) -> None:
    config = DecoderConfig.from_settings(DecoderSettings.model_validate(MIXED), 20)
    model = DecoderForCausalLM(config)
    arguments = TrainingArguments(output_dir=str(tmp_path), weight_decay=0.3, use_cpu=True, report_to=[])
    groups = RowTrainer(model=model, args=arguments).create_optimizer().param_groups
    decay = {id(p): group["weight_decay"] for group in groups for p in group["params"]}
    for name, parameter in model.named_parameters():
        alone = any(part in name for part in LEFT_ALONE)
        assert decay[id(parameter)] == (0.0 if alone else 0.3), name
        assert alone or parameter.ndim >= 2, name
