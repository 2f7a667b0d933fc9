"""GPU kernels of flash-linear-attention; the PyTorch forms in `mixers` are the reference.

Checkpoints do not depend on kernels. Each is tried once on a small input of the mixer's widths: outputs, last state and gradients must
be close to the reference's in float64. A package may import where it cannot run, and compilers have made wrong gradients.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
from torch import Tensor

from remedy.processes import end_with_parent, own_command

LIBRARY, PACKAGE = "flash-linear-attention", "fla"
# Otherwise other installed packages choose its kernels.
os.environ.setdefault("FLA_DISABLE_BACKEND_DISPATCH", "1")
TIMEOUT = 900.0
"""Seconds in which a kernel must be compiled, tuned and run."""
LIMITS = {torch.float32: 1e-4, torch.float16: 0.01, torch.bfloat16: 0.03}
"""Greatest distance from the reference, ||a - b|| / ||b||, by precision. A product in TF32 is 3e-4 off."""
Use = tuple[str, tuple[int, ...]]
"""Name of an operation, and the widths of its inputs, for which kernels are compiled."""


class Operation(NamedTuple):
    """An operation of a mixer, as functions of its inputs: its PyTorch form, its widths, its kernel.

    `takes`: whether the kernel takes the inputs; `example`: makes a small input of a precision and widths.
    """

    reference: Callable[..., Any]
    widths: Callable[..., tuple[int, ...]]
    example: Callable[..., tuple[Any, ...]]
    kernel: Callable[..., Any]
    takes: Callable[..., bool]


OPERATIONS: dict[str, Operation] = {}
"""Operations by name, registered by the modules of their references."""
TRIALS: dict[tuple[Use, str, torch.dtype], str | None] = {}
"""Why a kernel is refused, or None, by use, kind of device and precision."""
UNTRIED = "kernels were not tried"


def kernel(name: str, dtype: torch.dtype, *inputs: Any) -> Callable[..., Any] | None:
    """Return the kernel for these inputs, or None for the reference."""
    operation = OPERATIONS[name]
    trial = (name, operation.widths(*inputs)), inputs[0].device.type, dtype
    return operation.kernel if TRIALS.get(trial, UNTRIED) is None and operation.takes(*inputs) else None


def compute(name: str, dtype: torch.dtype, *inputs: Any) -> Any:
    """Compute an operation by its kernel, or by the reference in float32.

    `dtype`: precision of the mixer's projections.
    """
    if function := kernel(name, dtype, *inputs):
        return function(*inputs)
    # Errors of half precision would accumulate over the tokens.
    with torch.autocast(inputs[0].device.type, enabled=False):
        inputs = tuple(x.float() if isinstance(x, Tensor) and x.is_floating_point() else x for x in inputs)
        return OPERATIONS[name].reference(*inputs)


def try_kernels(uses: Iterable[Use], device: torch.device, dtype: torch.dtype) -> None:
    """Try the kernels of operations, once per process; call it before a model is compiled."""
    # The process of a trial must be told which device it is, and can choose none without an index.
    if device.type == "cuda" and device.index is None:
        device = torch.device("cuda", torch.cuda.current_device())
    new = [use for use in dict.fromkeys(uses) if (use, device.type, dtype) not in TRIALS]
    with ThreadPoolExecutor(32) as pool:
        refusals = pool.map(lambda use: refusal_in_subprocess(use, device, dtype), new)
    TRIALS.update(zip([(use, device.type, dtype) for use in new], refusals))


def refusal_in_subprocess(use: Use, device: torch.device, dtype: torch.dtype) -> str | None:
    """Try a kernel in its own process, which it may end; say why it is refused, or return None."""
    if find_spec(PACKAGE) is None:
        return f"{LIBRARY} is not installed"
    arguments = [use, str(device), str(dtype).removeprefix("torch."), os.getpid()]
    # Importing the mixers registers the operations.
    command = own_command(
        f"from remedy.models import kernels, mixers; [*mixers.MIXERS.values()]; kernels.main(*{arguments!r})"
    )
    options: dict[str, Any] = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "errors": "replace"}
    try:
        process = subprocess.run(command, **options, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return f"{LIBRARY} did not come to an end in {TIMEOUT:.0f} s"
    if process.returncode == 0 and (lines := process.stdout.splitlines()):
        return None if lines[-1] == str(None) else lines[-1]
    last_line = (process.stderr.strip().splitlines() or ["nothing said"])[-1]
    return f"{LIBRARY} ended its process (status {process.returncode}: {last_line:.120})"


def main(use: Use, device: str, dtype: str, parent: int) -> None:
    """Try a kernel, and print as last line why it is refused, or None."""
    end_with_parent(parent, lambda: os._exit(1))
    if device != "cpu":
        torch.cuda.set_device(device)
    print(refusal(use, torch.device(device), getattr(torch, dtype)), flush=True)
    os._exit(0)  # a broken CUDA may not let the interpreter end


def refusal(use: Use, device: torch.device, dtype: torch.dtype) -> str | None:
    """Try a kernel in this process; say why it is refused, or return None."""
    operation, widths = OPERATIONS[use[0]], use[1]
    torch.manual_seed(0)
    with device:
        inputs = operation.example(dtype, *widths)
    if not operation.takes(*inputs):
        return f"{LIBRARY} does not take this form"
    expected = results(operation.reference, inputs, torch.float64)
    try:
        distance = distance_between(results(operation.kernel, inputs), expected)
    except Exception as error:  # a package may raise anything, and the reference still runs
        first_line = (str(error).splitlines() or [""])[0]
        return f"{LIBRARY} does not run ({type(error).__name__}: {first_line:.120})"
    if distance < LIMITS[dtype]:  # false for infinity and NaN
        return None
    return f"{LIBRARY} is {distance:.2g} from the reference in {str(dtype)[6:]}, of at most {LIMITS[dtype]:g}"


def results(run: Callable[..., Any], inputs: tuple[Any, ...], dtype: torch.dtype | None = None) -> list[Tensor]:
    """Return outputs, and gradients of a weighted sum of the first output."""
    inputs = tuple(x.detach().to(dtype or x.dtype).requires_grad_() if isinstance(x, Tensor) else x for x in inputs)
    outputs = run(*inputs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    # The same numbers on every device and in every precision.
    weights = torch.randn(outputs[0].shape, generator=torch.Generator().manual_seed(0)).bfloat16().to(outputs[0])
    gradients = torch.autograd.grad((outputs[0] * weights).sum(), [x for x in inputs if isinstance(x, Tensor)])
    return [x.detach().double() for x in (*outputs, *gradients)]


def distance_between(actual: list[Tensor], expected: list[Tensor]) -> float:
    return float(torch.stack([(a - b).norm() / b.norm().clamp(min=1e-12) for a, b in zip(actual, expected)]).max())
