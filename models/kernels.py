"""GPU kernels of other packages; the PyTorch forms in `mixers` are the reference.

Checkpoints do not depend on kernels. Each is first tried on a small input of the mixer's widths: outputs, last state and gradients must
be close to the reference's in float64. Packages may import where they cannot run, and compilers have made wrong gradients. A trial has
its own process, since a faulty kernel can end it or break CUDA in it.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
from torch import Tensor

from remedy.processes import end_with_parent, own_command


class Kernel(NamedTuple):
    """A kernel of an operation.

    `path`: its module and name; `call`: maps it and inputs to outputs; `takes`: whether it takes inputs.
    """

    path: str
    call: Callable[..., Any]
    takes: Callable[..., bool]

    @property
    def module(self) -> str:
        return self.path.rpartition(".")[0]


class Operation(NamedTuple):
    """An operation of a mixer: its PyTorch form, and kernels in order of preference.

    `widths`: of the inputs, for which kernels are compiled; `example`: makes a small input.
    """

    reference: Callable[..., Any]
    widths: Callable[..., tuple[int, ...]]
    example: Callable[..., tuple[Any, ...]]
    kernels: tuple[Kernel, ...]


class Use(NamedTuple):
    """An operation of a mixer, with the widths of its inputs."""

    operation: str
    widths: tuple[int, ...]


class KernelTrial(NamedTuple):
    """Kernels of an operation that agree with the reference, and why others are refused."""

    kernels: tuple[tuple[Kernel, Callable[..., Any]], ...]
    refusals: tuple[str, ...]


class Draw:
    """Random numbers of an example, the same on every device."""

    def __init__(self, device: torch.device, dtype: torch.dtype) -> None:
        self.device, self.dtype = device, dtype
        self.generator = torch.Generator(device="cpu").manual_seed(0)

    def normal(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        drawn = torch.randn(shape, generator=self.generator, device="cpu", dtype=torch.float32)
        return drawn.to(self.device, dtype or self.dtype)

    def uniform(self, *shape: int) -> Tensor:
        """Draw numbers from [0, 1), in float32."""
        return torch.rand(shape, generator=self.generator, device="cpu", dtype=torch.float32).to(self.device)


TIMEOUT = 900.0
"""Seconds in which a kernel must be compiled, tuned and run."""
LIMITS = {torch.float32: 1e-4, torch.float16: 0.01, torch.bfloat16: 0.03}
"""Greatest distance from the reference, ||a - b|| / ||b||, by precision. A product in TF32 is 3e-4 off."""
OPERATIONS: dict[str, Operation] = {}
"""Operations by name, registered by the modules of their references."""
TRIALS: dict[tuple[str, str, torch.dtype, tuple[int, ...]], KernelTrial] = {}
"""Results by operation, kind of device, precision and widths."""


def kernel(operation: str, dtype: torch.dtype, *inputs: Any) -> Callable[..., Any] | None:
    """Return a kernel for these inputs, or None for the reference."""
    if not TRIALS:
        return None
    trial = TRIALS.get((operation, inputs[0].device.type, dtype, OPERATIONS[operation].widths(*inputs)))
    if trial is not None:
        for candidate, function in trial.kernels:
            if candidate.takes(*inputs):
                return function
    return None


def compute(operation: str, dtype: torch.dtype, *inputs: Any) -> Any:
    """Compute an operation by a kernel, or by the reference in float32.

    `dtype`: precision of the mixer's projections.
    """
    function = kernel(operation, dtype, *inputs)
    if function is not None:
        return function(*inputs)
    # Errors of half precision would accumulate over the tokens.
    with torch.autocast(inputs[0].device.type, enabled=False):
        inputs = tuple(x.float() if isinstance(x, Tensor) and x.is_floating_point() else x for x in inputs)
        return OPERATIONS[operation].reference(*inputs)


def load_kernel(candidate: Kernel) -> Callable[..., Any]:
    """Import a kernel, to be called with its operation's inputs."""
    # Otherwise other installed packages choose fla's kernels.
    os.environ.setdefault("FLA_DISABLE_BACKEND_DISPATCH", "1")
    return partial(candidate.call, getattr(importlib.import_module(candidate.module), candidate.path.split(".")[-1]))


def try_kernels(uses: Iterable[Use], device: torch.device, dtype: torch.dtype) -> None:
    """Try the kernels of operations, once per process; call it before a model is compiled."""
    # `cuda` without an index may be another device in the trial's process.
    if device.type == "cuda" and device.index is None:
        device = torch.device("cuda", torch.cuda.current_device())
    new = {key: use for use in uses if (key := (use.operation, device.type, dtype, use.widths)) not in TRIALS}
    with ThreadPoolExecutor(32) as pool:
        trials = {
            key: [
                (candidate, pool.submit(refusal_in_subprocess, use, candidate, device, dtype))
                for candidate in OPERATIONS[use.operation].kernels
            ]
            for key, use in new.items()
        }
    for key, trial in trials.items():
        agreeing = tuple((candidate, load_kernel(candidate)) for candidate, future in trial if future.result() is None)
        TRIALS[key] = KernelTrial(agreeing, tuple(reason for _, future in trial if (reason := future.result())))


def refusal_in_subprocess(use: Use, candidate: Kernel, device: torch.device, dtype: torch.dtype) -> str | None:
    """Try a kernel in its own process; say why it is refused, or return None."""
    if find_spec(package := candidate.path.split(".")[0]) is None:
        return f"{package} is not installed"
    # Importing the mixers registers the operations.
    program = "from remedy.models import kernels, mixers; [*mixers.MIXERS.values()]; kernels.main()"
    arguments = json.dumps([*use, candidate.path, str(device), str(dtype).removeprefix("torch."), os.getpid()])
    options: dict[str, Any] = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "errors": "replace"}
    try:
        process = subprocess.run(own_command(program, arguments), **options, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return f"{candidate.module} did not come to an end in {TIMEOUT:.0f} s"
    if process.returncode == 0 and process.stdout:
        reason: str | None = json.loads(process.stdout.splitlines()[-1])
        return reason
    last_line = (process.stderr.strip().splitlines() or ["nothing said"])[-1]
    return f"{candidate.module} ended its process (status {process.returncode}: {last_line:.120})"


def refusal(use: Use, candidate: Kernel, device: torch.device, dtype: torch.dtype) -> str | None:
    """Try a kernel in this process; say why it is refused, or return None."""
    operation, module = OPERATIONS[use.operation], candidate.module
    with torch.inference_mode(False), torch.enable_grad(), torch.autocast(device.type, enabled=False):
        inputs = operation.example(Draw(device, dtype), *use.widths)
        if not candidate.takes(*inputs):
            return f"{module} does not take this form"
        expected = _results(operation.reference, inputs, torch.float64)
        try:
            distance = max(map(_distance, _results(load_kernel(candidate), inputs, None), expected))
        except Exception as error:  # a package may raise anything, and the reference still runs
            first_line = (str(error).splitlines() or [""])[0]
            return f"{module} does not run ({type(error).__name__}: {first_line:.120})"
    if distance < LIMITS[dtype]:  # false for infinity and NaN
        return None
    return f"{module} is {distance:.2g} from the reference in {str(dtype)[6:]}, of at most {LIMITS[dtype]:g}"


def _results(run: Callable[..., Any], inputs: tuple[Any, ...], dtype: torch.dtype | None) -> list[Tensor]:
    """Return outputs, and gradients of a weighted sum of the first output."""
    arguments = [
        x.detach().to(dtype or x.dtype).requires_grad_() if isinstance(x, Tensor) and x.is_floating_point() else x
        for x in inputs
    ]
    outputs = run(*arguments)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    y = outputs[0]
    weights = Draw(y.device, torch.bfloat16).normal(*y.shape)  # the same numbers in every precision
    leaves = [x for x in arguments if isinstance(x, Tensor)]
    gradients = torch.autograd.grad((y * weights.to(y.dtype)).sum(), leaves)
    return [x.detach() for x in (*outputs, *gradients)]


def _distance(actual: Tensor, expected: Tensor) -> float:
    distance = (actual.double() - expected.double()).norm() / expected.double().norm().clamp(min=1e-12)
    return float(distance.nan_to_num(float("inf")))


def main() -> None:
    """Try one kernel, and print as last line why it is refused, or null."""
    operation, widths, path, device, dtype, parent = json.loads(sys.argv[1])
    end_with_parent(parent, lambda: os._exit(1))
    if device != "cpu":
        torch.cuda.set_device(device)
    (candidate,) = (kernel for kernel in OPERATIONS[operation].kernels if kernel.path == path)
    reason = refusal(Use(operation, tuple(widths)), candidate, torch.device(device), getattr(torch, dtype))
    print(json.dumps(reason), flush=True)
    os._exit(0)  # a broken CUDA may not let the interpreter end
