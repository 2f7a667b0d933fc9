"""Settings of a training run."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from remedy.data_gen.examples import DataConfig
from remedy.data_gen.mixture import Part
from remedy.data_gen.roles import Role
from remedy.data_gen.settings import Settings, build
from remedy.models.config import AnyModel, ModelConfig
from remedy.models.tokenizer import TokenizerConfig
from remedy.train.deepspeed import DeepSpeedConfig

RoleName = Literal["context", "structure", "action", "state", "value"]


class Stage(Settings):
    """A stretch of the curriculum: `steps` optimizer steps on the run's data with these settings changed."""

    steps: int = Field(ge=1)
    length: int | tuple[int, int] | None = None
    depth: int | tuple[int, int] | None = None
    every: float | None = None

    def apply(self, data: DataConfig) -> DataConfig:
        """The stage's data."""
        task = {k: v for k, v in (("length", self.length), ("depth", self.depth)) if v is not None}
        reveal = {"every": self.every} if self.every is not None else {}
        changed = data.model_dump()
        changed["task"].update(task)
        changed["reveal"].update(reveal)
        return build(DataConfig, changed, "train.curriculum")


class TrackingConfig(Settings):
    """`metrics.jsonl` is always written; W&B goes online when logged in and offline otherwise."""

    wandb: bool = True
    project: str = "cwm-remedy"
    group: str | None = None
    tags: tuple[str, ...] = ()
    peak_tflops: float | None = Field(default=None, gt=0, description="of one device, for MFU; known for common GPUs")


class TrainConfig(Settings):
    """Optimisation. `batch_size` is rows per optimizer step over all processes; `accumulate` splits it in time.

    `loss_on`: roles whose tokens are supervised. `batching`: `pad` makes one row per example, `pack` joins `pack`
    consecutive examples into a row (state and attention run across the border, which a begin-of-text token marks).
    `curriculum`: stages; without it, `steps` steps on the data as configured. `precision`: bf16 and fp16 compute in half
    precision on weights kept in float32 (fp16 on CUDA only). `checkpoint_activations`: compute them again in the backward pass
    instead of keeping them. `data_workers`: processes that make examples ahead, in each training process.
    """

    steps: int = Field(default=1000, ge=1)
    curriculum: tuple[Stage, ...] = ()
    batch_size: int = Field(default=64, ge=1)
    accumulate: int = Field(default=1, ge=1)
    loss_on: tuple[RoleName, ...] = Field(default=("state", "value", "action", "structure"), min_length=1)
    batching: Literal["pad", "pack"] = "pad"
    pack: int = Field(default=4, ge=1)
    learning_rate: float = Field(default=1e-3, gt=0)
    schedule: Literal["cosine", "linear", "constant_with_warmup"] = "cosine"
    warmup: float = Field(default=0.05, ge=0, le=1, description="share of the steps")
    weight_decay: float = Field(default=0.01, ge=0)
    clip: float = Field(default=1.0, gt=0)
    beta2: float = Field(default=0.98, gt=0, lt=1)
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    checkpoint_activations: bool = False
    compile: bool = False
    deepspeed: DeepSpeedConfig | None = None
    data_workers: int = Field(default=0, ge=0)
    log_every: int = Field(default=20, ge=1)
    save_every: int = Field(default=500, ge=1)
    keep_last: int = Field(default=2, ge=1)
    seed: int = Field(default=0, ge=0)
    threads: int | None = Field(default=None, ge=1, description="CPU threads of this process; none: PyTorch's choice")

    @model_validator(mode="after")
    def _divides(self) -> TrainConfig:
        if self.batch_size % self.accumulate:
            raise ValueError(f"batch_size ({self.batch_size}) must be a multiple of accumulate ({self.accumulate})")
        if self.deepspeed is not None and self.deepspeed.stage == 0 and self.precision == "bf16":
            raise ValueError(
                "deepspeed.stage 0 with bf16 trains by another rule than stages 1 to 3: choose one of those"
            )
        return self

    @property
    def total_steps(self) -> int:
        return sum(stage.steps for stage in self.curriculum) or self.steps

    def loss_roles(self) -> frozenset[Role]:
        return frozenset(Role[name.upper()] for name in self.loss_on)


class RunConfig(Settings):
    """A training run: what it reads, what learns, and how.

    `mixture`: parts that training data comes from in turns, each the run's `data` with changes; evaluations start from `data`.
    """

    name: str = "run"
    output: str = "runs/run"
    data: DataConfig
    mixture: dict[str, Part] = {}
    shards: str | None = None
    """A folder written by `remedy generate` with the same data and tokenizer; none: examples are made on the fly."""
    tokenizer: TokenizerConfig = TokenizerConfig()
    model: AnyModel = ModelConfig()
    train: TrainConfig = TrainConfig()
    tracking: TrackingConfig = TrackingConfig()
