"""A DeepSpeed checkpoint of one number of processes, made readable for another (DeepSpeed's universal checkpoints)."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from remedy.data_gen.config import UserError


def universal_json() -> dict[str, Any]:
    """What DeepSpeed's JSON says to read a universal checkpoint."""
    return {"checkpoint": {"load_universal": True}}


def to_universal(checkpoint: Path, step: int) -> None:
    """Write the universal form beside a checkpoint's own files, anew each time: an earlier try may have been cut off.

    Raises:
        UserError: DeepSpeed cannot convert it; the message ends on its reason.
    """
    source, target = checkpoint / f"global_step{step}", checkpoint / f"global_step{step}_universal"
    shutil.rmtree(target, ignore_errors=True)
    command = [sys.executable, "-m", "deepspeed.checkpoint.ds_to_universal", "--inject_missing_state"]
    command += ["--input_folder", str(source), "--output_folder", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["no reason given"]
        raise UserError(
            f"{checkpoint}: cannot be read by another number of processes ({lines[-1].strip()}); resume on as many as wrote it"
        )
