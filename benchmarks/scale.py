"""The tables of docs/scale.md: what 8, 64 and 512 GPUs need for a 32B code world model. Nothing is run, nothing is downloaded.

python benchmarks/scale.py

Memory and operations are the planner's own (`remedy plan`); what is not computed is an input, named with its source in the document.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from transformers import AutoModelForCausalLM, CwmConfig

from remedy.models.config import LoraSettings, PretrainedSettings
from remedy.models.flops import training_flops
from remedy.models.pretrained import add_adapters
from remedy.train.config import TrainSettings
from remedy.train.footprint import GB, RESERVE
from remedy.train.memory import Activations, ParameterCounts, activations, model_states, parameter_counts

GPUS = (8, 64, 512)
LENGTHS = (8192, 32768)
MEMORY = 80.0
PEAK = 989e12
UTILISATION = 0.4
NODE = 8
"""GPUs of one machine."""
NVLINK = 450e9
NETWORKS = {"8 x 400 Gb/s": 8 * 50e9, "100 Gb/s": 12.5e9}
"""Bytes per second into a machine."""
REACHED = 0.8
"""Share of a link's speed that collectives reach: an assumption."""
CORES = 112
"""Cores of a machine with 8 H100."""
WEIGHT = 2
"""Bytes of a weight in bf16."""


class Recipe(NamedTuple):
    """A way to train: adapters or all weights, and how they are divided."""

    name: str
    lora: bool
    stage: int | None
    four_bit: bool = False

    def settings(self, gpus: int) -> TrainSettings:
        """Training settings with one row on each GPU at a time."""
        divided = None if self.stage is None else {"stage": self.stage}
        return TrainSettings(batch_size=gpus, precision="bf16", gradient_checkpointing=True, deepspeed=divided)  # type: ignore[arg-type]


RECIPES = (
    Recipe("LoRA, ZeRO-1 or none", True, 1),
    Recipe("LoRA, 4-bit weights, none", True, None, four_bit=True),
    Recipe("LoRA, ZeRO-3", True, 3),
    Recipe("all weights, ZeRO-1", False, 1),
    Recipe("all weights, ZeRO-2", False, 2),
    Recipe("all weights, ZeRO-3", False, 3),
)


def cwm(lora: bool) -> Any:
    """The 32B code world model as Transformers has it, without weights; with adapters of rank 16 on every linear layer."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(CwmConfig(), dtype=torch.bfloat16)
        if not lora:
            return model
        chosen = LoraSettings(r=16, lora_alpha=32, target_modules="all-linear")
        return add_adapters(model, PretrainedSettings(name_or_path="facebook/cwm", lora=chosen), [], sharded=True)


def table(*columns: str) -> str:
    """A header of Markdown."""
    return f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}"


def row(*cells: str) -> str:
    """A row of Markdown."""
    return f"| {' | '.join(cells)} |"


def gb(size: float) -> str:
    """Bytes in GB, to what matters."""
    return f"{size / GB:,.0f}" if size >= 10 * GB else f"{size / GB:.1f}"


def memory(counts: dict[bool, ParameterCounts], kept: dict[int, Activations]) -> Iterator[str]:
    """Model states on each GPU, and what rows of either length take beside them."""
    yield table("on each GPU, GB", *(f"{gpus} GPUs" for gpus in GPUS), *(f"+ a row of {n:,}" for n in LENGTHS), "fits")
    for recipe in RECIPES:
        sizes = []
        for gpus in GPUS:
            states = model_states(counts[recipe.lora], recipe.settings(gpus), gpus, recipe.lora, recipe.four_bit)
            sizes.append(sum(states._replace(host=0.0)))
        rows = [kept[length].checkpointed for length in LENGTHS]
        fitting = [
            f"{length:,} from {min(enough)} on"
            for length, extra in zip(LENGTHS, rows)
            if (enough := [g for g, size in zip(GPUS, sizes) if (size + extra) / GB <= (1 - RESERVE) * MEMORY])
        ]
        yield row(recipe.name, *map(gb, sizes), *map(gb, rows), "; ".join(fitting) or "no")
    yield ""
    yield table("a row's activations, GB", *(f"{length:,} tokens" for length in LENGTHS))
    yield row("all kept", *(gb(kept[length].whole) for length in LENGTHS))
    yield row("computed again, layer by layer", *(gb(kept[length].checkpointed) for length in LENGTHS))
    yield row("of these inputs of layers", *(gb(sum(kept[length].inputs)) for length in LENGTHS))


def seconds_of(model: Any, length: int) -> float:
    """Computing one row's step on one GPU, the layers' forward pass twice."""
    return training_flops(model, layers_again=True).of([length]) / (PEAK * UTILISATION)


def gathering(parameters: int, machines: int, network: float) -> float:
    """Seconds in which every GPU has received all weights once: each byte enters a machine once, and its GPUs over NVLink."""
    inside = WEIGHT * parameters * (NODE - 1) / NODE / NVLINK
    between = WEIGHT * parameters * (machines - 1) / machines / network
    return max(inside, between) / REACHED


def communication(models: dict[bool, Any], counts: dict[bool, ParameterCounts]) -> Iterator[str]:
    """Compute, for a step with one row on each GPU, the seconds of computing and of ZeRO-3's messages in three networks."""
    heads = [f"messages, {name} between machines" for name in NETWORKS]
    yield table("ZeRO-3, one row a GPU", "tokens of a row", "computing, s", "messages in one machine, s", *heads)
    for lora in (True, False):
        parameters = counts[lora].trained + counts[lora].frozen
        volume = 2 if lora else 3
        for length in LENGTHS:
            yield row(
                "LoRA" if lora else "all weights",
                f"{length:,}",
                f"{seconds_of(models[lora], length):.1f}",
                f"{volume * gathering(parameters, 1, NVLINK):.2f}",
                *(
                    " to ".join(f"{volume * gathering(parameters, gpus // NODE, speed):.2f}" for gpus in GPUS[1:])
                    for speed in NETWORKS.values()
                ),
            )


def speed(models: dict[bool, Any]) -> Iterator[str]:
    """Tokens per second where messages hide behind computing, and 10 billion tokens in hours."""
    yield table(
        "", "tokens of a row", *(f"{gpus} GPUs: tokens/s" for gpus in GPUS), *(f"{gpus}: hours" for gpus in GPUS)
    )
    for lora in (True, False):
        for length in LENGTHS:
            rates = [gpus * length / seconds_of(models[lora], length) for gpus in GPUS]
            hours = [1e10 / rate / 3600 for rate in rates]
            name = "LoRA" if lora else "all weights"
            yield row(name, f"{length:,}", *(f"{rate:,.0f}" for rate in rates), *(f"{hour:,.0f}" for hour in hours))


RATES = {
    "sessions of permutations, a token each": 21_700_000,
    "programs of permutations": 832_000,
    "string functions": 798_000,
    "the same, written to shards": 366_000,
    "real programs, in process": 576_000,
    "real programs, sandboxed": 100_000,
}
"""Tokens of training rows that a core makes in a second: benchmarks/RESULTS.md, "Feeding"."""
SMALL = 280e6
"""Parameters of the largest preset of our own models; six operations a token each."""


def feeding(models: dict[bool, Any]) -> Iterator[str]:
    """Core hours of 10 billion tokens, and the cores that keep 8 GPUs busy."""
    large = NODE * LENGTHS[0] / seconds_of(models[True], LENGTHS[0])
    small = NODE * PEAK * UTILISATION / (6 * SMALL)
    yield table(
        "rows",
        "tokens/s a core",
        "10 billion tokens: core hours",
        f"cores for 8 GPUs on LoRA of 32B ({large:,.0f} tokens/s)",
        f"on a 280M model ({small:,.0f} tokens/s)",
    )
    for name, rate in RATES.items():
        yield row(name, f"{rate:,}", f"{1e10 / rate / 3600:,.1f}", f"{large / rate:.2f}", f"{small / rate:.1f}")


PASS = 65e9 / 3.35e12
"""Seconds in which one GPU reads all weights once."""
WAYS = {
    "plain decoding, sorted by length": 0.8 * 3600,
    "drafts, none right after a first error": 30 * 60,
    "drafts, 95 % of frames right": 4 * 60,
}
"""Seconds of one condition over 1,523 programs on one GPU: benchmarks/RESULTS.md, "A 32B model on one H100"."""


def evaluation() -> Iterator[str]:
    """Conditions over CruxEval and HumanEval, data-parallel: no machine ends before its longest trace."""
    longest = LENGTHS[0] * PASS
    yield table("one condition, 1,523 programs, minutes", "1 GPU", *(f"{gpus} GPUs" for gpus in GPUS))
    for name, seconds in WAYS.items():
        floor = longest if "drafts, 95 %" not in name else 0.0
        yield row(name, f"{seconds / 60:,.0f}", *(f"{max(seconds / gpus, floor) / 60:,.1f}" for gpus in GPUS))


def main() -> None:
    warnings.filterwarnings("ignore")
    models = {lora: cwm(lora) for lora in (True, False)}
    counts = {lora: parameter_counts(model) for lora, model in models.items()}
    kept = {length: activations(models[True], 1, length, torch.bfloat16) for length in LENGTHS}
    for part in (memory(counts, kept), communication(models, counts), speed(models), feeding(models), evaluation()):
        print("\n".join(part), end="\n\n")


if __name__ == "__main__":
    main()
