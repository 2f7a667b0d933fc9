"""What needs no PyTorch runs without it, and the rest says in a line what is missing."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "transformers", "accelerate", "peft", "wandb", "datasets", "deepspeed"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
from remedy.launch.cli import main

for words in map(str.split, sys.argv[1:]):
    sys.argv[1:] = []
    try:
        main(*words)
    except SystemExit as left:
        print("status", left.code or 0, *words[:1], flush=True)
"""


def test_commands_run_without_pytorch_or_name_the_extra(tmp_path: Path) -> None:
    logs = ROOT / "examples" / "harness_logs" / "lm_eval"
    few = "write.splits.train=4 write.splits.validation=2 write.splits.test=2"
    commands = [
        f"show {ROOT}/examples/mirror.py",
        f"generate {ROOT}/configs/data/strings.yaml --out {tmp_path}/data {few}",
        f"show {tmp_path}/data",
        f"harvest heapq --out {tmp_path}/heapq.jsonl",
        f"compare {logs}/base {logs}/treated --out {tmp_path}/compared",
        f"train {ROOT}/configs/train/permutation.yaml",
    ]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *commands], capture_output=True, text=True, timeout=300, cwd=tmp_path
    )
    statuses = [line for line in done.stdout.splitlines() if line.startswith("status ")]
    names = [command.split()[0] for command in commands]
    assert statuses == [f"status {2 if name == 'train' else 0} {name}" for name in names], done.stderr[-3000:]
    assert (tmp_path / "compared" / "report.html").exists()
    last = done.stderr.splitlines()[-1]
    assert (
        last
        == "error: this needs torch, which is not installed: run pip install -e '.[train]' in your clone of cwm-remedy"
    )
