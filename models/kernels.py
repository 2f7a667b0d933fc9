"""Fast GPU kernels of other packages, where they work; the PyTorch forms in `mixers` are the reference and run everywhere.

Parameters are the mixers' own, so a checkpoint trained with kernels evaluates without. Whether a kernel works is found out before
anything is compiled or checkpointed (`try_kernels`): on a small input of the mixer's own widths its outputs, last state and gradients
must be the reference's in float64. Packages import on machines on which they cannot run, some fail only when called, and compilers
have made kernels whose gradients were wrong. What passed is kept in a plain dict, which is all that a forward pass looks at.

On a GPU each is asked in a process of its own, all of them at once: a kernel that reads outside its tensors, as some do on some GPUs
with some releases of Triton, raises no error that can be caught and forgotten; every later call of CUDA in that process fails.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
from torch import Tensor

from remedy.processes import end_with_parent, own_command


class Kernel(NamedTuple):
    """A kernel that computes an operation."""

    path: str
    """Where it is imported from: module and name."""
    call: Callable[..., Any]
    """A call of it, given the function and the operation's inputs; returns the operation's outputs."""
    takes: Callable[..., bool]
    """Whether it can take these inputs (their shapes, not their widths, which are tried)."""


class Operation(NamedTuple):
    """Operation of a mixer that kernels may compute. All kernels are functions of the same inputs, tensors and others."""

    reference: Callable[..., Any]
    """The same in PyTorch, in the inputs' precision: a tensor, or an output and a last state."""
    widths: Callable[..., tuple[int, ...]]
    """What kernels are compiled for, of the inputs: channels, and which form of the operation it is."""
    example: Callable[..., tuple[Any, ...]]
    """A small input, given a function that draws (`Draw`) and widths."""
    kernels: tuple[Kernel, ...]
    """The first that works and takes the input computes it."""


class Use(NamedTuple):
    """An operation of a mixer."""

    operation: str
    widths: tuple[int, ...]


class Tried(NamedTuple):
    """Result of trying an operation's kernels: those that agree, and why the others are not used."""

    found: tuple[tuple[Kernel, Callable[..., Any]], ...]
    refused: tuple[str, ...]


class Draw:
    """Random numbers of an example: the same everywhere, whatever defaults are set."""

    def __init__(self, device: torch.device, dtype: torch.dtype) -> None:
        self.device, self.dtype = device, dtype
        self.generator = torch.Generator(device="cpu").manual_seed(0)

    def normal(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        """Draw numbers of mean 0 and variance 1, in the precision that is tried where none is given."""
        return self._placed(torch.randn(shape, generator=self.generator, device="cpu", dtype=torch.float32), dtype)

    def uniform(self, *shape: int) -> Tensor:
        """In [0, 1), in float32."""
        drawn = torch.rand(shape, generator=self.generator, device="cpu", dtype=torch.float32)
        return self._placed(drawn, torch.float32)

    def _placed(self, x: Tensor, dtype: torch.dtype | None) -> Tensor:
        return x.to(self.device, dtype or self.dtype)


PATIENCE = 900.0
"""Seconds that a kernel may take to be compiled, tuned and run."""
LIMITS = {torch.float32: 1e-4, torch.float16: 0.01, torch.bfloat16: 0.03}
"""How far a kernel may be from the reference, ||a - b|| / ||b||, by what it computes in. A product in TF32 is 3e-4 off."""
OPERATIONS: dict[str, Operation] = {}
"""Operations by name; the modules with the references fill it."""

TRIED: dict[tuple[str, str, torch.dtype, tuple[int, ...]], Tried] = {}
"""What was tried, by operation, kind of device, precision and widths."""


def kernel(operation: str, dtype: torch.dtype, *inputs: Any) -> Callable[..., Any] | None:
    """A kernel for these inputs, to be called with them; None for the reference: on a CPU, where none takes them or none was tried.

    `dtype`: the precision to compute in, which is that of the mixer's projections.
    """
    if not TRIED:
        return None
    key = (operation, inputs[0].device.type, dtype, OPERATIONS[operation].widths(*inputs))
    tried = TRIED.get(key)
    if tried is not None:
        for candidate, run in tried.found:
            if candidate.takes(*inputs):
                return run
    return None


def runs(candidate: Kernel) -> Callable[..., Any]:
    """A kernel to be called with its operation's inputs.

    Raises:
        ModuleNotFoundError: what it is imported from, or what that needs, is not installed.
    """
    os.environ.setdefault("FLA_DISABLE_BACKEND_DISPATCH", "1")  # else what else is installed chooses fla's kernels
    module, name = candidate.path.rsplit(".", 1)
    return partial(candidate.call, getattr(importlib.import_module(module), name))


def try_kernels(uses: Iterable[Use], device: torch.device, dtype: torch.dtype) -> None:
    """Find the kernels of operations, each once in a process; call it on every process before a model is compiled.

    It is indifferent to autocast, to `no_grad` and to `inference_mode`, and leaves the random state alone.
    """
    keys = {(use.operation, device.type, dtype, use.widths): use for use in uses}
    new = {key: use for key, use in keys.items() if key not in TRIED}
    asked = [(use, candidate) for use in new.values() for candidate in OPERATIONS[use.operation].kernels]
    refused = _refusals(asked, device, dtype)
    for key, use in new.items():
        mine = [(kernel, why) for (other, kernel), why in zip(asked, refused) if other is use]
        found = tuple((kernel, runs(kernel)) for kernel, why in mine if why is None)
        TRIED[key] = Tried(found, tuple(why for _, why in mine if why is not None))


def _refusals(asked: Sequence[tuple[Use, Kernel]], device: torch.device, dtype: torch.dtype) -> list[str | None]:
    if device.type == "cuda":
        return apart(asked, device, dtype)
    return [refusal(use, candidate, device, dtype) for use, candidate in asked]


def apart(asked: Sequence[tuple[Use, Kernel]], device: torch.device, dtype: torch.dtype) -> list[str | None]:
    """Say why each of these kernels is not to be used; None of those that compute what the reference does."""
    started = [_started(use, candidate, device, dtype) for use, candidate in asked]
    try:
        return [_answer(candidate, one) for (_, candidate), one in zip(asked, started)]
    finally:
        for one in started:
            if isinstance(one, subprocess.Popen) and one.poll() is None:
                one.kill()
                one.wait()


def _started(use: Use, candidate: Kernel, device: torch.device, dtype: torch.dtype) -> subprocess.Popen[str] | str:
    """A process that tries a kernel, or why none has to."""
    package = candidate.path.split(".")[0]
    if find_spec(package) is None:
        return f"{package} is not installed"
    asked: dict[str, object] = {"operation": use.operation, "widths": use.widths, "path": candidate.path}
    asked |= {"device": indexed(device), "dtype": str(dtype).removeprefix("torch."), "parent": os.getpid()}
    program = (
        "import remedy.models.mixers, remedy.models.kernels as kernels; kernels.main()"  # mixers register operations
    )
    return subprocess.Popen(
        own_command(program, json.dumps(asked)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )


def indexed(device: torch.device) -> str:
    """A device by its number: `cuda` alone is another one in another process."""
    return f"cuda:{torch.cuda.current_device()}" if device.type == "cuda" and device.index is None else str(device)


def _answer(candidate: Kernel, started: subprocess.Popen[str] | str) -> str | None:
    if isinstance(started, str):
        return started
    module = candidate.path.rsplit(".", 1)[0]
    try:
        said, complaint = started.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return f"{module} did not come to an end in {PATIENCE:.0f} s"
    lines = said.splitlines()
    if started.returncode == 0 and lines:
        answer: str | None = json.loads(lines[-1])
        return answer
    code = started.returncode
    ended = f"signal {signal.Signals(-code).name}" if code < 0 else f"status {code}"
    last = (complaint.strip().splitlines() or ["nothing said"])[-1]
    return f"{module} ended its process ({ended}: {last:.120})"


def refusal(use: Use, candidate: Kernel, device: torch.device, dtype: torch.dtype) -> str | None:
    """Say why a kernel is not to be used, tried in this process; None where it computes what the reference does."""
    operation, module = OPERATIONS[use.operation], candidate.path.rsplit(".", 1)[0]
    with torch.inference_mode(False), torch.enable_grad(), torch.autocast(device.type, enabled=False):
        inputs = operation.example(Draw(device, dtype), *use.widths)
        if not candidate.takes(*inputs):
            return f"{module} does not take this form"
        expected = _results(operation.reference, inputs, torch.float64)
        try:
            far = max(map(_distance, _results(runs(candidate), inputs, None), expected))
        except ModuleNotFoundError as error:
            return f"{error.name} is not installed"
        except Exception as error:  # whatever a package does wrong here, the reference still runs
            first = (str(error).splitlines() or [""])[0]
            return f"{module} does not run ({type(error).__name__}: {first:.120})"
    if far < LIMITS[dtype]:  # not so for nan either
        return None
    return f"{module} is {far:.2g} from the reference in {str(dtype)[6:]}, of at most {LIMITS[dtype]:g}"


def _results(run: Callable[..., Any], inputs: tuple[Any, ...], dtype: torch.dtype | None) -> list[Tensor]:
    """Outputs, and the gradients of a weighted sum of the first with respect to every tensor among the inputs."""
    given = [
        x.detach().to(dtype or x.dtype).requires_grad_() if isinstance(x, Tensor) and x.is_floating_point() else x
        for x in inputs
    ]
    outputs = run(*given)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    y = outputs[0]
    weights = Draw(y.device, torch.bfloat16).normal(*y.shape)  # the same numbers in every precision
    leaves = [x for x in given if isinstance(x, Tensor)]
    gradients = torch.autograd.grad((y * weights.to(y.dtype)).sum(), leaves)
    return [x.detach() for x in (*outputs, *gradients)]


def _distance(actual: Tensor, expected: Tensor) -> float:
    """||a - b|| / ||b||; nan or infinity where a kernel returned that, which is no distance below any limit."""
    distance = (actual.double() - expected.double()).norm() / expected.double().norm().clamp(min=1e-12)
    return float(distance.nan_to_num(float("inf")))


def main() -> None:
    """Try one kernel and write why it is refused, or null, as the last line. A kernel may end this process or spoil its CUDA."""
    asked = json.loads(sys.argv[1])
    end_with_parent(asked["parent"], lambda: os._exit(1))
    use = Use(asked["operation"], tuple(asked["widths"]))
    (candidate,) = (one for one in OPERATIONS[use.operation].kernels if one.path == asked["path"])
    device = torch.device(asked["device"])
    if device.type == "cuda":
        torch.cuda.set_device(device)
    print(json.dumps(refusal(use, candidate, device, getattr(torch, asked["dtype"]))), flush=True)
    os._exit(0)  # a broken CUDA may not let the interpreter end
