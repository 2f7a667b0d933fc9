"""The same run on one process and on two, on two and then one, with adapters on divided weights, stopped and requeued."""

import json
import os
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from remedy.models.loading import load_checkpoint, merge
from remedy.models.tokenizer import build_tokenizer
from remedy.settings import load
from remedy.train.config import RunConfig
from remedy.train.data import TraceDataset
from tests.tiny_cwm import write_tiny_cwm
from tests.train.launching import DRIVER, ROOT, SCRIPT, curve, finished, in_process, launched, start, stopped, written

pytest.importorskip("deepspeed")
ZERO3 = "train.deepspeed={stage: 3, param_persistence_threshold: 0}"
FEW = {"logging_steps": 1, "threads": 1}


@pytest.fixture(scope="module")
def lora(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The configuration of a LoRA run on a tiny code world model, embeddings trained as well."""
    folder = tmp_path_factory.mktemp("lora")
    model = str(write_tiny_cwm(folder / "tiny-cwm"))
    return written(
        folder,
        data={"task": {"kind": "permutation", "n": 3, "moves": "swaps", "length": 2}, "format": "cwm"},
        tokenizer={"kind": "hf", "name_or_path": model},
        model={"kind": "pretrained", "name_or_path": model, "lora": {"r": 4, "embeddings": "all"}},
        train={**FEW, "max_steps": 4, "batch_size": 4, "save_steps": 2, "learning_rate": 3e-3},
    )


def logits(folder: Path) -> torch.Tensor:
    model, tokenizer = load_checkpoint(str(folder))
    tokens = torch.arange(tokenizer.vocab_size)[None]
    with torch.no_grad():
        found: torch.Tensor = model(tokens).logits
    return found


@pytest.mark.slow
def test_adapters_trained_on_divided_weights_are_real_and_the_same_as_on_one_process(lora: str, tmp_path: Path) -> None:
    one, two, merged = tmp_path / "one", tmp_path / "two", tmp_path / "merged"
    words = [DRIVER, lora, f"output={two}", ZERO3, "train.gradient_checkpointing=true"]
    finished(start(words, 2, RECORD_ROWS=str(tmp_path), CHUNK="2000"))  # the loss in about ten chunks
    in_process(lora, f"output={one}")
    for (step, loss, *_), (_, expected, *_) in zip(curve(two), curve(one), strict=True):
        assert loss == pytest.approx(expected, abs=1e-4), step

    saved = load_file(two / "adapter_model.safetensors")
    assert {name.rsplit(".", 2)[-2] for name in saved} == {"lora_A", "lora_B", "embed_tokens", "lm_head"}
    for name, tensor in saved.items():
        assert tensor.abs().sum() > 0, name
    adapted = logits(two)
    torch.testing.assert_close(adapted, logits(one), atol=1e-3, rtol=0)
    base, _ = load_checkpoint(load(RunConfig, lora).model.name_or_path)  # type: ignore[union-attr]
    assert (adapted - base(torch.arange(adapted.shape[1])[None]).logits).abs().max() > 0.01  # they do something

    merge(str(two), merged)
    assert not (merged / "adapter_config.json").exists()
    torch.testing.assert_close(logits(merged), adapted, atol=1e-4, rtol=0)
    settings = json.loads((two / "deepspeed.json").read_text())
    assert settings["zero_optimization"]["stage"] == 3
    assert "auto" not in json.dumps(settings)


@pytest.mark.slow
def test_packed_rows_are_trained_on_divided_weights(tmp_path: Path) -> None:
    """Each process lays its rows' examples apart in as many groups as they make."""
    model: dict[str, Any] = {"mixers": ["rwkv7", "path_attention"], "hidden_size": 32, "num_hidden_layers": 2}
    config = written(tmp_path, model=model, train={**FEW, "max_steps": 3, "batch_size": 8})
    one, two = tmp_path / "one", tmp_path / "two"
    in_process(config, f"output={one}")
    packed = ["train.batch_size=4", "train.pack=2", "train.gradient_checkpointing=true"]
    finished(start([SCRIPT, config, f"output={two}", ZERO3, *packed], 2))
    for (step, loss, *_), (_, expected, *_) in zip(curve(two), curve(one), strict=True):
        assert loss == pytest.approx(expected, abs=1e-4), step


def recorded(folder: Path) -> list[list[list[int]]]:
    """The rows of each optimizer step, over all processes and micro-batches, sorted."""
    steps: dict[int, list[list[int]]] = defaultdict(list)
    for path in sorted(folder.glob("rank*.jsonl")):
        for line in path.read_text().splitlines():
            step, rows = json.loads(line)
            steps[step] += rows
    return [sorted(steps[step]) for step in sorted(steps)]


@pytest.mark.slow
def test_resumed_on_another_number_of_processes_no_example_comes_twice_or_is_skipped(tmp_path: Path) -> None:
    steps, every = 6, 3
    config = written(tmp_path)
    out, whole, rows = tmp_path / "run", tmp_path / "whole", tmp_path / "rows"
    rows.mkdir()
    rest = "lr_scheduler_type=constant_with_warmup save_steps=100 logging_steps=1 micro_batch_size=2"
    common = [config, f"train.max_steps={steps}", ZERO3, *(f"train.{setting}" for setting in rest.split())]
    in_process(*common, f"output={whole}", "train.deepspeed=null")
    command = [DRIVER, *common, f"output={out}"]
    stopped(start(command, 2, RECORD_ROWS=str(rows), CHUNK="100", STOP_AFTER=str(every)))
    finished(start([*command, "--resume"], RECORD_ROWS=str(rows), CHUNK="100"))

    settings = load(RunConfig, config, common[1:])
    dataset = TraceDataset(settings, build_tokenizer(settings.tokenizer, settings.data))
    batch = settings.train.batch_size
    expected = [
        sorted(row.ids.tolist() for row in dataset.__getitems__(range(s * batch, (s + 1) * batch)))
        for s in range(steps)
    ]
    assert recorded(rows) == expected
    assert [step for step, *_ in curve(out)] == list(range(1, steps + 1))
    for (step, loss, *_), (_, alone, *_) in zip(curve(out), curve(whole), strict=True):
        assert loss == pytest.approx(alone, abs=2e-4), step


FAKE_SLURM = {
    "scontrol": """#!/usr/bin/env bash
if [ "$1" = show ]; then echo 127.0.0.1; else echo "$@" >> "$SLURM_FAKE/requeued"; fi
""",
    # Tasks on this machine; the first time, a signal reaches one of two while it trains, as before a time limit.
    "srun": """#!/usr/bin/env bash
while [[ "$1" == --* ]]; do shift; done
tasks=()
for ((rank = 0; rank < SLURM_NTASKS; rank++)); do SLURM_PROCID=$rank SLURM_LOCALID=$rank "$@" & tasks+=($!); done
if [ ! -e "$SLURM_FAKE/requeued" ]; then
    until [ "$(wc -l < "$SLURM_FAKE/run/metrics.jsonl" 2>/dev/null || echo 0)" -ge 3 ]; do sleep 0.05; done
    kill -USR1 "${tasks[1]}"
fi
status=0
for task in "${tasks[@]}"; do wait "$task" || { code=$?; [ "$code" -gt "$status" ] && status=$code; }; done
exit "$status"
""",
}


@pytest.mark.slow
def test_a_slurm_job_that_is_signalled_saves_asks_to_be_requeued_and_goes_on(tmp_path: Path) -> None:
    for name, text in FAKE_SLURM.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    out, whole = tmp_path / "run", tmp_path / "whole"
    config = written(tmp_path, train={**FEW, "max_steps": 60, "batch_size": 8, "save_steps": 1000})
    environment = {
        "SLURM_FAKE": str(tmp_path),
        "SLURM_JOB_ID": "7",
        "SLURM_NTASKS": "2",
        "SLURM_JOB_NODELIST": "here",
        "SLURM_SUBMIT_DIR": str(ROOT),
        "PYTHON": sys.executable,
    }
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    command = ["env", f"PATH={path}", "bash", str(ROOT / "launch" / "train.sbatch"), config, f"output={out}"]
    status, output = launched(command, **environment)
    assert status == 0, output[-6000:]
    assert "stopped: " in output
    assert (tmp_path / "requeued").read_text() == "requeue 7\n"
    stopped = int((out / "latest").resolve().name.rsplit("-", 1)[1])
    assert 3 <= stopped < 60
    assert not (out / "model.safetensors").exists()
    status, output = launched(command, **{**environment, "SLURM_NTASKS": "1"})
    assert status == 0, output[-6000:]
    assert (tmp_path / "requeued").read_text() == "requeue 7\n"  # finished: not again
    in_process(config, f"output={whole}")
    for (step, loss, *_), (_, alone, *_) in zip(curve(out), curve(whole), strict=True):
        assert loss == pytest.approx(alone, abs=2e-4), step
