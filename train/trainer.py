"""Hugging Face's Trainer on rows in order, and messages for its errors."""

from __future__ import annotations

import contextlib
import errno
import logging
import math
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError
from transformers import PrinterCallback, Trainer, TrainerState
from transformers.trainer import TRAINER_STATE_NAME

from remedy.files import writing
from remedy.models.context_length import context_limit, refuse_longer
from remedy.models.decoder import DecoderForCausalLM
from remedy.models.flops import device_peak, training_flops
from remedy.models.mixers.base import Mixer
from remedy.models.positions import try_packing
from remedy.models.protocol import CausalLM
from remedy.models.tokenizer import TraceTokenizer
from remedy.processes import this_process
from remedy.settings import UserError
from remedy.train.checkpoints import latest_intact
from remedy.train.config import DIVERGED, RunConfig
from remedy.train.data import Collator, Rows, by_length, example_lengths
from remedy.train.losses import Head, mean_loss
from remedy.train.masters import MasterWeights
from remedy.train.processes import largest, summed
from remedy.train.validation import Sample, Validation, validation_rows

log = logging.getLogger(__name__)
NO_MEMORY = ("allocate memory", "DataLoader worker")
"""Texts of RuntimeErrors for lack of memory, which also kills data workers."""


@contextlib.contextmanager
def saving(folder: Path) -> Iterator[None]:
    """Make a full disk's errors in saving tensors name the folder.

    Raises:
        OSError: the library names the system's error.
        UserError: it does not.
    """
    with writing(folder):
        try:
            yield
        except SafetensorError as error:
            number = re.search(r"\(os error (\d+)\)", str(error))
            raise OSError(int(number[1]) if number else errno.EIO, "") from None
        except RuntimeError as error:
            # PyTorch's writer names no error number.
            if not re.search("inline_container|PytorchStreamWriter", str(error)):
                raise
            raise UserError(
                f"{folder}: a file could not be written to its end: make room and give the same command again, with --resume"
            ) from None


class NonFiniteLoss(Exception):
    """A step whose loss is NaN or infinite."""

    def __init__(self, step: int) -> None:
        super().__init__(step)
        self.step = step


def out_of_patience(state: TrainerState, every: float | None, patience: int | None) -> bool:
    """Say if the last `patience` validations, one `every` steps, brought no improvement."""
    if patience is None or not every or state.best_global_step is None:
        return False
    return state.global_step - state.best_global_step >= patience * every


class RowTrainer(Trainer):
    """Trainer on rows in index order that validates and stops at non-finite losses.

    It logs tokens per second over all processes, the share of time spent on data, and MFU (model FLOP utilisation).
    Before a pretrained model's first step, it tests if packed examples stay apart and if all logits are needed
    (`train/losses.py`; `all_logits`: why).

    `show`: receives samples after each validation. `peak`: a device's FLOP/s. `shape`: (rows, tokens) of the last batch.

    Raises:
        UserError: an example is longer than the model's table of positions, label smoothing or loss weights meet a
            model that uses its own loss, or as `validation_rows`.
    """

    def __init__(
        self,
        config: RunConfig,
        tokenizer: TraceTokenizer,
        rows: Any = None,
        show: Callable[[int, list[Sample]], None] | None = None,
        **kwargs: Any,
    ) -> None:
        settings, self.validation = config.train, None
        limit = context_limit(cast(CausalLM, kwargs["model"]))
        if settings.evaluate_every is not None:
            size = kwargs["args"].per_device_train_batch_size
            held_out = validation_rows(config, tokenizer)
            self.validation = Validation(held_out, tokenizer.pad_id, settings.supervised(), size)
        super().__init__(
            train_dataset=rows,
            eval_dataset=cast(Any, self.validation.rows if self.validation is not None else None),
            data_collator=Collator(
                tokenizer.pad_id,
                settings.supervised(),
                # On a CPU, oneDNN keeps kernels for each width that is computed in bf16.
                multiple=16 if settings.precision == "bf16" and kwargs["args"].device.type == "cpu" else 1,
                limit=limit.tokens if limit is not None else None,
                weights=settings.weights() if settings.loss_weights else None,
            ),
            compute_loss_func=mean_loss,
            **kwargs,
        )
        self.remove_callback(PrinterCallback)
        self.config, self.tokenizer, self.show = config, tokenizer, show
        self.peak = device_peak(config.tracking.peak_tflops)
        self.patience, self.pack = settings.patience, settings.pack
        self.head: Head | None = Head(cast(CausalLM, self.model), settings.label_smoothing_factor)
        self.untried = not isinstance(self.model, DecoderForCausalLM)
        self.all_logits = "not tried: no step was made after the run was resumed" if self.untried else None
        self.current_tokens = 0
        self._cost = training_flops(cast(CausalLM, self.model))
        self._limit = limit
        if self.validation is not None:
            refuse_longer(self._limit, max(row.size for row in self.validation.rows))
        self.shape: tuple[int, ...] = ()
        self._data_seconds = 0.0
        self._tokens = 0
        self._flops = 0.0
        self._since = time.perf_counter()
        self._losses: list[tuple[int, torch.Tensor]] = []

    def get_decay_parameter_names(self, model: torch.nn.Module) -> list[str]:
        """Name the parameters with weight decay: no norms, biases or mixers' exceptions."""
        undecayed = {
            f"{name}.{parameter}"
            for name, module in model.named_modules()
            if isinstance(module, Mixer)
            for parameter in module.undecayed
        }
        return [name for name in super().get_decay_parameter_names(model) if name not in undecayed]

    def get_batch_samples(
        self, epoch_iterator: Iterator[Any], num_batches: int, device: torch.device
    ) -> tuple[list[Any], torch.Tensor | int | None]:
        begin = time.perf_counter()
        batches, items = super().get_batch_samples(epoch_iterator, num_batches, device)
        self._data_seconds += time.perf_counter() - begin
        if items is not None and "loss_weights" in batches[0]:
            items = summed(torch.stack([batch["loss_weights"][:, 1:].sum() for batch in batches]).sum()).to(device)
        if items is not None:  # so that a step without supervised tokens has loss 0, also with the model's own loss
            items = torch.as_tensor(items).clamp(min=1)
        if self.model_accepts_loss_kwargs:  # otherwise its loss is a mean of the pieces' means
            batches = by_length(batches, cast(Collator, self.data_collator))
        for batch in batches:
            self.count(example_lengths(batch))
        return batches, items

    def count(self, lengths: list[int]) -> None:
        """Add examples of these lengths to tokens and FLOPs.

        Raises:
            UserError: one is longer than the model's table of positions.
        """
        refuse_longer(self._limit, max(lengths))
        tokens, flops = sum(lengths), self._cost.of(lengths)
        self._tokens += tokens
        self._flops += flops
        self.current_tokens += tokens
        self.current_flos += round(flops)

    def floating_point_ops(self, inputs: dict[str, Any]) -> int:
        """Return 0: `count` adds the FLOPs."""
        return 0

    def store_flos(self) -> None:
        """Add FLOPs and tokens of all processes to the state."""
        tokens, flops = summed(torch.tensor([self.current_tokens, self.current_flos], dtype=torch.float64)).tolist()
        self.state.num_input_tokens_seen += round(tokens)
        self.state.total_flos += flops
        self.current_tokens, self.current_flos = 0, 0

    def training_step(self, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> torch.Tensor:
        self.shape = tuple(inputs["input_ids"].shape)
        # Rows of several examples: Transformers tells them apart only without a mask.
        if "position_ids" in inputs:
            inputs = {name: value for name, value in inputs.items() if name != "attention_mask"}
        if self.untried:
            self._try(model)
        loss = super().training_step(model, inputs, *args, **kwargs)
        self._losses.append((self.state.global_step + 1, loss.detach()))
        return loss

    def compute_loss(self, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        weights = inputs.pop("loss_weights", None)
        with self.head.learning(inputs["labels"], weights) if self.head is not None else contextlib.nullcontext():
            return super().compute_loss(model, inputs, *args, **kwargs)

    def _try(self, model: Any) -> None:
        """Test the model on every process: under ZeRO-3 none has it whole."""
        assert self.head is not None
        model.eval()
        with self.compute_loss_context_manager():
            if self.pack > 1:
                try_packing(model, self.pack, self.args.device)
            self.all_logits = self.head.refusal(model, self.args.device)
        model.train()
        self.untried = False
        if self.all_logits is not None:
            settings = self.config.train
            for key, default in (("label_smoothing_factor", 0), ("loss_weights", {})):
                if getattr(settings, key) != default:
                    raise UserError(
                        f"train.{key}: this model's own loss is used, which has none ({self.all_logits}): set it to {default}"
                    )
            self.head.remove()
            self.head, self.compute_loss_func = None, None
            if this_process().is_main:
                log.info("logits of all tokens are held at once: %s", self.all_logits)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        self.check_losses()
        if "loss" in logs:
            now = time.perf_counter()
            elapsed = max(now - self._since, 1e-9)
            logs["tokens_per_second"] = round(self._tokens * self.args.world_size / elapsed, 1)
            logs["data_wait"] = round(self._data_seconds / elapsed, 4)
            if self.peak:
                logs["mfu"] = float(f"{self._flops / elapsed / self.peak:.4g}")
            self._since, self._tokens, self._data_seconds, self._flops = now, 0, 0.0, 0.0
        super().log(logs, start_time)

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Validate, log and return `eval_...` metrics, without drawing random numbers."""
        assert self.validation is not None
        begin = time.perf_counter()
        self.check_losses()
        model = self.model_wrapped
        model.eval()
        with self.compute_loss_context_manager():
            metrics = self.validation.metrics(cast(CausalLM, model), self.args.device, this_process(), self.head)
            if self.show is not None:
                samples = self.validation.samples(cast(CausalLM, model), self.args.device, self.tokenizer)
                self.show(self.state.global_step, samples)
        model.train()
        figures = {f"eval_{name}": value for name, value in metrics.items()}
        self.log(figures)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, figures)
        self._since += time.perf_counter() - begin  # not a part of training's speed
        return figures

    def ended_early(self, checkpoint: Path | None) -> bool:
        """Say if a checkpoint's run is out of patience; if so, load its state."""
        if checkpoint is None or self.patience is None:
            return False
        state = TrainerState.load_from_json(str(checkpoint / TRAINER_STATE_NAME))
        if not out_of_patience(state, self.args.eval_steps, self.patience):
            return False
        self.state = state
        return True

    def _determine_best_metric(self, *args: Any, **kwargs: Any) -> bool:
        better = super()._determine_best_metric(*args, **kwargs)
        # The best step gets a checkpoint, even if none is due.
        if better:
            self.control.should_save = True
        elif out_of_patience(self.state, self.args.eval_steps, self.patience):
            self.control.should_save = self.control.should_training_stop = True
        return better

    def _save_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        self.check_losses()  # first, so that a diverged model replaces no good checkpoint
        with saving(Path(self.args.output_dir or ".")):
            super()._save_checkpoint(*args, **kwargs)

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        optimizer = getattr(self.optimizer, "optimizer", self.optimizer)  # inside Accelerate's wrapper
        float32_weights = optimizer.restored() if isinstance(optimizer, MasterWeights) else contextlib.nullcontext()
        with saving(Path(output_dir or self.args.output_dir or ".")), float32_weights:
            super().save_model(output_dir, _internal_call)

    def check_losses(self) -> None:
        """Check all losses since the last check.

        Raises:
            NonFiniteLoss: on every process, if any process had a NaN or infinite loss.
        """
        # All at once, since a look after every step would make a GPU wait.
        recent, self._losses = self._losses, []
        bad = 0
        if recent and not math.isfinite(float(torch.stack([loss for _, loss in recent]).sum())):
            bad = next((step for step, loss in recent if not torch.isfinite(loss)), 0)
        # The first bad step of any process is the largest of the negatives.
        first = largest(-bad if bad else -(1 << 62))
        if first != -(1 << 62):
            raise NonFiniteLoss(-first)


@contextlib.contextmanager
def explained(trainer: RowTrainer) -> Iterator[None]:
    """Turn training errors that a user can correct into messages."""
    config, settings = trainer.config, trainer.config.train
    try:
        yield
    except NonFiniteLoss as error:
        if this_process().is_main:  # for a choice of settings, in which divergence is a result
            Path(config.output, DIVERGED).write_text(f"step {error.step}\n", encoding="utf-8")
        raise UserError(diverged(error, trainer)) from None
    except UserError as error:  # of a DataLoader worker, the text ends with the original message
        message = str(error)
        raise UserError(
            message.rsplit("Error: ", 1)[-1].strip() if message.startswith("Caught ") else message
        ) from None
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
        out_of_memory = isinstance(error, (torch.OutOfMemoryError, MemoryError))
        if not out_of_memory and not any(words in str(error) for words in NO_MEMORY):
            raise
        batch, length = trainer.shape or (settings.batch_size, 0)
        raise UserError(
            f"out of memory at {batch} rows of {length} tokens in a process: lower train.micro_batch_size "
            f"(now {settings.micro_batch_size or 'null: all rows'}), train.batch_size or train.dataloader_num_workers, make examples "
            "shorter (data.task, data.reveal.max_tokens), or set train.gradient_checkpointing=true; with several GPUs, "
            "train.deepspeed.stage=3 or train.fsdp={}"
        ) from None


def diverged(error: NonFiniteLoss, trainer: RowTrainer) -> str:
    step, size = error.step, trainer.config.train.batch_size
    examples = cast(Rows, trainer.train_dataset).describe(range((step - 1) * size, step * size))
    checkpoint, _ = latest_intact(Path(trainer.config.output))
    advice = f"{checkpoint.path.name} is the last good checkpoint" if checkpoint else "no checkpoint was written before"
    return (
        f"step {step}: the loss is NaN or infinite ({examples}); {advice}. Lower train.learning_rate or "
        "train.max_grad_norm, raise train.warmup_ratio, or use fp32"
    )
