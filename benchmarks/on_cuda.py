"""On one GPU: the memory and the speed of training against `remedy plan`, and how far a model goes in each precision.

python -m benchmarks.on_cuda [--only memory|precision] [--models RUN ...]    RUN: of configs/experiment/horizon.yaml

Every mixer's kernels are timed by `python -m benchmarks.mixers`. What is trained is the trainer itself, `remedy train`'s own function,
for 60 steps; the language models have random weights and the shape of Llama-3.2-1B, since neither speed nor memory asks for others.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ["USE_HUB_KERNELS"] = "0"
os.environ["HF_HUB_OFFLINE"] = "1"
import torch
import transformers

from remedy.data_gen.settings import build
from remedy.eval.checkpoint import for_checkpoint, load_evaluated
from remedy.eval.config import EvalConfig
from remedy.eval.evaluate import evaluate
from remedy.launch.footprint import GB, footprint
from remedy.train.config import RunConfig
from remedy.train.run import train
from remedy.train.tracking import METRICS

STEPS, EVERY = 60, 10
TOKENIZER = Path("pretrained/smollm2")
LLAMA: dict[str, Any] = {
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 49152,
    "tie_word_embeddings": True,
}
LENGTHS = (64, 1024, 16384)
PROGRAMS = 200


def settings(model: dict[str, Any], tokenizer: dict[str, Any], length: int, output: str, **train: Any) -> RunConfig:
    """A run of 60 steps over whole states of five variables, `length` commands a row."""
    task = {"kind": "permutation", "n": 5, "moves": "swaps", "length": length, "distinct_values": True}
    data = {"task": task, "format": "symbolic", "context": False, "reveal": {"spacing": 1}}
    whole = {"max_steps": STEPS, "logging_steps": EVERY, "save_steps": 10_000, "precision": "bf16", **train}
    whole |= {"loss_roles": ["state"], "dataloader_num_workers": 4}
    given = {"name": "on-cuda", "output": output, "data": data, "tokenizer": tokenizer, "model": model, "train": whole}
    given["tracking"] = {"wandb": False}
    return build(RunConfig, given, "benchmarks/on_cuda.py")


def cases(folder: Path, llama: Path) -> dict[str, RunConfig]:
    symbols, words = {"kind": "symbols"}, {"kind": "hf", "name_or_path": str(TOKENIZER)}
    full = {"kind": "pretrained", "name_or_path": str(llama)}
    lora = {**full, "lora": {"r": 16, "target_modules": "all-linear"}}
    again: dict[str, Any] = {"batch_size": 8, "gradient_checkpointing": True}
    language_models = {
        "1.2B, LoRA, checkpointing": settings(lora, words, 120, str(folder / "lora"), **again),
        "1.2B, LoRA": settings(lora, words, 120, str(folder / "kept"), batch_size=8),
        "1.2B, all weights, checkpointing": settings(full, words, 120, str(folder / "full"), **again),
    }
    decoders = {
        f"280M, {', '.join(mixers)}": settings(
            {"size": "280m", "mixers": mixers}, symbols, 95, str(folder / "-".join(mixers)), batch_size=16
        )
        for mixers in (["attention"], ["deltanet"], ["gated_deltanet", "attention"], ["mamba2"])
    }
    return {**language_models, **decoders}


def memory() -> None:
    print("\n| training, bf16 | rows x tokens | planned, GB | measured, GB | measured / planned | tokens/s | MFU |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        torch.manual_seed(0)
        model: Any = transformers.LlamaForCausalLM(transformers.LlamaConfig(**LLAMA))
        model.to(torch.bfloat16)
        model.save_pretrained(folder / "llama")
        del model
        for label, config in cases(folder, folder / "llama").items():
            planned = footprint(config, 1, None)
            gc.collect()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            try:
                records = [json.loads(line) for line in (train(config) / METRICS).read_text().splitlines()]
            except Exception as error:  # the other cases are still wanted
                print(f"| {label} | failed: {str(error)[:200]} |", flush=True)
                continue
            peak = torch.cuda.max_memory_allocated()
            speeds = [one["tokens_per_second"] for one in records if "tokens_per_second" in one][1:]
            used = [one["mfu"] for one in records if "mfu" in one][1:]
            mfu = f"{statistics.median(used):.1%}" if used else "not known"
            print(
                f"| {label} | {planned.rows} x {planned.lengths.longest:,.0f} | {planned.memory / GB:.2f} | {peak / GB:.2f} | "
                f"{peak / planned.memory:.2f} | {statistics.median(speeds):,.0f} | {mfu} |",
                flush=True,
            )


def precision(models: Sequence[str]) -> None:
    """Right answers of a model without a state on the way, computed on the GPU in float32 and in bf16."""
    print("\n| model | computed in | " + " | ".join(f"{n:,} commands" for n in LENGTHS) + " | seconds |")
    print("|---|---|" + "---|" * (len(LENGTHS) + 1))
    one = {"kind": "permutation", "spacings": [float("inf")], "forcing": ["action_forced"], "lengths": list(LENGTHS)}
    for where in models:
        for kind in ("fp32", "bf16"):
            given = {"diagnostics": [{**one, "examples": PROGRAMS}], "batch_size": 50, "max_new_tokens": 100_000}
            config = build(EvalConfig, {**given, "precision": kind}, "benchmarks/on_cuda.py")
            subject = for_checkpoint(where, config)
            model, tokenizer = load_evaluated(where, config)
            begin = time.perf_counter()
            with tempfile.TemporaryDirectory() as out:
                summary = evaluate(model, tokenizer, subject, config, Path(out), where, lambda said: None)
                found = json.loads(Path(summary).read_text())
            right = [f"{100 * condition['right']['mean']:.1f} %" for condition in found["conditions"]]
            took = time.perf_counter() - begin
            print(f"| {where} | {kind} | " + " | ".join(right) + f" | {took:.0f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["memory", "precision"])
    parser.add_argument("--models", nargs="*", default=[])
    given = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("There is no CUDA device here, and nothing to measure without one.")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, transformers {transformers.__version__}")
    if given.only != "precision":
        if not (TOKENIZER / "tokenizer.json").exists():
            raise SystemExit(f"{TOKENIZER} holds no tokenizer: make pretrained")
        memory()
    if given.only != "memory":
        precision(given.models)


if __name__ == "__main__":
    main()
