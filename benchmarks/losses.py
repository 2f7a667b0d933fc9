"""The loss from the logits of all tokens, as models compute it, and at supervised tokens in chunks, as training does
(`train/losses.py`), with Llama-3's vocabulary, in turns on the same weights: the processor's seconds, and the memory that a step takes
beyond what is there before it.

The head of the 280m preset alone; forward, backward and optimizer step of that preset with two layers in place of 18; the same of
LoRA on a Llama of two layers of width 512, random weights. Linux only: peaks are those of the process (VmHWM).

python benchmarks/losses.py [head | decoder | lora ...]
"""

from __future__ import annotations

import os
import platform
import re
import statistics
import sys
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["USE_HUB_KERNELS"] = "0"
import peft
import torch
import transformers
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

from remedy.models.config import DecoderSettings
from remedy.models.decoder import DecoderForCausalLM
from remedy.models.decoder_config import DecoderConfig
from remedy.train.losses import CHUNK, Head, mean_loss

WORDS, ROWS, TOKENS, STEPS = 128_256, 4, 512, 2
SHARES = {"head": (1.0, 0.5), "decoder": (0.5,), "lora": (0.5,)}
"""Supervised tokens of all."""


class HeadAlone(nn.Module):
    """Hidden states that need a gradient, as from layers below, and the head; what else a model has is left out."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.config = config
        self.hidden = nn.Parameter(torch.randn(ROWS, TOKENS, config.hidden_size))
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def get_output_embeddings(self) -> nn.Module:
        return self.lm_head

    def forward(self, tokens: torch.Tensor, labels: torch.Tensor | None = None) -> Any:
        logits = self.lm_head(self.hidden)
        loss = None
        if labels is not None:
            loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        return transformers.modeling_outputs.CausalLMOutputWithPast(loss=loss, logits=logits)


def head() -> Any:
    return HeadAlone(_decoder_config())


def decoder() -> Any:
    return DecoderForCausalLM(_decoder_config())


def lora() -> Any:
    sizes: dict[str, Any] = {"hidden_size": 512, "intermediate_size": 4672, "num_attention_heads": 8}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=WORDS, num_hidden_layers=2, **sizes))
    return peft.get_peft_model(model, peft.LoraConfig(r=16, target_modules="all-linear", task_type="CAUSAL_LM"))


def _decoder_config() -> DecoderConfig:
    return DecoderConfig.from_settings(DecoderSettings(size="280m", num_hidden_layers=2), WORDS)


def compared(build: Callable[[], Any], share: float) -> tuple[dict[str, list[float]], dict[str, list[float]], float]:
    """Seconds and megabytes of every step, by how the loss is computed; and how far the two losses were apart.

    No step is left out as a first: what is large is given back to the system after each, and taken anew.
    """
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = build().train()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=0.0, weight_decay=0.0)  # so that both ways see the same weights
    tokens = torch.randint(WORDS, (ROWS, TOKENS))
    labels = tokens.where(torch.rand(tokens.shape) < share, -100)
    seconds: dict[str, list[float]] = {"all logits": [], "chunks": []}
    memory: dict[str, list[float]] = {"all logits": [], "chunks": []}
    apart = 0.0
    for _ in range(STEPS):
        losses = []
        for way in seconds:
            before, begin = _reset_peak(), time.process_time()
            if way == "chunks":
                chunked = Head(model)
                with chunked.learning(labels):
                    loss = mean_loss(model(tokens), labels)
            else:
                loss = model(tokens, labels=labels).loss
            loss.backward()
            optimizer.step()
            seconds[way].append(time.process_time() - begin)
            memory[way].append((_status("VmHWM") - before) / 1000)
            if way == "chunks":
                chunked.remove()
            optimizer.zero_grad()
            losses.append(float(loss.detach()))
            del loss
        apart = max(apart, abs(losses[0] / losses[1] - 1))
    return seconds, memory, apart


def _reset_peak() -> int:
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _status(key: str) -> int:
    """A figure of this process in kB."""
    found = re.search(rf"{key}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1])


def _report(name: str, share: float) -> None:
    seconds, memory, apart = compared({"head": head, "decoder": decoder, "lora": lora}[name], share)
    parts = [
        f"{way} {statistics.median(memory[way]):,.0f} MB, {ROWS * TOKENS / statistics.median(seconds[way]):,.1f} tokens/s"
        for way in seconds
    ]
    ratio = statistics.median(a / b for a, b in zip(seconds["all logits"], seconds["chunks"]))
    print(
        f"{name}, {share:.0%} supervised: {'; '.join(parts)} ({ratio:.2f} times); losses {apart:.1g} apart", flush=True
    )


def main() -> None:
    versions = f"Python {platform.python_version()}, torch {torch.__version__}, transformers {transformers.__version__}"
    print(f"{versions}, peft {peft.__version__}, one thread of {os.cpu_count()} cores, load {os.getloadavg()[0]:.2f}")
    print(
        f"{ROWS} rows of {TOKENS} tokens, vocabulary {WORDS:,}, float32; chunks of {CHUNK // WORDS} tokens", flush=True
    )
    for name in sys.argv[1:] or SHARES:
        for share in SHARES[
            name
        ]:  # each in a process of its own: what one leaves behind in the allocator is not the other's
            process = get_context("spawn").Process(target=_report, args=(name, share))
            process.start()
            process.join()


if __name__ == "__main__":
    main()
