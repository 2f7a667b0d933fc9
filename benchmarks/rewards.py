"""Does GRPO raise the reward by the interpreter? TRL's own trainer on a tiny code world model, and the control: shuffled true traces.

python -m benchmarks.rewards FOLDER [--seeds 0 1 2] [--sft 200] [--steps 30]     needs trl

For each seed a CWM of two layers with random weights is fine-tuned by `remedy train` on swaps of three variables until it is right
now and then. GRPO then pays each of its traces for the frames that are right before the first wrong one. The control starts from the
same model and is paid by the trace of another program: what rises there too is no learning of the task. Both are judged alike: the
reward by true traces, decoding greedily, on programs of the test split, before and after. FOLDER gets curves and scores as
`rewards.json`.

Said before the seeds 0, 1 and 2 were run, of the mean reward on the test programs:
1. after GRPO by true traces it is higher than before in at least two of the three seeds;
2. after the control it is not: it falls, or rises by less than 0.02, in the mean of the seeds;
3. true traces beat the control in all three seeds. An interval over three seeds will include 0 unless they agree closely.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("USE_HUB_KERNELS", "0")

import torch
from datasets import Dataset
from scipy.special import stdtrit
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
TESTED = 100
"""Programs of the test split."""
LONGEST = 280
"""Tokens of a written trace."""


def write_model(folder: Path, data: DataConfig, seed: int) -> None:
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
    torch.manual_seed(seed)
    CwmForCausalLM(config).save_pretrained(folder)


def fine_tune(folder: Path, steps: int, seed: int) -> Path:
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
            "seed": seed,
            "data_seed": seed,
        },
        "tracking": {"report_to": []},
    }
    if not (run / "complete.json").exists():
        train(build(RunConfig, settings, "sft"))
    return run


@torch.no_grad()
def tested(model: Any, tokenizer: Any, rows: Dataset) -> float:
    """The mean reward by true traces of what a model writes greedily."""
    reward, prompts = TraceReward(tokenizer), list(rows["prompt"])
    given = tokenizer(prompts, return_tensors="pt", padding=True, padding_side="left", add_special_tokens=False)
    written = model.eval().generate(**given, do_sample=False, max_new_tokens=LONGEST)[:, given["input_ids"].shape[1] :]
    paid = reward(written.tolist(), list(rows["trace"]), list(rows["answer_frames"]))
    return sum(one or 0.0 for one in paid) / len(paid)


def grpo(run: Path, rows: Dataset, out: Path, steps: int, seed: int) -> tuple[list[dict[str, float]], Any]:
    """Train by TRL's trainer; the mean reward of each step with its deviation over the completions, and the model."""
    from trl import GRPOConfig, GRPOTrainer

    tokenizer = AutoTokenizer.from_pretrained(run)
    arguments = GRPOConfig(
        str(out),
        per_device_train_batch_size=64,
        num_generations=16,
        max_completion_length=LONGEST,
        max_steps=steps,
        learning_rate=5e-5,
        lr_scheduler_type="constant",
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        bf16=False,
        seed=seed,
    )
    trainer = GRPOTrainer(
        AutoModelForCausalLM.from_pretrained(run),
        reward_funcs=TraceReward(tokenizer),
        args=arguments,
        train_dataset=rows,
        processing_class=tokenizer,
    )
    trainer.train()
    curve = [
        {"step": line["step"], "reward": line["reward"], "spread": line["rewards/trace_prefix/std"]}
        for line in trainer.state.log_history
        if "reward" in line
    ]
    return curve, trainer.model


def trial(folder: Path, seed: int, sft: int, steps: int) -> dict[str, Any]:
    """Run a seed from random weights to both sides' curves and scores."""
    data = build(DataConfig, DATA, "data")
    if not (folder / "tiny").exists():
        write_model(folder / "tiny", data, seed)
    run = fine_tune(folder, sft, seed)
    tokenizer, held_out = AutoTokenizer.from_pretrained(run), dataset(data, TESTED, "test")
    rows = dataset(data, 1000)
    shifted = [*rows["trace"][1:], rows["trace"][0]]
    sides = {"rewarded": rows, "control": rows.remove_columns("trace").add_column("trace", shifted)}
    found: dict[str, Any] = {"before": tested(AutoModelForCausalLM.from_pretrained(run), tokenizer, held_out)}
    for side, its_rows in sides.items():
        begin = time.perf_counter()
        curve, model = grpo(run, its_rows, folder / side, steps, seed)
        ends = [sum(line["reward"] for line in lines) / len(lines) for lines in (curve[:ENDS], curve[-ENDS:])]
        score = tested(model, tokenizer, held_out)
        found[side] = {"curve": curve, "ends": ends, "after": score, "seconds": time.perf_counter() - begin}
        print(
            f"seed {seed}, {side}: {ends[0]:.3f} to {ends[1]:.3f} in training, {found['before']:.3f} to {score:.3f} on "
            f"test programs, {found[side]['seconds']:.0f} s",
            flush=True,
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="of weights, training and GRPO")
    parser.add_argument("--sft", type=int, default=200, help="steps of fine-tuning on true traces")
    parser.add_argument("--steps", type=int, default=30, help="steps of GRPO")
    given = parser.parse_args()
    torch.set_num_threads(1)
    found = {}
    for seed in given.seeds:
        found[seed] = trial(given.folder / f"seed-{seed}", seed, given.sft, given.steps)
        (given.folder / "rewards.json").write_text(json.dumps(found, indent=1))
    gains = [one["rewarded"]["after"] - one["control"]["after"] for one in found.values()]
    if len(gains) > 1:
        mean = statistics.mean(gains)
        half = stdtrit(len(gains) - 1, 0.975) * statistics.stdev(gains) / len(gains) ** 0.5
        print(f"rewarded above the control on test programs: {mean:.3f} (95 %: {mean - half:.3f} to {mean + half:.3f})")


if __name__ == "__main__":
    main()
