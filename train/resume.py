"""Where a run starts: anew, or at the newest intact checkpoint of the same run."""

from __future__ import annotations

from pathlib import Path

from remedy.data_gen.settings import UserError, load
from remedy.train.checkpoints import Sealed, latest_intact
from remedy.train.config import RunConfig

CONFIG_FILE = "config.yaml"
FREE_ON_RESUME = {
    "logging_steps",
    "save_steps",
    "save_total_limit",
    "threads",
    "dataloader_num_workers",
    "torch_compile",
    "gradient_accumulation_steps",
    "gradient_checkpointing",
}
"""Training settings that may change when a run is resumed: what is computed stays the same. Any other makes it another run."""


def starting_point(config: RunConfig, output: Path, resume: bool) -> tuple[Sealed | None, dict[Path, str]]:
    """The checkpoint to resume from, and what is wrong with each newer one. Changes nothing: other processes look as well.

    Raises:
        UserError: the output holds checkpoints and `resume` was not asked for, or they are another run's.
    """
    checkpoint, damaged = latest_intact(output)
    if resume:
        _check_same_run(config, output)
        return checkpoint, damaged
    if checkpoint is not None:
        raise UserError(
            f"output: {output} already holds {checkpoint.path.name}; pass --resume to continue it, or choose another output"
        )
    return None, {}


def _check_same_run(config: RunConfig, output: Path) -> None:
    path = output / CONFIG_FILE
    if not path.exists():
        return
    before, now = load(RunConfig, path).model_dump(), config.model_dump()
    for key in ("data", "mixture", "tokenizer", "model", "shards"):
        if before[key] != now[key]:
            raise UserError(f"--resume: `{key}` differs from that of the run in {output} ({path}); use another output")
    for key, value in now["train"].items():
        if key not in FREE_ON_RESUME and before["train"][key] != value:
            raise UserError(
                f"--resume: train.{key} is {value} but was {before['train'][key]} in {path}; use another output"
            )
