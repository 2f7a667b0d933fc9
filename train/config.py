"""Settings of a training run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from remedy.data_gen.config import DataConfig
from remedy.data_gen.held_out import refuse_held_out_in_vain, refuse_held_out_of_a_part
from remedy.data_gen.mixture import MOST_SEEDS, Part
from remedy.data_gen.roles import ROLES, Role, RoleName
from remedy.data_gen.traces.render import FORMATS
from remedy.files import Folder
from remedy.messages import shown, suggest
from remedy.models.config import AnyModel, DecoderSettings, PretrainedSettings
from remedy.models.tokenizer_backends import AnyTokenizer, CharacterSettings
from remedy.settings import ConfigError, Configuration, Settings
from remedy.train.division import DeepSpeedSettings, FsdpSettings

DIVERGED = "diverged.txt"
"""File in the output of a run whose loss became NaN or infinite."""
DEFAULT_STEPS = 1000
MOST_STEPS = 1_000_000_000
ADAMW = "adamw_torch_fused"


class Stage(Settings):
    """A stage of the curriculum: steps on the run's data with changed settings."""

    steps: int = Field(ge=1, le=MOST_STEPS)
    """Optimizer steps of this stage; where `train.max_steps` is given, its proportion of them."""
    set: dict[str, Any] = {}
    """What differs from the run's `data`, for example `{task.length: [2, 8]}`."""


class TrainSettings(Settings):
    """Optimisation settings, named as in Transformers' TrainingArguments where it has them."""

    max_steps: int | None = Field(default=None, ge=0, le=MOST_STEPS)
    """Number of optimizer steps; a curriculum's stages are scaled to it. Default: the curriculum's sum, or 1000 without one. 0: the
    model is saved untrained, to be evaluated beside trained ones; then only `train.seed` matters."""
    curriculum: tuple[Stage, ...] = ()
    """Stages in order, each with the run's data and changed settings."""
    batch_size: int = Field(default=64, ge=1, le=1_000_000)
    """Rows of an optimizer step, over all processes."""
    micro_batch_size: int | None = Field(default=None, ge=1, le=1_000_000)
    """Rows of a forward and backward pass in each process, to save memory; gradients are accumulated over the passes of a step. Rows of
    similar length are in one pass. Null: all rows of a process."""
    loss_roles: tuple[RoleName, ...] = Field(
        default=("state", "value", "action", "query", "event", "structure"), min_length=1
    )
    """Roles whose tokens are supervised: the program (`context`), separators (`structure`), the line about to run (`action`), the
    variables before it runs (`state`), the returned or raised value (`value`), the question for a state (`query`), and the token that
    says what a frame is (`event`)."""
    loss_weights: dict[RoleName, Annotated[float, Field(gt=0, le=1000)]] = {}
    """Weights of roles in the training loss, by default 1: `{value: 4}`. Validation's loss is without them."""
    pack: int = Field(default=1, ge=1, le=10_000)
    """Number of consecutive examples joined into one row. They do not see each other; each has the loss that it has alone."""
    optim: str = ADAMW
    """The optimizer, by Transformers' name (`adafactor`, `sgd`, `lion_8bit`); by default AdamW."""
    learning_rate: float = Field(default=1e-3, gt=0, le=100)
    """The peak of the schedule."""
    lr_scheduler_type: Literal["cosine", "linear", "constant_with_warmup"] = "cosine"
    """Schedule of the learning rate after the warm-up."""
    min_lr_ratio: float = Field(default=0.0, ge=0, lt=1)
    """Final learning rate of `cosine` as a share of its peak."""
    warmup_ratio: float = Field(default=0.05, ge=0, le=1)
    """Share of steps in which the learning rate rises to its peak."""
    weight_decay: float = Field(default=0.01, ge=0, le=100)
    """AdamW's decoupled weight decay; norms, biases, the decay rates of mixers (`A_log`, `D`, `dt_bias`) and RWKV-7's vectors do not
    decay."""
    label_smoothing_factor: float = Field(default=0.0, ge=0, lt=1)
    """The share of each target's probability that is spread over the vocabulary in training (Szegedy et al., "Rethinking the Inception
    architecture for computer vision", 2016). The training loss then has a floor above zero, and tokens that are nearly certain still
    have a gradient; validation's loss is without it."""
    max_grad_norm: float = Field(default=1.0, gt=0)
    """Gradient norm to clip to."""
    adam_beta2: float = Field(default=0.98, gt=0, lt=1)
    """AdamW's decay rate of the mean squared gradient."""
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    """bf16 and fp16 compute in half precision on weights kept in float32 (frozen ones under adapters in half precision); fp16 on CUDA
    only. On a CPU, bf16 pays with AMX instructions."""
    gradient_checkpointing: bool = False
    """Compute activations again in the backward pass in place of keeping them, to save memory."""
    torch_compile: bool = False
    """Compile the model with `torch.compile`."""
    deepspeed: DeepSpeedSettings | None = None
    """Train under DeepSpeed; `{}` chooses its defaults."""
    fsdp: FsdpSettings | None = None
    """Train under FSDP2 in place of DeepSpeed; `{}` chooses its defaults. It needs GPUs, and several processes."""
    dataloader_num_workers: int = Field(default=0, ge=0, le=1000)
    """Worker processes that make examples, for each training process."""
    logging_steps: int = Field(default=20, ge=1, le=MOST_STEPS)
    """Steps from one logged record to the next."""
    save_steps: int = Field(default=500, ge=1, le=MOST_STEPS)
    """Steps from one checkpoint to the next."""
    save_total_limit: int = Field(default=2, ge=1, le=1_000_000)
    """Number of newest checkpoints to keep."""
    seed: int = Field(default=0, ge=0, lt=2**32)
    """Seed of initial weights and dropout."""
    data_seed: int = Field(default=0, ge=0, lt=MOST_SEEDS)
    """Seed of the choice and order of training examples; `data.seed` draws the programs of all splits."""
    evaluate_every: int | None = Field(default=None, ge=1, le=MOST_STEPS)
    """Steps between validations, besides one after the last step: teacher-forced loss, and the share of frames' states, values and
    so on that are right, on held-out examples. Null: no validation."""
    validation_examples: int = Field(default=256, ge=1, le=1_000_000)
    """Number of validation examples: the first of the validation split of `data` (and `mixture`)."""
    keep_best: Literal["loss", "exact_match"] | None = None
    """Keep the checkpoint with the best value of this validation metric (the first of equals) as the run's model; null: the last."""
    patience: int | None = Field(default=None, ge=1, le=MOST_STEPS)
    """Stop after this many validations without improvement of the validation loss, or of what `keep_best` names; null: never."""
    threads: int | None = Field(default=None, ge=1, le=1000)
    """CPU threads per training process; null: PyTorch's choice."""
    stacked: int | None = Field(default=None, ge=2, le=1000)
    """Train this many seeds at once, in one batch dimension of a small model: `seed`, `seed` + 1, ..., likewise `data_seed`, each
    saved in `output`/seed-N as if trained alone. An experiment uses its own `seeds`, this many at a time. It pays on one GPU, where
    small models are bound by kernel launches; on a CPU only for GRU."""

    @field_validator("optim")
    @classmethod
    def _is_transformers_name(cls, name: str) -> str:
        if name != ADAMW:
            from transformers.training_args import OptimizerNames  # an import of seconds

            names = [optimizer.value for optimizer in OptimizerNames]
            if name not in names:
                near = suggest(name, names)
                raise ValueError(f"Transformers has no optimizer {shown(name)}; AdamW is the default; {near}")
        return name

    @model_validator(mode="after")
    def _consistent(self) -> TrainSettings:
        if self.batch_size % (self.micro_batch_size or 1):
            raise ValueError(
                f"batch_size ({self.batch_size}) must be a multiple of micro_batch_size ({self.micro_batch_size})"
            )
        if self.evaluate_every is None:
            self.refuse_idle(dict.fromkeys(("validation_examples", "keep_best", "patience"), "without evaluate_every"))
        if self.lr_scheduler_type != "cosine":
            self.refuse_idle({"min_lr_ratio": f"with lr_scheduler_type {self.lr_scheduler_type}"})
        for role, weight in self.loss_weights.items():
            if weight == 1 or role not in self.loss_roles:
                why = "which all have" if weight == 1 else f"since {role} is not in loss_roles"
                raise ValueError(f"loss_weights.{role} {weight:g} does nothing, {why}: remove it")
        if self.loss_weights and len(set(self.weights().values())) == 1:
            raise ValueError("loss_weights does nothing where all loss_roles have the same weight: remove it")
        if self.stacked is not None:
            self._check_stacked()
        if self.deepspeed is not None and self.fsdp is not None:
            raise ValueError("deepspeed and fsdp both divide a run over processes: set one of them to null")
        if self.deepspeed is not None and self.deepspeed.stage == 0 and self.precision == "bf16":
            raise ValueError(
                "deepspeed.stage 0 with bf16 uses a different optimizer path than stages 1 to 3: choose one"
            )
        if self.max_steps and self.max_steps < len(self.curriculum):
            raise ValueError(
                f"max_steps ({self.max_steps}) must be at least {len(self.curriculum)}: one for each stage of the curriculum"
            )
        return self

    def _check_stacked(self) -> None:
        """Refuse settings whose effect on a stacked seed would differ."""
        for key, is_set, why in (
            ("deepspeed", self.deepspeed is not None, "it clips and divides the weights of all members as of one"),
            ("fsdp", self.fsdp is not None, "stacked seeds have one process"),
            ("torch_compile", self.torch_compile, "a stacked model is not made for the compiler"),
            ("optim", self.optim != ADAMW, "its steps may mix members"),
            ("precision fp16", self.precision == "fp16", "one member's overflow would skip the others' step"),
            ("pack", self.pack > 1, "packed examples are computed in groups over all members"),
            ("micro_batch_size", self.micro_batch_size is not None, "its passes mix rows of all members"),
            ("max_steps 0", self.total_steps == 0, "nothing is trained"),
        ):
            if is_set:
                raise ValueError(f"stacked {self.stacked} does not go with {key}: {why}: remove one of them")

    @property
    def total_steps(self) -> int:
        if self.max_steps is not None:
            return self.max_steps
        return sum(stage.steps for stage in self.curriculum) or DEFAULT_STEPS

    def stage_ends(self) -> list[int]:
        """Return the last step of each stage, or of the run without a curriculum.

        Stages keep the curriculum's proportions of `max_steps`, rounded. Each has a step, unless nothing is trained.
        """
        total, ends, steps_before = self.total_steps, [0], 0
        if not total:
            return [0] * max(1, len(self.curriculum))
        curriculum_steps = sum(stage.steps for stage in self.curriculum)
        for number, stage in enumerate(self.curriculum, 1):
            steps_before += stage.steps
            # Half a step rounds up; `round` would go to the even number.
            nearest = (2 * steps_before * total + curriculum_steps) // (2 * curriculum_steps)
            ends.append(min(max(nearest, ends[-1] + 1), total - (len(self.curriculum) - number)))
        return ends[1:] or [total]

    def supervised(self) -> frozenset[Role]:
        return frozenset(ROLES[name] for name in self.loss_roles)

    def weights(self) -> dict[Role, float]:
        """Return each supervised role's weight, divided by the smallest."""
        weights = {ROLES[name]: self.loss_weights.get(name, 1.0) for name in self.loss_roles}
        return {role: weight / min(weights.values()) for role, weight in weights.items()}


class TrackingSettings(Settings):
    """Destinations of a run's metrics; `metrics.jsonl` is always written."""

    report_to: tuple[Literal["wandb", "tensorboard", "mlflow", "trackio"], ...] = ("wandb",)
    """Trackers: Weights & Biases (online when logged in, offline otherwise), and others by Transformers' callbacks and their variables
    (`TENSORBOARD_LOGGING_DIR`, `MLFLOW_TRACKING_URI`)."""
    project: str = "cwm-remedy"
    """The project of W&B and Trackio."""
    group: str | None = None
    """The W&B group; an experiment sets it to its own name."""
    tags: tuple[str, ...] = ()
    """The W&B tags; an experiment sets them to the group and the run's variant."""
    peak_tflops: float | None = Field(default=None, gt=0, le=1_000_000)
    """TFLOP/s of one device, for model FLOP utilisation (MFU); known for common GPUs."""

    @model_validator(mode="after")
    def _used(self) -> TrackingSettings:
        if len(set(self.report_to)) < len(self.report_to):
            raise ValueError("report_to names a tracker twice")
        if not self.wandb:
            self.refuse_idle(dict.fromkeys(("group", "tags"), "without wandb in report_to"))
            if "trackio" not in self.report_to:
                self.refuse_idle({"project": "without wandb or trackio in report_to"})
        return self

    @property
    def wandb(self) -> bool:
        return "wandb" in self.report_to

    @property
    def others(self) -> list[str]:
        """Return the trackers that Transformers reports to."""
        return [name for name in self.report_to if name != "wandb"]


class RunConfig(Configuration):
    """A training run: its data, model and optimisation."""

    name: str = "run"
    """The run's name in logs and W&B."""
    output: Folder = "runs/run"
    """The folder for model, tokenizer, configuration, metrics and checkpoints."""
    data: DataConfig
    """The examples. Evaluations start from the same configuration."""
    mixture: dict[str, Part] = {}
    """Parts of the training data, drawn in turns; each is the run's `data` with changes."""
    shards: Folder | None = None
    """A dataset that `remedy generate` wrote with the same data and tokenizer; null: examples are made during training."""
    tokenizer: AnyTokenizer = CharacterSettings()
    """How examples become token ids."""
    model: AnyModel = DecoderSettings()
    """The model to train: a new decoder, or a pretrained one."""
    train: TrainSettings = TrainSettings()
    """Training."""
    tracking: TrackingSettings = TrackingSettings()
    """Tracking."""

    @model_validator(mode="after")
    def _consistent(self) -> RunConfig:
        if self.shards is not None and (self.mixture or self.train.curriculum):
            other = "mixture" if self.mixture else "train.curriculum"
            raise ValueError(f"shards hold one data configuration: remove `shards` or `{other}`")
        try:
            stages, parts = self.stage_data(), self._parts(self.data)
            for number, data in enumerate(stages):
                if data != self.data and parts and self._parts(data) == parts:
                    raise ValueError(
                        f"train.curriculum.{number}.set does nothing, since every part of the mixture sets these keys anew: "
                        "remove it"
                    )
        except ConfigError as error:
            raise ValueError(str(error)) from None
        if len(self.mixture) == 1:
            self.refuse_idle({f"mixture.{name}.weight": "where there is one part only" for name in self.mixture})
        sources_by_key = list(self._sources(stages))
        sources = [source for _, source in sources_by_key]
        refuse_held_out_in_vain(sources)
        refuse_held_out_of_a_part(self.data, sources_by_key)
        roles = self.train.supervised()
        if Role.CONTEXT in roles and any(data_of_part.memory is not None for data_of_part in sources):
            raise ValueError(
                "train.loss_roles has context, which with data.memory holds the frames that are remembered: they would be learnt "
                "again in every window: remove it"
            )
        if self.train.stacked is not None and not isinstance(self.model, DecoderSettings):
            raise ValueError(
                f"train.stacked {self.train.stacked}: only decoders that are trained from the start can be stacked, not pretrained "
                "models or adapters: remove it"
            )
        if self.train.fsdp is not None and isinstance(self.model, PretrainedSettings) and self.model.load_in_4bit:
            raise ValueError("model.load_in_4bit: FSDP2 leaves weights in 4 bits whole everywhere: remove train.fsdp")
        if self.train.stacked is not None and self.tracking.others:
            raise ValueError(
                f"train.stacked {self.train.stacked} does not go with tracking.report_to {self.tracking.others[0]}, which follows "
                "one run a process: remove one of them"
            )
        # A model that writes lines must write events too. One that learns neither is constrained or fed both.
        written = {Role.STRUCTURE, Role.ACTION} <= roles
        if written and Role.EVENT not in roles and any(FORMATS[data_of_part.format].events for data_of_part in sources):
            raise ValueError(
                "train.loss_roles has structure and action without event: a model never learns where a call or a return begins: add "
                "event, or leave out action for a model that is held to the control flow or fed both"
            )
        return self

    def runs(self) -> list[RunConfig]:
        """Return the runs described: one, or with `train.stacked` one per seed."""
        if self.train.stacked is None:
            return [self]
        seeds = range(self.train.seed, self.train.seed + self.train.stacked)
        return [
            self.changed(
                {
                    "name": f"{self.name},seed={seed}",
                    "output": str(Path(self.output, f"seed-{seed}")),
                    "train.seed": seed,
                    "train.data_seed": self.train.data_seed + seed - self.train.seed,
                    "train.stacked": None,
                }
            )
            for seed in seeds
        ]

    def stage_data(self) -> list[DataConfig]:
        """Return the data of each stage, or of the run without a curriculum."""
        where = "train.curriculum.{}.set"
        stages = self.train.curriculum
        return [self.data.changed(s.set, where.format(i)) for i, s in enumerate(stages)] or [self.data]

    def _sources(self, stages: Sequence[DataConfig]) -> Iterator[tuple[str, DataConfig]]:
        """Yield each training source with its key in the configuration."""
        for number, data in enumerate(stages):
            stage = f"train.curriculum.{number}" if self.train.curriculum else ""
            yield from zip((f"mixture.{name}" for name in self.mixture), self._parts(data))
            if not self.mixture:
                yield stage, data

    def _parts(self, data: DataConfig) -> list[DataConfig]:
        return [data.changed(part.set, f"mixture.{name}.set") for name, part in self.mixture.items()]
