"""Settings of an evaluation: which diagnostics, over which data, and how they are decoded."""

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
    """What is run, each with its `kind`."""
    set: dict[str, Any] = {}
    """Changes of the data configuration stored with the checkpoint, as `{reveal.spacing: 1}`; for a checkpoint without one, all
    of it, `task` included."""
    split: Literal["validation", "test", "all"] = "test"
    """The split of generated data, and of the programs of `trained_on`; other programs are all evaluated. `all`: every program, for a
    model that was trained on none of them. So is a small space of a checkpoint that stores no data configuration."""
    trained_on: Annotated[SerializeAsAny[Task], by_kind(TASKS, "programs")] | None = None
    """The programs that the checkpoint was trained on; by default, those that its own configuration names."""
    batch_size: int = Field(default=100, ge=1, le=1_000_000)
    """Examples decoded together, at most: fewer where memory has no room for them. With a backend, so many are under way at a time."""
    max_new_tokens: int = Field(default=4096, ge=1, le=1_000_000_000)
    """Most tokens that are written for one example, certain ones under a constraint included: one whose true trace needs more is not
    decoded, and truncated."""
    threads: int | None = Field(default=None, ge=1, le=1000)
    """Threads of PyTorch; by default, as it is set."""
    precision: Literal["fp32", "bf16"] | None = None
    """What the model computes in; by default, what its weights were saved in, and fp32 on a CPU. In bf16 it may write other tokens."""
    load_in_4bit: bool | None = None
    """Whether a pretrained model's weights are read as NF4 (Dettmers et al., "QLoRA", 2023), which needs bitsandbytes; by default where
    a run's adapters were trained so, and the adapters stay beside them. Records of both kinds are not mixed."""
    device_map: Literal["auto"] | None = None
    """`auto` spreads a model that one GPU has no room for over all GPUs of this machine, layer after layer, and what is left over
    in main memory; by default it is on one. It has to fit in main memory while it is loaded."""
    backend: Backend | None = None
    """A server that runs the model; by default this process does. The checkpoint still gives tokenizer and data configuration."""

    @model_validator(mode="after")
    def _nothing_idle(self) -> EvalConfig:
        if self.backend is not None:
            self.refuse_idle(dict.fromkeys(("threads", "precision", "load_in_4bit", "device_map"), "with a backend"))
        return self

    def refuse_on(self, processes: int) -> None:
        """Raises a ConfigError for what does nothing where so many processes evaluate together."""
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
        """Collect what makes an evaluation another one. A backend's part of that is what its server says of itself."""
        idle = {"batch_size"} if self.backend else {"precision"} if self.precision is None else set()
        # In how many bits the weights are is a part of the checkpoint's description.
        return self.model_dump(mode="json", exclude={"backend", "load_in_4bit", "device_map", "plugins"} | idle)
