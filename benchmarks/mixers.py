"""Every mixer's speed, and its time and memory as length doubles; on CUDA also against the libraries' own layers, and the
utilisation of the 280M decoder.

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
from remedy.models.decoder import DecoderForCausalLM, parameter_count
from remedy.models.decoder_config import DecoderConfig
from remedy.models.flops import device_peak, training_flops
from remedy.models.mixers import MIXERS, describe_kernels, find_kernels

LENGTHS = (256, 512, 1024, 2048, 4096)


def decoder(mixer: str, **settings: Any) -> DecoderForCausalLM:
    config = DecoderSettings.model_validate({"mixers": [mixer], "num_hidden_layers": 2, "hidden_size": 128, **settings})
    return DecoderForCausalLM(DecoderConfig.from_settings(config, 64))


def timed(action: Callable[[], None], rounds: int, on_cuda: bool = False) -> float:
    """Median seconds of an action, the first (warm-up) left out."""
    seconds = []
    for _ in range(rounds + 1):
        begin = time.perf_counter()
        action()
        if on_cuda:
            torch.cuda.synchronize()
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


def library_layer(name: str, hidden: int, heads: int) -> nn.Module | None:
    """The layer of the library whose kernels a mixer uses, of the same size; None where it is not installed."""
    try:
        if name == "mamba":
            from mamba_ssm import Mamba

            return Mamba(hidden, d_state=16)
        if name == "mamba2":
            from mamba_ssm import Mamba2

            return Mamba2(hidden, d_state=64, headdim=hidden // heads)
        if name in ("deltanet", "gated_deltanet"):
            from fla.layers import DeltaNet, GatedDeltaNet

            return (
                DeltaNet(hidden_size=hidden, num_heads=heads)
                if name == "deltanet"
                else GatedDeltaNet(hidden_size=hidden)
            )
    except ImportError:
        return None
    return None


def on_cuda() -> None:
    """Our mixers against the libraries' own layers in a bare loop, and the 280M decoder's MFU."""
    hidden, heads = 512, 8
    x = torch.randn(8, 2048, hidden, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    print("\n| mixer layer (d = 512, 8 x 2048, bf16) | tokens/s | of the library's own layer |\n|---|---|---|")
    for name in MIXERS:
        state_size = 64 if name == "mamba2" else 16
        config = DecoderConfig(mixers=[name], hidden_size=hidden, num_attention_heads=heads, state_size=state_size)
        ours = MIXERS[name](config, 0).cuda().bfloat16()
        find_kernels([ours], x.device, x.dtype)
        theirs = library_layer(name, hidden, heads)

        def both(layer: nn.Module) -> None:
            y = layer(x)
            (y[0] if isinstance(y, tuple) else y).sum().backward()

        mine = timed(lambda: both(ours), 10, True)  # noqa: B023
        if theirs is None:
            print(f"| {name} | {x.shape[0] * x.shape[1] / mine:,.0f} | no library layer here |")
            continue
        other = theirs.cuda().bfloat16()
        reference = timed(lambda: both(other), 10, True)  # noqa: B023
        print(f"| {name} | {x.shape[0] * x.shape[1] / mine:,.0f} | {reference / mine:.2f} |")
    model = DecoderForCausalLM(
        DecoderConfig.from_settings(DecoderSettings.model_validate({"size": "280m"}), 128256)
    ).cuda()
    compiled: Any = torch.compile(model)
    tokens = torch.randint(0, 128256, (16, 1024), device="cuda")

    def train_step() -> None:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            compiled(input_ids=tokens, labels=tokens).loss.backward()
        model.zero_grad(set_to_none=True)

    seconds = timed(train_step, 10, True)
    operations, _ = training_flops(model).at(1024)
    peak = device_peak()
    rate = tokens.numel() / seconds
    used = f"{rate * operations / peak:.1%} MFU" if peak else "no known peak"
    print(f"\n280m, attention, bf16, compiled ({parameter_count(model):,} parameters): {rate:,.0f} tokens/s, {used}")


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
    if torch.cuda.is_available():
        on_cuda()
    else:
        print("\nNo CUDA device: the comparison with the libraries' layers and the 280M model's MFU were not measured.")


if __name__ == "__main__":
    main()
