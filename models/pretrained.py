"""Pretrained models: loading, fitting to a tokenizer, adapters and their merging."""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from transformers import PreTrainedModel

from remedy.messages import install, suggest
from remedy.models.config import LoraSettings, PretrainedSettings
from remedy.models.decoder_config import DecoderConfig
from remedy.models.hub_loading import (
    cannot_load,
    no_larger_than_its_files,
    read,
    read_model,
    refuse_pickles,
    refuse_vast,
)
from remedy.models.model_manifest import ADAPTER_FILE
from remedy.models.protocol import CausalLM
from remedy.models.tokenizer import TraceTokenizer
from remedy.processes import this_process
from remedy.settings import UserError, read_stored

if TYPE_CHECKING:
    from peft import PeftConfig, PeftModel

log = logging.getLogger(__name__)
NO_CHOICE = {"_from_model_config", "use_cache", "output_attentions", "output_hidden_states"}
"""Entries of a generation configuration that do not affect which tokens are generated."""
FUSED_OUTPUT = frozenset({"mamba", "mamba2", "falcon_mamba", "falcon_h1", "nemotron_h"})
"""Architectures whose kernels bypass an adapter of `out_proj`, so that PEFT refuses one (peft.tuners.tuners_utils)."""


def build_pretrained(
    config: PretrainedSettings, tokenizer: TraceTokenizer, dtype: torch.dtype, sharded: bool
) -> CausalLM:
    """Load the model to train. `sharded`: ZeRO-3 divides its weights over processes.

    With LoRA, frozen weights are in `dtype` and adapters in float32; otherwise all weights are in float32.

    Raises:
        UserError: the model cannot be loaded, or the settings do not work here.
    """
    if config.load_in_4bit and sharded:  # a limit of Transformers
        raise UserError(
            "model.load_in_4bit: ZeRO-3 cannot divide weights in 4 bits over processes: set train.deepspeed.stage to 2, or "
            "train.deepspeed to null"
        )
    if (Path(config.name_or_path) / ADAPTER_FILE).exists():
        raise UserError(
            f"model.name_or_path: {config.name_or_path} holds adapters alone; `remedy merge` makes a model of them to go on from"
        )
    if config.load_in_4bit and not torch.cuda.is_available():
        raise UserError("model.load_in_4bit needs a CUDA device: remove it, or run where there is one")
    options: dict[str, Any] = {"dtype": dtype if config.lora else torch.float32}
    if config.load_in_4bit:
        options = four_bit_options(dtype, f"cuda:{this_process().local_rank}")
    model = read_model(config.name_or_path, cannot_load("model", config.name_or_path, "its name"), **options)
    if isinstance(model.config, DecoderConfig) and model.config.tokenizer_fingerprint != tokenizer.fingerprint:
        raise UserError(
            f"model.name_or_path: {config.name_or_path} was trained with another tokenizer than this run's `tokenizer` section"
        )
    dropped = ", ".join(fit_tokenizer(model, tokenizer))
    if dropped and this_process().is_main:
        log.info("%s: its generation settings are left out, for traces are greedy: %s", config.name_or_path, dropped)
    return add_adapters(model, config, tokenizer.new_ids, sharded) if config.lora else model


def fit_tokenizer(model: PreTrainedModel, tokenizer: TraceTokenizer) -> list[str]:
    """Give the model an embedding per token, and the traces' special ids.

    New embeddings are drawn from a fixed seed, since untrained ones are in no file. Returns the names of its generation settings, which
    are dropped: a limit of tokens would cut traces, and Transformers refuses to save unused ones.
    """
    table: Any = model.get_input_embeddings()
    if tokenizer.vocab_size > table.num_embeddings:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model.resize_token_embeddings(tokenizer.vocab_size)
    ids = {"bos_token_id": tokenizer.bos_id, "eos_token_id": tokenizer.eos_id, "pad_token_id": tokenizer.pad_id}
    for settings in (model.config, model.config.get_text_config(decoder=True)):
        for name, token in ids.items():
            setattr(settings, name, token)
    if (generation := model.generation_config) is None:
        return []
    model.generation_config = type(generation)(**ids)
    return sorted(generation.to_diff_dict().keys() - model.generation_config.to_diff_dict().keys() - NO_CHOICE)


def add_adapters(model: PreTrainedModel, config: PretrainedSettings, new_ids: list[int], sharded: bool) -> CausalLM:
    """Freeze all weights, and add LoRA adapters and, with new tokens, trainable embeddings.

    Raises:
        UserError: `target_modules` names no layer or one that PEFT refuses, or ZeRO-3 prevents training new rows.
    """
    import peft

    lora = config.lora
    assert lora is not None
    if new_ids and sharded and lora.embeddings == "new":
        raise UserError(
            f"model.lora.embeddings: {len(new_ids)} trace tokens are new to {config.name_or_path}, and under ZeRO-3 single "
            "rows cannot be trained; set it to `all`, or use stage 2"
        )
    tables = _tables(model)
    options: dict[str, Any] = {}
    if lora.embeddings == "all":
        options["modules_to_save"] = tables
    elif new_ids:
        options["trainable_token_indices"] = dict.fromkeys(tables, new_ids)
    if config.load_in_4bit:
        model = peft.prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
    if lora.target_modules == "all-linear" and model.config.model_type in FUSED_OUTPUT:
        options["exclude_modules"] = ["out_proj"]
    settings = peft.LoraConfig(
        r=lora.r,
        lora_alpha=lora.lora_alpha,  # type: ignore[arg-type]
        lora_dropout=lora.lora_dropout,
        target_modules=lora.target_modules if isinstance(lora.target_modules, str) else _known_targets(model, lora),
        task_type="CAUSAL_LM",
        **options,
    )
    try:
        adapted = peft.get_peft_model(model, settings)
    except ValueError as error:
        raise UserError(f"model.lora: {' '.join(str(error).split())}") from None
    # PEFT would save the whole resized table beside its new rows.
    adapted.save_pretrained = functools.partial(  # type: ignore[method-assign]
        adapted.save_pretrained, save_embedding_layers=False
    )
    return adapted


def load_adapted(
    folder: Path,
    tokenizer: TraceTokenizer,
    dtype: torch.dtype | str = "auto",
    options: Mapping[str, Any] | None = None,
) -> PreTrainedModel:
    """Load the base model of a LoRA run with its adapters merged.

    `options`: of Transformers' loader. With `four_bit_options` adapters stay unmerged, in full precision.

    Raises:
        UserError: the base model or the adapters cannot be read.
    """
    import peft

    what = f"checkpoint {folder}: adapters cannot be read"
    refuse_pickles(folder, what)
    if not (folder / "adapter_model.safetensors").is_file():  # PEFT would unpickle another file
        raise UserError(f"{what} (adapter_model.safetensors is missing)")
    name = str(adapter_settings(folder).base_model_name_or_path)
    model = read_model(name, cannot_load("model", name, "its name"), **{"dtype": dtype, **(options or {})})
    fit_tokenizer(model, tokenizer)
    with no_larger_than_its_files(str(folder)):
        adapted = read(what, lambda: peft.PeftModel.from_pretrained(model, str(folder)))
    return unmerged(adapted) if is_in_4bit(model) else read(what, adapted.merge_and_unload)


def unmerged(adapted: PeftModel) -> PreTrainedModel:
    """Return the model with unmerged adapters in its layers.

    Trained rows and tables replace the model's own, in full precision.
    """
    from peft.utils.other import AuxiliaryTrainingWrapper

    model: Any = adapted.get_base_model()
    for name, module in list(model.named_modules()):
        if isinstance(module, AuxiliaryTrainingWrapper):
            parent, _, leaf = name.rpartition(".")
            trained = module.unload_and_optionally_merge_module(merge=True, safe_merge=False, adapter_names=None)
            setattr(model.get_submodule(parent), leaf, trained)
    return model  # type: ignore[no-any-return]


def adapter_settings(folder: Path) -> PeftConfig:
    """Read PEFT's settings of a run's adapters, with the base model's name.

    Raises:
        UserError: they cannot be read.
    """
    import peft

    refuse_vast(str(folder))
    what = f"checkpoint {folder}: {ADAPTER_FILE} cannot be read"
    settings: PeftConfig = read(what, lambda: peft.PeftConfig.from_pretrained(str(folder)))
    # Our runs name layers. A pattern may be a regular expression that takes forever.
    if (
        not isinstance(settings, peft.LoraConfig)
        or (settings.rank_pattern or settings.alpha_pattern)
        or any(isinstance(names, str) for names in (settings.target_modules, settings.exclude_modules))
    ):
        raise UserError(f"{what} (these are no adapters of `model.lora`, or choose layers by a pattern)")
    return settings


def trained_in_4bit(folder: Path) -> bool:
    """Say if a run trained its adapters on 4-bit weights."""
    stored = folder / "config.yaml"
    model = read_stored(stored).get("model") if stored.exists() else None
    return isinstance(model, dict) and model.get("load_in_4bit") is True


def is_in_4bit(model: CausalLM) -> bool:
    return bool(getattr(model, "is_loaded_in_4bit", False))


def _tables(model: PreTrainedModel) -> list[str]:
    inner, outer = model.get_input_embeddings(), model.get_output_embeddings()
    tied = outer is None or outer.weight is inner.weight
    wanted = [inner] if tied else [inner, outer]
    names = {id(module): name for name, module in model.named_modules()}
    return [names[id(module)].rsplit(".", 1)[-1] for module in wanted]


def _known_targets(model: PreTrainedModel, lora: LoraSettings) -> list[str]:
    linear = sorted(
        {name.rsplit(".", 1)[-1] for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    )
    for target in lora.target_modules:
        if target not in linear:
            raise UserError(
                f"model.lora.target_modules: no linear layer is called {target!r}; {suggest(target, linear)}"
            )
    return list(lora.target_modules)


def four_bit_options(dtype: torch.dtype | str, device: str) -> dict[str, Any]:
    """Return the loader's options for NF4 with doubly quantised scales (Dettmers et al., 2023).

    `device`: a device, or `auto` for all.

    Raises:
        UserError: bitsandbytes is not installed.
    """
    try:
        import bitsandbytes  # noqa: F401
    except ImportError:
        raise UserError(f"load_in_4bit: weights in 4 bits need bitsandbytes: {install('gpu')}") from None
    from transformers import BitsAndBytesConfig

    compute_dtype = torch.bfloat16 if isinstance(dtype, str) else dtype
    quantised = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=compute_dtype,
    )
    return {
        "quantization_config": quantised,
        "device_map": device if device == "auto" else {"": device},
        "dtype": compute_dtype,
    }
