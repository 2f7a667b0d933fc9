"""Division of a run over processes: rows of a step, ZeRO, FSDP2."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from remedy.messages import plural
from remedy.settings import Settings, UserError


class DeepSpeedSettings(Settings):
    """DeepSpeed's ZeRO (Rajbhandari et al., "ZeRO", 2020)."""

    stage: Literal[0, 1, 2, 3] = 1
    """ZeRO stage: processes divide nothing (0), optimizer state (1), also gradients (2), also weights (3)."""
    offload: Literal["none", "optimizer", "all"] = "none"
    """Offload to host memory: the optimizer state, or also the weights."""
    param_persistence_threshold: int | None = Field(default=None, ge=0)
    """Under stage 3, parameters with fewer elements than this stay whole on every process."""
    file: str | None = None
    """Path of your own DeepSpeed JSON, in place of the other keys; it must agree with the rest of the configuration."""

    @model_validator(mode="after")
    def _used(self) -> DeepSpeedSettings:
        if self.file is not None:
            others = ("stage", "offload", "param_persistence_threshold")
            self.refuse_idle(dict.fromkeys(others, "with a file, which sets it"))
            return self
        if self.stage != 3:
            only = f"at stage {self.stage}, since only stage 3 divides parameters"
            self.refuse_idle({"param_persistence_threshold": only})
        if self.stage == 0:
            self.refuse_idle({"offload": "at stage 0, which divides nothing"})
        if self.offload == "all" and self.stage != 3:
            raise ValueError(
                f"offload all does nothing more than optimizer at stage {self.stage}: write optimizer, or stage 3"
            )
        return self


class FsdpSettings(Settings):
    """PyTorch's FSDP2 (`fully_shard`; Zhao et al., "PyTorch FSDP", 2023) on GPUs, by Transformers and Accelerate."""

    reshard: bool = True
    """Free a layer's gathered weights after its forward pass, as ZeRO-3 does; false: keep them until the backward pass."""
    offload: bool = False
    """Offload weights and optimizer state to host memory."""


def passes(batch_size: int, micro_batch_size: int | None, processes: int) -> int:
    """Count the forward and backward passes of a step in each process.

    Raises:
        UserError: the batch cannot be divided over the processes.
    """
    at_once = processes * (micro_batch_size or 1)
    if batch_size % at_once:
        micro = f" x train.micro_batch_size ({micro_batch_size})" if micro_batch_size else ""
        raise UserError(
            f"train.batch_size ({batch_size}) is not a multiple of {processes} processes{micro}; choose a multiple of {at_once}"
        )
    return batch_size // at_once if micro_batch_size else 1


def describe_step(batch_size: int, micro_batch_size: int | None, processes: int) -> str:
    """Write how a step is computed: `64 rows: 8 processes x 8 passes x 1 row`."""
    count = passes(batch_size, micro_batch_size, processes)
    factors = (processes, "process"), (count, "pass"), (batch_size // (processes * count), "row")
    whole = plural(batch_size, "row")
    return f"{whole}: {' x '.join(plural(*factor) for factor in factors)}" if processes * count > 1 else whole
