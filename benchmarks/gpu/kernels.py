"""Kernels of flash-linear-attention: those that run, agree and pay, and how far each precision carries a state.

Every cell has a process of its own, since a kernel can end one. `try`: a kernel is held to its reference in float64 (outputs, last
state, gradients), beside others that compile. `pays`: forward and backward of one mixer of width 512 in bf16, 16,384 tokens in rows of
several lengths, with kernels, without, and the library's own layer of that size in the same loop (its Mamba layers want mamba-ssm).
`carries`: the last state against float64's, by length, where tokens are random and where every one is a swap or a flip that forgets
nothing.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.gpu.queue import Cell, Facts
from remedy.models.config import DecoderSettings
from remedy.models.decoder_config import DecoderConfig
from remedy.models.kernels import OPERATIONS, TRIALS, Use, refusal
from remedy.models.mixers import MIXERS
from remedy.models.mixers.base import Mixer
from remedy.models.mixers.short_convolution import ShortConvolution
from remedy.models.mixers.used_kernels import find_kernels, kernels_of

list(MIXERS.values())  # their modules register the operations
WITH_KERNELS = ("deltanet", "gated_deltanet", "mamba2", "rwkv7", "deltaproduct", "path_attention", "mamba")
WIDTHS = {512: 8, 64: 4}
"""Heads by width: of layers worth a kernel, and of the study's."""
PATIENCE = 3.0
"""Seconds after which no round is added."""
TOKENS, LENGTHS = 16384, (2048, 512, 8192)
CARRIED = ("deltanet", "gated_deltanet", "mamba2", "gru")
HORIZONS = (64, 256, 1024, 4096, 16384)
LAYERS: dict[str, tuple[str, Facts]] = {
    "deltanet": ("DeltaNet", {"num_heads": 8}),
    "gated_deltanet": ("GatedDeltaNet", {"num_heads": 8, "head_dim": 64}),
    "deltaproduct": ("GatedDeltaProduct", {"num_heads": 8, "head_dim": 64, "use_forget_gate": False}),
    "rwkv7": ("RWKV7Attention", {"head_dim": 64, "layer_idx": 0, "num_hidden_layers": 2}),
    "path_attention": ("PaTHAttention", {"num_heads": 8, "layer_idx": 0}),
}
"""flash-linear-attention's layers of width 512."""


def cells(rehearse: bool) -> list[Cell]:
    """Kernels of layers worth them in bf16, what DeltaNet gains, states; then the study's widths and the other mixers."""
    if rehearse:
        gains: Facts = {"what": "pays", "mixer": "mamba2", "tokens": 32, "length": 16, "rounds": 1}
        tried = _tries(512, "bf16")[0]._replace(together=True)
        carries = [Cell(f"carries {m}", {"what": "carries", "mixer": m, "lengths": (64,)}) for m in CARRIED]
        return [tried, Cell("pays mamba2", gains), *carries]
    carries = [Cell(f"carries {m}", {"what": "carries", "mixer": m}, 120.0, apart=True) for m in CARRIED]
    pays = [_pay("deltanet", length) for length in LENGTHS[1:]]
    rest = [
        _pay(mixer, LENGTHS[0]) for mixer in ("path_attention", "deltaproduct", "mamba", "rwkv7", "gru", "attention")
    ]
    narrow = [*_tries(64, "fp32"), *_tries(64, "bf16")]
    return [*_tries(512, "bf16"), _pay("deltanet", LENGTHS[0]), *carries, *narrow, *rest, *pays, *_tries(512, "fp32")]


def _pay(mixer: str, length: int) -> Cell:
    return Cell(f"pays {mixer} {length}", {"what": "pays", "mixer": mixer, "length": length}, 200.0, apart=True)


def _tries(width: int, precision: str) -> list[Cell]:
    """List a cell for each kernel, of every mixer's operations in the forms that it takes; of short convolutions the first alone."""
    found: dict[Any, Cell] = {}
    for mixer in WITH_KERNELS:
        for name, widths in _uses(_mixer(mixer, width)):
            operation = OPERATIONS[name]
            if operation.takes(*operation.example(torch.float32, *widths)):
                cell = f"try {name} {'x'.join(map(str, widths))} {precision}"
                given = {"what": "try", "mixer": mixer, "operation": name, "widths": widths, "precision": precision}
                key = name if name == "short_convolution" else cell
                found.setdefault(key, Cell(cell, given, 150.0, apart=True, together=True))
    return list(found.values())


def _mixer(name: str, width: int) -> Mixer:
    torch.manual_seed(0)
    asked: Facts = {"mixers": [name], "hidden_size": width}
    if "num_attention_heads" in MIXERS[name].reads.uses:
        asked["num_attention_heads"] = WIDTHS[width]
    return MIXERS[name](DecoderConfig.from_settings(DecoderSettings.model_validate(asked), 64), 0)


def _uses(mixer: Mixer) -> list[Use]:
    inner = [use for part in mixer.children() if isinstance(part, ShortConvolution) for use in part.operations()]
    return [*mixer.operations(), *inner]


def measure(what: str, **given: Any) -> Iterator[Facts]:
    yield from {"try": _try, "pays": _pays, "carries": _carries}[what](**given)


def _device() -> torch.device:
    return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")


def _try(mixer: str, operation: str, widths: tuple[int, ...], precision: str) -> Iterator[Facts]:
    """Say if a kernel computes what its reference does, and how long it took to be compiled, tuned and held to it."""
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
    begin = time.perf_counter()
    why = refusal((operation, tuple(widths)), _device(), dtype)
    took = round(time.perf_counter() - begin, 1)
    yield {
        "mixer": mixer,
        "kernel": operation,
        "precision": precision,
        "agrees": why is None,
        "why": why,
        "took_s": took,
    }


def _pays(mixer: str, length: int, tokens: int = TOKENS, rounds: int = 10) -> Iterator[Facts]:
    """Tokens a second of forward and backward; with kernels as `find_kernels` finds them, which is what training waits for."""
    device, dtype = _device(), torch.bfloat16
    ours = _mixer(mixer, 512).to(device, dtype)
    begin = time.perf_counter()
    find_kernels([ours], device, dtype)
    by = kernels_of([ours], device, dtype)[mixer]
    yield {"mixer": mixer, "computed_by": by, "found_in_s": round(time.perf_counter() - begin, 1)}
    found = dict(TRIALS)
    x = torch.randn(tokens // length, length, 512, device=device, dtype=dtype).requires_grad_()
    if None in found.values():
        yield {"mixer": mixer, "length": length, **_rates("kernels", ours, x, rounds)}
    TRIALS.clear()
    yield {"mixer": mixer, "length": length, **_rates("pytorch", ours, x, rounds)}
    TRIALS.update(found)
    if mixer in LAYERS:
        yield {"mixer": mixer, "length": length, **_rates("library", _library(mixer).to(device, dtype), x, rounds)}


def _rates(name: str, layer: nn.Module, x: Tensor, rounds: int) -> Facts:
    """Tokens a second, and the first call's seconds, in which kernels are compiled and tuned."""

    def both() -> None:
        y = layer(x)
        (y[0] if isinstance(y, tuple) else y).float().square().mean().backward()
        x.grad = None
        if x.is_cuda:
            torch.cuda.synchronize()

    try:
        first, *rest = (_seconds(both) for _ in range(3))
        while len(rest) < rounds + 2 and sum(rest) < PATIENCE:
            rest.append(_seconds(both))
    except Exception as error:
        return {name: f"{type(error).__name__}: {error}"[:200]}
    return {name: round(x.shape[0] * x.shape[1] / statistics.median(rest[1:])), f"{name}_first_s": round(first, 2)}


def _seconds(action: Callable[[], None]) -> float:
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def _library(mixer: str) -> nn.Module:
    name, given = LAYERS[mixer]
    layer: nn.Module = getattr(import_module("fla.layers"), name)(hidden_size=512, **given)
    return layer


def _carries(mixer: str, lengths: tuple[int, ...] = HORIZONS) -> Iterator[Facts]:
    """||state - state in float64|| / ||state in float64|| after so many tokens, by what computes it; what has to be compiled last."""
    device = _device()
    for name, dtype, kernel, tf32 in _ways(mixer, device):
        for drive in ("random", "kept") if mixer != "gru" else ("random",):
            far: dict[str, float | str] = {}
            for length in lengths:
                with device:
                    inputs = _drive(mixer, drive, length)
                exact = _state(mixer, inputs, torch.float64)
                torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
                try:
                    state = _state(mixer, inputs, dtype, kernel).double()
                    far[str(length)] = float(f"{float((state - exact).norm() / exact.norm()):.2g}")
                except Exception as error:
                    far[str(length)] = f"{type(error).__name__}: {error}"[:150]
                    break
                finally:
                    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
            yield {"mixer": mixer, "by": name, "drive": drive, "far": far}


def _ways(mixer: str, device: torch.device) -> list[tuple[str, torch.dtype, bool, bool]]:
    """Name, precision, whether a kernel computes it and whether products are in TF32."""
    plain = [("fp32", torch.float32, False, False)]
    if device.type != "cuda":
        return plain
    plain.append(("fp32, products in tf32", torch.float32, False, True))
    if mixer == "gru":
        return [*plain, ("bf16", torch.bfloat16, False, False)]
    return [*plain, ("bf16 kernel", torch.bfloat16, True, False), ("fp32 kernel", torch.float32, True, False)]


OPERATION_OF = {"deltanet": "delta_rule", "gated_deltanet": "delta_rule", "mamba2": "state_space_duality"}
HEADS, SIZE, WRITTEN = 4, 16, 16
"""The study's heads; `kept` drives write a value with each of the first tokens and none afterwards."""


def _drive(mixer: str, drive: str, length: int) -> tuple[Any, ...]:
    """Return an operation's inputs. `kept`: swaps of two of the state's axes (delta rules) or flips of its sign (Mamba-2)."""
    torch.manual_seed(0)
    if mixer == "gru":
        return (torch.randn(8, length, 64),)
    early = (torch.arange(length) < WRITTEN).float()
    values = torch.randn(1, HEADS, length, SIZE)
    if mixer == "mamba2":
        flips = torch.rand(1, length, HEADS) < 0.5
        kept = torch.where(flips, 20.0, 1e-6)
        step = F.softplus(2 * torch.randn(1, length, HEADS) - 2) if drive == "random" else kept
        values = values if drive == "random" else values * early[:, None] / kept.transpose(1, 2)[..., None]
        b, c = torch.randn(1, length, SIZE), torch.randn(1, length, SIZE)
        return values.transpose(1, 2), step, -torch.ones(HEADS), b, c, True, None
    q = F.normalize(torch.randn(1, HEADS, length, SIZE), dim=-1)
    k, beta = F.normalize(torch.randn(1, HEADS, length, SIZE), dim=-1), 2 * torch.rand(1, HEADS, length)
    if drive == "kept":
        pairs = torch.rand(1, HEADS, length, SIZE).topk(2, -1).indices
        swaps = torch.zeros_like(k).scatter(-1, pairs, torch.tensor([1.0, -1.0]).expand(pairs.shape))
        k = torch.where(early[:, None] > 0, k, swaps / 2**0.5)
        values, beta = values * early[:, None], torch.where(early > 0, beta, 2.0)
    decay = -0.3 * torch.rand(1, HEADS, length) if drive == "random" else torch.full((1, HEADS, length), -1e-4)
    return q, k, values, beta, decay if mixer == "gated_deltanet" else None, None


@torch.no_grad()
def _state(mixer: str, inputs: tuple[Any, ...], dtype: torch.dtype, kernel: bool = False) -> Tensor:
    """Return the last state as a precision computes it; a kernel takes what it reads in that precision, and keys in float32."""
    if mixer == "gru":
        torch.manual_seed(0)
        rnn = nn.GRU(64, 64, batch_first=True).to(inputs[0].device, dtype)
        state: Tensor = rnn(inputs[0].to(dtype))[1]
        return state
    operation = OPERATIONS[OPERATION_OF[mixer]]
    if not kernel:
        return operation.reference(*(x.to(dtype) if isinstance(x, Tensor) else x for x in inputs))[1]
    lower = {2} if mixer != "mamba2" else {0, 3, 4}  # values; inputs and both maps
    return operation.kernel(*(x.to(dtype) if n in lower else x for n, x in enumerate(inputs)))[1]
