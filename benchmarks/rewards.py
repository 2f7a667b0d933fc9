"""Does GRPO raise the reward by the interpreter? TRL's own trainer on a tiny code world model, and the control: shuffled true traces.

python -m benchmarks.rewards FOLDER [--sft 200] [--steps 38]     needs trl

The model is a CWM of two layers with random weights, fine-tuned by `remedy train` on swaps of three variables until it is right now and
then. GRPO then pays each of its traces for the frames that are right before the first wrong one. The control is paid by the trace of
another program: what rises there too is no learning of the task. FOLDER gets the curves as `rewards.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("USE_HUB_KERNELS", "0")

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, CwmConfig, CwmForCausalLM, PreTrainedTokenizerFast

from remedy.data_gen.config import DataConfig
from remedy.data_gen.roles import Special
from remedy.models.tokenizer import build_tokenizer
from remedy.models.tokenizer_backends import BytePairSettings
from remedy.rewards import TraceReward, dataset
from remedy.settings import build
from remedy.train.config import RunConfig
from remedy.train.run import train

DATA = {"task": {"kind": "permutation", "n": 3, "moves": "swaps", "length": [1, 2]}, "format": "cwm"}
ENDS = 10
"""Steps at the beginning and at the end whose rewards are averaged."""


def write_model(folder: Path, data: DataConfig) -> None:
    """Write a CWM with random weights, and a tokenizer of 350 tokens made from its traces."""
    backend: Any = build_tokenizer(BytePairSettings(vocab_size=350), data).backend
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend.model,
        bos_token=Special.BEGIN_OF_TEXT.value,
        eos_token=Special.END_OF_TEXT.value,
        pad_token=Special.PAD.value,
        additional_special_tokens=[s.value for s in Special],
    )
    tokenizer.save_pretrained(folder)
    config = CwmConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=32,
        layer_types=["full_attention"] * 2,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    torch.manual_seed(0)
    CwmForCausalLM(config).save_pretrained(folder)


def fine_tune(folder: Path, steps: int) -> Path:
    """Fine-tune the model on true traces; return the run's folder."""
    start, run = str(folder / "tiny"), folder / "sft"
    settings = {
        "name": "sft",
        "output": str(run),
        "data": DATA,
        "tokenizer": {"kind": "hf", "name_or_path": start},
        "model": {"kind": "pretrained", "name_or_path": start},
        "train": {
            "max_steps": steps,
            "batch_size": 16,
            "learning_rate": 2e-3,
            "lr_scheduler_type": "constant_with_warmup",
            "logging_steps": 50,
            "save_steps": 100,
            "threads": 1,
        },
        "tracking": {"wandb": False},
    }
    if not (run / "complete.json").exists():
        train(build(RunConfig, settings, "sft"))
    return run


def grpo(run: Path, rows: Dataset, out: Path, steps: int) -> list[dict[str, float]]:
    """Train by TRL's trainer; the mean reward of each step, with its deviation over the completions."""
    from trl import GRPOConfig, GRPOTrainer

    tokenizer = AutoTokenizer.from_pretrained(run)
    arguments = GRPOConfig(
        str(out),
        per_device_train_batch_size=64,
        num_generations=16,
        max_completion_length=280,
        max_steps=steps,
        learning_rate=5e-5,
        lr_scheduler_type="constant",
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        bf16=False,
        seed=0,
    )
    trainer = GRPOTrainer(
        AutoModelForCausalLM.from_pretrained(run),
        reward_funcs=TraceReward(tokenizer),
        args=arguments,
        train_dataset=rows,
        processing_class=tokenizer,
    )
    trainer.train()
    return [
        {"step": line["step"], "reward": line["reward"], "spread": line["rewards/trace_prefix/std"]}
        for line in trainer.state.log_history
        if "reward" in line
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sft", type=int, default=200, help="steps of fine-tuning on true traces")
    parser.add_argument("--steps", type=int, default=38, help="steps of GRPO")
    given = parser.parse_args()
    torch.set_num_threads(1)
    data = build(DataConfig, DATA, "data")
    if not (given.folder / "tiny").exists():
        write_model(given.folder / "tiny", data)
    run = fine_tune(given.folder, given.sft)
    rows = dataset(data, 1000)
    shifted = [*rows["trace"][1:], rows["trace"][0]]
    sides = {"rewarded": rows, "control": rows.remove_columns("trace").add_column("trace", shifted)}
    curves = {}
    for side, its_rows in sides.items():
        begin = time.perf_counter()
        curves[side] = grpo(run, its_rows, given.folder / side, given.steps)
        (given.folder / "rewards.json").write_text(json.dumps(curves, indent=1))
        first, last = curves[side][:ENDS], curves[side][-ENDS:]
        means = [sum(line["reward"] for line in lines) / len(lines) for lines in (first, last)]
        print(f"{side}: {means[0]:.3f} to {means[1]:.3f} in {time.perf_counter() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
