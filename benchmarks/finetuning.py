"""Fine-tuning of a pretrained model on one core: `remedy train`, plain loops in PyTorch, and TRL, on the same rows in turns.

python benchmarks/finetuning.py [FOLDER [ROUNDS]]

A rate is tokens per second of processor time, so that other work on the machine counts little. FOLDER is what `make pretrained` wrote.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["USE_HUB_KERNELS"] = "0"
os.environ.setdefault("HF_HUB_OFFLINE", "1")
import peft
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer

from remedy.models.tokenizer import TraceTokenizer, build_tokenizer
from remedy.train.config import RunConfig
from remedy.train.data import Collator, TraceDataset
from remedy.train.run import train

STEPS, ROWS, RATE = 4, 2, 1e-4
MODEL = sys.argv[1] if len(sys.argv) > 1 else "pretrained/smollm2"
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 3
marks: list[float] = []


def settings(lora: bool, output: str) -> RunConfig:
    functions = ["mirror_str", "rotate_str", "repeat_str", "add_prefix"]
    task = {"kind": "composition", "functions": functions, "depth": 1, "input_length": [2, 5], "alphabet": "abcdef"}
    return RunConfig.model_validate(
        {
            "output": output,
            "data": {"task": task, "format": "cwm", "reveal": {"locals": "diff"}},
            "tokenizer": {"kind": "hf", "name_or_path": MODEL},
            "model": {"kind": "pretrained", "name_or_path": MODEL, "lora": {"r": 16} if lora else None},
            "train": {"max_steps": STEPS, "batch_size": ROWS, "precision": "bf16", "threads": 1, "learning_rate": RATE},
            "tracking": {"report_to": []},
        }
    )


def plain(tokenizer: TraceTokenizer, dtype: torch.dtype, lora: bool) -> Any:
    model: Any = AutoModelForCausalLM.from_pretrained(MODEL, dtype=dtype)
    model.resize_token_embeddings(tokenizer.vocab_size)
    if lora:
        options = peft.LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")
        model = peft.get_peft_model(model, options)
    return model.train()


def remedy(lora: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        train(settings(lora, folder))


def loop(tokenizer: TraceTokenizer, batches: list[Any], lora: bool) -> None:
    """LoRA in float32 under autocast, or all weights in bfloat16, as such loops are written."""
    model = plain(tokenizer, torch.bfloat16, lora)
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=RATE)
    for batch in batches:
        marks.append(time.process_time())
        with torch.autocast("cpu", torch.bfloat16, enabled=lora):
            loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        optimizer.zero_grad()


def trl(tokenizer: TraceTokenizer, batches: list[Any], lora: bool) -> None:
    import datasets
    from trl import SFTConfig, SFTTrainer

    rows = [
        {name: batch[name][i][batch["attention_mask"][i].bool()].tolist() for name in ("input_ids", "labels")}
        for batch in batches
        for i in range(ROWS)
    ]
    with tempfile.TemporaryDirectory() as folder:
        options: dict[str, Any] = {"bf16": True, "use_cpu": True, "gradient_checkpointing": False, "max_length": None}
        options |= {"max_steps": STEPS, "per_device_train_batch_size": ROWS, "learning_rate": RATE}
        options |= {
            "save_strategy": "no",
            "report_to": [],
            "disable_tqdm": True,
            "train_sampling_strategy": "sequential",
        }
        model = plain(tokenizer, torch.bfloat16 if lora else torch.float32, lora)
        data = datasets.Dataset.from_list(rows)
        text = AutoTokenizer.from_pretrained(MODEL)
        SFTTrainer(model, args=SFTConfig(folder, **options), train_dataset=data, processing_class=text).train()


def main() -> None:
    torch.set_num_threads(1)
    config = settings(False, "unused")
    tokenizer = build_tokenizer(config.tokenizer, config.data)
    rows, collate = TraceDataset(config, tokenizer), Collator(tokenizer.pad_id, config.train.supervised())
    batches = [collate(rows.__getitems__(range(step * ROWS, (step + 1) * ROWS))) for step in range(STEPS)]
    sizes = [int(batch["attention_mask"].sum()) for batch in batches]
    whole: Any = Trainer.get_batch_samples

    def marked(*args: Any, **kwargs: Any) -> Any:
        marks.append(time.process_time())
        return whole(*args, **kwargs)

    Trainer.get_batch_samples = marked  # type: ignore[method-assign]
    ways: dict[str, Callable[[bool], None]] = {
        "remedy train": remedy,
        "a plain loop": lambda lora: loop(tokenizer, batches, lora),
        "TRL": lambda lora: trl(tokenizer, batches, lora),
    }
    rates: dict[tuple[str, bool], list[float]] = {}
    for _ in range(ROUNDS):
        for lora in (True, False):
            for name, way in ways.items():
                marks.clear()
                try:
                    way(lora)
                except (ImportError, ValueError, RuntimeError, AttributeError, TypeError) as error:
                    print(f"{name}, {'LoRA' if lora else 'all weights'}: skipped ({str(error)[:200]})")
                    continue
                # From the second step on; what follows the last step's mark is not timed.
                found = [size / (end - begin) for size, begin, end in zip(sizes[1:], marks[1:], marks[2:])]
                rates.setdefault((name, lora), []).extend(found)
    print(
        f"torch {torch.__version__}, one thread of {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {sizes} tokens"
    )
    for (name, lora), found in rates.items():
        ratio = statistics.median(found) / statistics.median(rates["a plain loop", lora])
        kind = "LoRA" if lora else "all weights"
        print(f"{name}, {kind}: {statistics.median(found):.0f} tokens/s of processor time, {ratio:.2f} of a plain loop")


if __name__ == "__main__":
    main()
