"""`remedy plan`: what a training run needs of memory and time. No weights are read, and nothing is trained."""

from __future__ import annotations

import logging
import math
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from transformers import AutoConfig, AutoModelForCausalLM

from remedy.models.config import DecoderSettings, PretrainedSettings
from remedy.models.context_length import context_limit, refuse_longer
from remedy.models.flops import token_cost, training_flops
from remedy.models.hub_loading import read, read_config
from remedy.models.pretrained import add_adapters, refuse_divided
from remedy.models.protocol import CausalLM
from remedy.models.tokenizer import TraceTokenizer, build_tokenizer
from remedy.models.tokenizer_backends import CharacterSettings, TokenizerError
from remedy.settings import ConfigError
from remedy.speed import duration
from remedy.train.arguments import rows_at_once, zero_section
from remedy.train.config import RunConfig
from remedy.train.data import parted
from remedy.train.memory import (
    ModelStates,
    ParameterCounts,
    activations,
    loss_bytes,
    model_states,
    parameter_counts,
)
from remedy.train.run import DTYPES, build_model, build_rows

SAMPLE = 24
"""Rows that are made to count their tokens, at even distances over the run."""
RESERVE = 0.1
"""Share of a GPU's memory that is left for what is not counted: CUDA's context, kernels' work space, DeepSpeed's and NCCL's buffers,
fragments."""
GB = 1e9
SMOLLM2 = {
    "vocab_size": 49152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
}
SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "facebook/cwm": ("cwm", {}),
    "HuggingFaceTB/SmolLM2-135M-Instruct": ("llama", SMOLLM2),
    "pretrained/smollm2": ("llama", SMOLLM2),
    "pretrained/smollm2-cruxeval": ("llama", SMOLLM2),
}
"""Models of the shipped configurations, by architecture and what of it is not Transformers' default; no hub is asked for them."""
CHARACTERS = 2.2
"""Characters of a token where a tokenizer is not here: as traces of CruxEval have in Llama-3's vocabulary."""


class Lengths(NamedTuple):
    """Tokens of a row: on average, and of the longest; of how many drawn rows, 0 where the length was given; and of each example of
    these rows. `guessed`: from characters."""

    mean: float
    longest: int
    drawn: int
    examples: list[float]
    guessed: bool = False


class Footprint(NamedTuple):
    """Bytes that one GPU holds, and operations of the whole run."""

    counts: ParameterCounts
    states: ModelStates
    activations: float
    logits: float
    rows: int
    lengths: Lengths
    steps: int
    tokens: float
    flops: float
    mixing: bool
    """Whether these operations hold what mixing tokens takes: not of all architectures that is known."""

    @property
    def memory(self) -> float:
        """Bytes on one GPU."""
        return sum(self.states._replace(host=0.0)) + self.activations + self.logits


def footprint(config: RunConfig, gpus: int, length: int | None = None) -> Footprint:
    """Return what a run needs on so many GPUs. `length`: tokens of a row, in place of those of drawn rows.

    Raises:
        UserError: the batch cannot be divided, the tokenizer or a pretrained model's config.json cannot be read, an example is longer
            than the model's table of positions, or an architecture does not run on shapes alone.
    """
    settings = config.train
    rows = rows_at_once(settings, gpus)
    tokenizer, characters = _tokenizer(config)
    if settings.stacked is not None:
        raise ConfigError(
            f"train.stacked {settings.stacked}: what is planned here is one run: add train.stacked=null, and take so many times as much"
        )
    if length is None:
        lengths = _lengths(config, tokenizer, characters)
    else:  # rows of one length, whose examples are alike
        lengths = Lengths(length, length, 0, [length / settings.pack] * settings.pack)
    lora = isinstance(config.model, PretrainedSettings) and config.model.lora is not None
    four_bit = isinstance(config.model, PretrainedSettings) and config.model.load_in_4bit
    with torch.device("meta"):
        model = _unread(config, tokenizer)
    refuse_longer(context_limit(model), max(lengths.examples))
    counts = parameter_counts(model)
    flops = training_flops(model, settings.gradient_checkpointing).of(lengths.examples) / max(1, lengths.drawn)
    head: Any = model.get_output_embeddings()
    vocabulary, size = int(model.config.get_text_config().vocab_size), 4 if settings.precision == "fp32" else 2
    positions, accumulated = rows * lengths.longest, settings.gradient_accumulation_steps > 1
    all_rows = settings.total_steps * settings.batch_size
    return Footprint(
        counts,
        model_states(counts, settings, gpus, lora, four_bit),
        _held(config, model, rows, lengths.longest, counts.trained),
        loss_bytes(positions, vocabulary, head, size, accumulated),
        rows,
        lengths,
        settings.total_steps,
        all_rows * lengths.mean,
        all_rows * flops,
        token_cost(model) is not None,
    )


def print_footprint(
    config: RunConfig,
    gpus: int,
    gpu_memory: float,
    tflops: float | None,
    utilisation: float,
    length: int | None = None,
    console: Console | None = None,
) -> None:
    """Print what a run needs. `gpu_memory`: of one GPU, in GB (10^9 bytes); `tflops`: its peak in the run's precision.

    Raises:
        UserError: as `footprint`.
    """
    console = console or Console()
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"torch|transformers|peft")  # as in training
    found = footprint(config, gpus, length)
    counts, states, lengths = found.counts, found.states, found.lengths
    console.print(f"{config.name}: {counts.trained:,} trained parameters, {counts.frozen:,} frozen")
    table = Table("on each GPU", "GB", title=f"Memory, {found.rows} rows of {lengths.longest:,} tokens at once")
    layer = {"largest layer, whole (ZeRO-3)": states.gathered} if states.gathered else {}
    parts = {"weights": states.weights, "gradients": states.gradients, "optimizer state": states.optimizer, **layer}
    parts |= {"activations": found.activations, "logits and loss": found.logits, "in all": found.memory}
    for name, size in parts.items():
        table.add_row(name, f"{size / GB:,.3f}", style="bold" if name == "in all" else None)
    console.print(table)
    if states.host:
        console.print(f"The host holds {states.host / GB:,.1f} GB for {gpus} GPUs (offload).")
    usable = (1 - RESERVE) * gpu_memory
    fits = "fits" if found.memory / GB <= usable else "does not fit"
    console.print(
        f"It {fits} in {gpu_memory:g} GB, of which {RESERVE:.0%} are left for what is not counted: CUDA's context, work space, "
        "buffers of communication, fragments. Activations are those of PyTorch's path; GPU kernels of recurrent mixers keep less."
    )
    origin = f"the longest of {lengths.drawn} drawn rows; others may be longer" if lengths.drawn else "as given"
    if lengths.guessed:
        origin += f"; the tokenizer is not here, so tokens are guessed as {CHARACTERS:g} characters each: --length says better"
    console.print(
        f"Rows: {lengths.mean:,.0f} tokens on average, {lengths.longest:,} at most ({origin}).\n"
        f"Training: {found.steps:,} steps, {found.tokens:,.0f} tokens, {found.flops:.3g} FLOPs"
        f"{', those computed again among them' if config.train.gradient_checkpointing else ''}"
        f"{'' if found.mixing else '; of products with weights alone: what mixing tokens takes is not known of this architecture'}."
    )
    peak = tflops if tflops is not None else config.tracking.peak_tflops
    if peak is None:
        console.print("Time: give --tflops, the peak of one GPU (989 of an H100 in bf16).")
        return
    seconds = found.flops / (gpus * peak * 1e12 * utilisation)
    console.print(
        f"Time: {duration(seconds) or 'less than a second'} ({seconds / 3600:.3g} hours) on {gpus} GPUs of {peak:g} TFLOP/s at "
        f"{utilisation:.0%} utilisation, which is assumed and not measured."
    )


def _tokenizer(config: RunConfig) -> tuple[TraceTokenizer, float]:
    """The run's tokenizer, with 1; in place of a shipped model's that is not here one of characters, with how many a token has."""
    try:
        return build_tokenizer(config.tokenizer, config.data), 1.0
    except TokenizerError:
        if getattr(config.tokenizer, "name_or_path", "") not in SHAPES:
            raise
    return build_tokenizer(CharacterSettings(), config.data), CHARACTERS


def _lengths(config: RunConfig, tokenizer: TraceTokenizer, characters: float) -> Lengths:
    if characters != 1 and (most := config.data.reveal.max_tokens) is not None:
        config = config.changed({"data.reveal.max_tokens": round(most * characters)})
    rows = build_rows(config, tokenizer)
    drawn = [rows[place] for place in np.linspace(0, len(rows) - 1, min(SAMPLE, len(rows))).astype(int).tolist()]
    sizes = [math.ceil(row.size / characters) for row in drawn]
    examples = [float(math.ceil(example.size / characters)) for row in drawn for example in parted(row)]
    return Lengths(float(np.mean(sizes)), max(sizes), len(drawn), examples, characters != 1)


def _unread(config: RunConfig, tokenizer: TraceTokenizer) -> CausalLM:
    """The model that the run would train, without weights; for a pretrained one its config.json alone is read."""
    if isinstance(config.model, DecoderSettings):
        return build_model(config, tokenizer)
    settings, name, sharded = config.model, config.model.name_or_path, zero_section(config.train)["stage"] == 3
    refuse_divided(settings, sharded)
    dtype = DTYPES[config.train.precision if settings.lora is not None else "fp32"]
    if name in SHAPES and not Path(name).exists():
        kind, shape = SHAPES[name]
        found = AutoConfig.for_model(kind, **shape)
    else:
        found = read_config(
            name,
            f"model.name_or_path: the config.json of {name!r} cannot be read: give a folder that holds it, or check the hub's access",
        )
    text = found.get_text_config()
    text.vocab_size = max(text.vocab_size, tokenizer.vocab_size)
    model: Any = read(
        f"model.name_or_path: no model can be made of the config.json of {name!r}",
        lambda: AutoModelForCausalLM.from_config(found, trust_remote_code=False, dtype=dtype),
    )
    if settings.lora is None:
        return model  # type: ignore[no-any-return]
    # 4 bits are counted, not made: that needs a GPU.
    unquantised = settings.model_copy(update={"load_in_4bit": False})
    return add_adapters(model, unquantised, tokenizer.new_ids, sharded)


def _held(config: RunConfig, model: CausalLM, rows: int, length: int, trained: int) -> float:
    """Bytes of activations at their most. Autocast holds copies in half precision of all trained weights until the forward pass ends,
    with gradient checkpointing too: that is more than a layer, and adds to the most where gradients of earlier pieces are there."""
    settings = config.train
    half = None if settings.precision == "fp32" else DTYPES[settings.precision]
    logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)  # what fails is said in a line
    kept = read(
        "remedy plan: the model does not run on shapes alone, so that its activations are not known",
        lambda: activations(model, rows, length, half, autocast=settings.deepspeed is None),
    )
    if not settings.gradient_checkpointing:
        return kept.whole
    casts = settings.deepspeed is None and half is not None and settings.gradient_accumulation_steps > 1
    return max(kept.checkpointed, kept.outside + sum(kept.inputs) + (2.0 * trained if casts else 0.0))
