"""`launch/train.py` under FSDP2 on CPUs, which Accelerate offers for GPUs alone; started by tests."""

import os
import runpy
import sys
from pathlib import Path
from typing import Any

import torch
from accelerate.state import AcceleratorState
from accelerate.utils import DistributedType
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

from remedy.train import arguments
from remedy.train.trainer import RowTrainer

LAUNCH = Path(__file__).resolve().parents[2] / "launch" / "train.py"
original_state, original_step = AcceleratorState.__init__, RowTrainer.training_step


def divided(self: Any, *args: Any, fsdp_plugin: Any = None, **kwargs: Any) -> None:
    original_state(self, *args, fsdp_plugin=fsdp_plugin, **kwargs)
    plugin = fsdp_plugin or vars(self).get("fsdp_plugin")
    if plugin is not None:  # as Accelerate does for GPUs
        self.distributed_type, self.fsdp_plugin = DistributedType.FSDP, plugin


def checked(self: Any, model: Any, *args: Any, **kwargs: Any) -> Any:
    assert isinstance(model, FSDPModule)
    if self.state.global_step == 0:  # after a forward pass the last layer stays gathered
        weights = list(model.parameters())
        assert all(isinstance(weight, DTensor) for weight in weights)
        assert sum(weight.to_local().numel() for weight in weights) < 0.6 * sum(weight.numel() for weight in weights)
    return original_step(self, model, *args, **kwargs)


AcceleratorState.__init__ = divided  # type: ignore[method-assign]
RowTrainer.training_step = checked  # type: ignore[method-assign]
arguments.check_fsdp = lambda on_cpu, world_size: None
torch.manual_seed(int(os.environ.get("RANK", "0")))
sys.argv[0] = str(LAUNCH)
runpy.run_path(str(LAUNCH), run_name="__main__")
