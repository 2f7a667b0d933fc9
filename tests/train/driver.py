"""`launch/train.py` that also writes down the rows each step trained on, and gets SIGTERM after step `STOP_AFTER`,
and has `CHUNK` logits in memory at once; started by tests under real launchers."""

import json
import os
import runpy
import signal
import sys
from pathlib import Path
from typing import Any

from remedy.train import losses
from remedy.train.trainer import RowTrainer

RECORD = Path(os.environ["RECORD_ROWS"])
RANK = os.environ.get("RANK", "0")
LAUNCH = Path(__file__).resolve().parents[2] / "launch" / "train.py"
losses.CHUNK = int(os.environ.get("CHUNK", losses.CHUNK))
original = RowTrainer.training_step


def recording(self: Any, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
    rows = [row[: int(n)].tolist() for row, n in zip(inputs["input_ids"], inputs["attention_mask"].sum(1))]
    with (RECORD / f"rank{RANK}.jsonl").open("a") as file:
        file.write(json.dumps([self.state.global_step, rows]) + "\n")
    if self.state.global_step + 1 == int(os.environ.get("STOP_AFTER", "-1")):
        os.kill(os.getpid(), signal.SIGTERM)
    return original(self, model, inputs, *args, **kwargs)


RowTrainer.training_step = recording  # type: ignore[method-assign]
sys.argv[0] = str(LAUNCH)
runpy.run_path(str(LAUNCH), run_name="__main__")
