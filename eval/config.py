"""Settings of an evaluation: diagnostics, data and decoding."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, SerializeAsAny, model_validator

from remedy.data_gen.tasks import TASKS, Task
from remedy.eval.diagnostics import DIAGNOSTICS, Diagnostic
from remedy.eval.generators.backend import Backend
from remedy.registry import by_kind
from remedy.settings import ConfigError, Configuration


class EvalConfig(Configuration):
    """An evaluation of a checkpoint."""

    diagnostics: tuple[Annotated[Diagnostic, SerializeAsAny(), by_kind(DIAGNOSTICS)], ...] = Field(min_length=1)
    """The diagnostics, each with its `kind`."""
    set: dict[str, Any] = {}
    """Changes to the data configuration stored with the checkpoint, such as `{reveal.spacing: 1}`; for a checkpoint without one, all
    of it, with `task`."""
    split: Literal["validation", "test", "all"] = "test"
    """The split of generated programs and of those in `trained_on`; other given programs are all evaluated. `all`: every program, for a
    model trained on none."""
    trained_on: Annotated[SerializeAsAny[Task], by_kind(TASKS, "programs")] | None = None
    """The programs that the checkpoint was trained on; by default those in its own configuration."""
    batch_size: int = Field(default=100, ge=1, le=1_000_000)
    """The largest number of examples decoded together; fewer if memory is short. With a backend, the number of requests in flight."""
    max_new_tokens: int | None = Field(default=None, ge=1, le=1_000_000_000)
    """The largest number of tokens that the model writes in one go, certain ones included; where true tokens follow, also twice the
    true part and 16. Null: four times the true trace, from 64 to 4,096. An example of whose true trace the model has to write more in
    all is not decoded; it counts as truncated."""
    threads: int | None = Field(default=None, ge=1, le=1000)
    """CPU threads; null: PyTorch's choice."""
    precision: Literal["fp32", "bf16"] | None = None
    """Precision of the model; by default that of its saved weights, and fp32 on a CPU. In bf16 it may write other tokens."""
    load_in_4bit: bool | None = None
    """Load a pretrained model's weights in 4-bit NF4 (Dettmers et al., "QLoRA", 2023); needs bitsandbytes. By default for a run whose
    adapters were trained so; the adapters are then not merged. Records with and without it are not mixed."""
    device_map: Literal["auto"] | None = None
    """`auto` divides a model that does not fit on one GPU by layers over all GPUs of this machine, the rest in main memory; by
    default it is on one. It must fit in main memory while it is loaded."""
    backend: Backend | None = None
    """A server that runs the model; by default this process runs it. Tokenizer and data configuration come from the checkpoint."""

    @model_validator(mode="after")
    def _nothing_idle(self) -> EvalConfig:
        if self.backend is not None:
            self.refuse_idle(dict.fromkeys(("threads", "precision", "load_in_4bit", "device_map"), "with a backend"))
        return self

    def refuse_on(self, processes: int) -> None:
        """Raise a ConfigError for a setting that does nothing with this many processes."""
        if processes > 1 and self.backend is not None:
            raise ConfigError(
                f"backend: its server takes `batch_size` examples of one process at a time, and {processes} do nothing for it: "
                "evaluate without a launcher"
            )
        if processes > 1 and self.device_map is not None:
            raise ConfigError(
                f"device_map {self.device_map} spreads one model over all GPUs, of which each of {processes} processes has one: "
                "evaluate without a launcher, or remove it"
            )

    @property
    def asked(self) -> dict[str, Any]:
        """The settings that change results; a server describes itself elsewhere."""
        idle = {"batch_size"} if self.backend else {"precision"} if self.precision is None else set()
        # In how many bits the weights are is a part of the checkpoint's description.
        return self.model_dump(mode="json", exclude={"backend", "load_in_4bit", "device_map", "plugins"} | idle)
