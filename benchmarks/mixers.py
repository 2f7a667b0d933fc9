"""Every mixer's speed, and its time and memory as length doubles.

python benchmarks/mixers.py
"""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["USE_HUB_KERNELS"] = "0"
import torch
from torch import nn

from remedy.models.config import DecoderSettings
from remedy.models.decoder import DecoderForCausalLM
from remedy.models.decoder_config import DecoderConfig
from remedy.models.mixers import MIXERS
from remedy.models.mixers.used_kernels import describe_kernels, find_kernels

LENGTHS = (256, 512, 1024, 2048, 4096)


def decoder(mixer: str, **settings: Any) -> DecoderForCausalLM:
    config = DecoderSettings.model_validate({"mixers": [mixer], "num_hidden_layers": 2, "hidden_size": 128, **settings})
    return DecoderForCausalLM(DecoderConfig.from_settings(config, 64))


def timed(action: Callable[[], None], rounds: int) -> float:
    """Median seconds of an action, the first (warm-up) left out."""
    seconds = []
    for _ in range(rounds + 1):
        begin = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds[1:])


def kept_bytes(model: nn.Module, tokens: torch.Tensor) -> int:
    """Bytes that the forward pass keeps for the backward pass, each storage once, weights left out."""
    storages: dict[int, int] = {}
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = model(tokens, labels=tokens).loss
    del loss
    return sum(storages.values())


def step(model: nn.Module, tokens: torch.Tensor) -> None:
    """Forward and backward; on CUDA in bf16 and waited for."""
    with torch.autocast(tokens.device.type, dtype=torch.bfloat16, enabled=tokens.is_cuda):
        model(tokens, labels=tokens).loss.backward()
    if tokens.is_cuda:
        torch.cuda.synchronize()


def rates(device: torch.device) -> None:
    """Tokens per second of forward and backward, mixers in turns, so that a busy moment of the machine meets all of them."""
    tokens = torch.randint(0, 64, (16, 256), device=device)
    models = {name: decoder(name).to(device) for name in MIXERS}
    seconds: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(4):
        for name, model in models.items():
            begin = time.perf_counter()
            step(model, tokens)
            seconds[name].append(time.perf_counter() - begin)
    print("\n| mixer (d = 128, 2 layers, 16 x 256 tokens) | tokens/s | of attention |\n|---|---|---|")
    found = {name: tokens.numel() / statistics.median(times[1:]) for name, times in seconds.items()}
    for name, rate in found.items():
        print(f"| {name} | {rate:,.0f} | {rate / found['attention']:.2f} |")


def growth(device: torch.device) -> None:
    """Milliseconds and kept megabytes of one row as its length doubles."""
    print("\n| mixer: ms (MB kept) of one row | " + " | ".join(map(str, LENGTHS)) + " | time x16 |")
    print("|---|" + "---|" * (len(LENGTHS) + 1))
    windowed: dict[str, Any] = {"attention, window 96": {"mixer": "attention", "window": 96}}
    for name, settings in {**{name: {"mixer": name} for name in MIXERS}, **windowed}.items():
        model, cells, times = decoder(**settings).to(device), [], []
        for length in LENGTHS:
            tokens = torch.randint(0, 64, (1, length), device=device)
            times.append(timed(lambda: step(model, tokens), 3))  # noqa: B023
            cells.append(f"{1000 * times[-1]:,.0f} ({kept_bytes(model, tokens) / 2**20:,.0f})")
        print(f"| {name} | " + " | ".join(cells) + f" | {times[-1] / times[0]:.1f} |")


def main() -> None:
    torch.set_num_threads(1)
    where = f"Python {platform.python_version()}, torch {torch.__version__}, "
    where += torch.cuda.get_device_name() if torch.cuda.is_available() else f"one thread of {os.cpu_count()} cores"
    every = [mixer for name in MIXERS for mixer in decoder(name).mixers()[:1]]
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    find_kernels(every, device, torch.bfloat16)
    print(f"{where}, load {os.getloadavg()[0]:.2f}\n{describe_kernels(every, device, torch.bfloat16)}")
    rates(device)
    growth(device)


if __name__ == "__main__":
    main()
