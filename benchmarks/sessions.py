"""A finished run that follows permutations, and test programs for it as tokens, taken apart: what the scripts on its states read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, cast

import torch
from torch import Tensor

from remedy.data_gen.roles import Role
from remedy.data_gen.settings import load
from remedy.data_gen.tasks.permutation import PermutationTask
from remedy.models.loading import load_checkpoint
from remedy.models.protocol import CausalLM
from remedy.models.tokenizer import TraceTokenizer
from remedy.train.config import RunConfig
from remedy.train.data import encode_rows


class Run(NamedTuple):
    """A run's settings, and what it trained."""

    config: RunConfig
    model: CausalLM
    tokenizer: TraceTokenizer

    @property
    def variables(self) -> int:
        """How many variables its programs have."""
        return cast(PermutationTask, self.config.data.task).n


class Programs(NamedTuple):
    """Programs of one length. `begins`: what stands before the first command (B, p), in which the variables' names and values stand
    as often as `values` (c, n) has rows of places; `commands` (B, N); `ends`: names and values after the last command (B, 2 n)."""

    begins: Tensor
    values: Tensor
    commands: Tensor
    ends: Tensor


def opened(path: Path) -> Run:
    """A run of an experiment, or its `model` folder, in float32."""
    folder = path if (path / "config.yaml").exists() else path / "model"
    return Run(load(RunConfig, folder / "config.yaml"), *load_checkpoint(str(folder), precision="fp32"))


def programs(run: Run, length: int, numbers: Sequence[int]) -> Programs:
    """Test programs of a length, with no state on the way."""
    data = run.config.data.changed({"task.length": length, "reveal.spacing": math.inf}, "--lengths")
    rows = encode_rows(data, run.tokenizer, "test", numbers)
    ids, roles = torch.tensor([row.ids.tolist() for row in rows]), rows[0].roles.tolist()
    first, end = roles.index(Role.ACTION), len(roles) - roles[::-1].index(Role.ACTION)
    begins, ends = ids[:, :first], ids[:, end : end + 2 * run.variables]
    names = (
        torch.isin(begins[0], ends[0, ::2]).nonzero().reshape(-1, run.variables)
    )  # those of the context and of the first frame
    return Programs(begins, names + 1, ids[:, first:end], ends)
