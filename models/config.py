"""Settings of the model: a decoder of ours, or a pretrained model."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from types import SimpleNamespace
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator, Field, model_validator

from remedy.models.mixers import MIXERS, reads_of
from remedy.registry import one_of
from remedy.settings import Settings

SIZES: dict[str, dict[str, int]] = {
    "tiny": {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4},
    "small": {"num_hidden_layers": 4, "hidden_size": 256, "num_attention_heads": 8},
    "medium": {"num_hidden_layers": 12, "hidden_size": 384, "num_attention_heads": 8},
    "280m": {"num_hidden_layers": 18, "hidden_size": 512, "num_attention_heads": 8, "intermediate_size": 4672},
}
"""Presets. Attention has 0.13, 3, 21 and 148 million parameters in its layers; `280m` is 279 million with Llama-3's vocabulary."""


TOLERANCE = 0.02
"""Greatest relative difference between a matched model's cost and its target."""
WIDEST = 1 << 20
UNITS = {"parameters": "parameters", "flops": "FLOPs a token", "state": "numbers of state"}
Window = Annotated[int, Field(ge=1, le=1_000_000)]


class Match(Settings):
    """A width chosen so that a model's layers cost what another's do, within 2 %.

    Parameters and FLOPs are matched by `intermediate_size`; the state by `window`, `state_size` or, without these, `hidden_size`.
    """

    of: Literal["parameters", "flops", "state"]
    """The quantity to match: parameters, forward FLOPs per token, or numbers in the recurrent state."""
    to: tuple[Annotated[str, one_of(MIXERS)], ...] | Annotated[float, Field(gt=0, le=1e18)]
    """The mixers of the model to match, otherwise like this one; or a number."""
    length: int | None = Field(default=None, ge=1, le=1_000_000_000)
    """Sequence length at which FLOPs or state are counted; needed only for attention without a window."""


class DecoderSettings(Settings):
    """A decoder whose only varying part is the sequence mixer.

    Widths and depths have Transformers' names.
    """

    kind: Literal["decoder"] = "decoder"
    """A decoder trained from random weights."""
    size: Literal["tiny", "small", "medium", "280m"] = "tiny"
    """Preset for layers, width, heads and MLP width where they are not given. `tiny`: 2 layers of width 64 with 4 heads; `small`: 4,
    256 and 8; `medium`: 12, 384 and 8; `280m`: 18, 512 and 8, with an MLP of width 4672."""
    mixers: tuple[Annotated[str, one_of(MIXERS)], ...] = Field(default=("attention",), min_length=1)
    """Sequence mixers, repeated over the layers: `[attention, deltanet]` is a hybrid."""
    num_hidden_layers: int | None = Field(default=None, ge=1, le=1000)
    """Number of layers; by default the size's."""
    hidden_size: int | None = Field(default=None, ge=8, le=100_000)
    """Width of the model, a multiple of twice the heads; by default the size's."""
    num_attention_heads: int | None = Field(default=None, ge=1, le=10_000)
    """Number of heads of attention, PaTH attention, delta-rule mixers and RWKV-7, half the heads of Mamba-2; by default the
    size's."""
    intermediate_size: int | None = Field(default=None, ge=8, le=1_000_000)
    """Width of the gated MLP; by default the size's, or 8/3 of `hidden_size`, rounded up to a multiple of 8."""
    positions: Literal["rope", "none", "randomised"] | tuple[Literal["rope", "none"] | None, ...] = "rope"
    """Positions of attention: rotary (`rope`); `none`; or `randomised`, rotary with positions that training draws from a longer range
    and evaluation spreads evenly over it (Ruoss et al., "Randomized positional encodings boost length generalization of
    Transformers", 2023). A list of `rope` and `none` is repeated over the layers like `mixers`, with null for layers that are not
    attention. With a matching list of windows, windowed layers have positions and full layers have none (Yang et al., "RoPE to NoPE
    and back again", 2025)."""
    position_range: int = Field(default=2048, ge=1, le=1_000_000)
    """Positions that `randomised` draws from; longer than any row of training."""
    position_capacity: int = Field(default=512, ge=1, le=1_000_000)
    """The longest text that `randomised` spreads over its range in evaluation; longer ones exceed the range. In training, a row's
    positions are as dense as those of a text between its own length and this one."""
    rope_theta: float = Field(default=10_000.0, gt=1, le=1e12)
    """Base of the rotary embedding's frequencies."""
    window: Window | tuple[Window | None, ...] | None = None
    """Tokens that attention sees, the current one included; null: all. A list is repeated over the layers like `mixers`: `[16, 16, 16,
    null]` has three windowed layers and a full one."""
    qk_norm: bool = False
    """Normalise each head's queries and keys in attention (RMSNorm, before the rotary embedding)."""
    short_convolution: bool | None = None
    """A causal convolution over four tokens of queries, keys and values, in attention and delta-rule mixers; by default as published:
    only in delta-rule mixers."""
    eigenvalues: Literal["positive", "signed", "closed"] | None = None
    """Range of the transition's eigenvalues in Mamba, Mamba-2, delta-rule mixers and PaTH attention: (0, 1) or (-1, 1) (Grazzi et al.,
    "Unlocking state-tracking in linear RNNs through negative eigenvalues", 2024); by default positive for Mamba and Mamba-2, as
    published, and signed for the others. `closed`, for delta-rule mixers: [-1, 1], so that a token can negate a part of the state,
    or leave it unchanged, without shrinking it (Gated DeltaNet still decays)."""
    state_size: int | None = Field(default=None, ge=1, le=10_000)
    """State dimension of Mamba and Mamba-2; by default as published: 16 and 128."""
    num_householder: int = Field(default=2, ge=1, le=100)
    """Steps of the delta rule that DeltaProduct takes for each token."""
    initializer_range: float | None = Field(default=None, gt=0, le=100)
    """Standard deviation of the normal initial weights of embeddings, head and linear layers; by default 0.02 for embeddings and head,
    and PyTorch's uniform weights (deviation 1 / sqrt(3 x inputs)) for linear layers. Layers that a mixer initialises as published
    are unchanged."""
    match: Match | None = None
    """Choose the width so that this model costs the same as another."""

    @model_validator(mode="after")
    def _divisible(self) -> DecoderSettings:
        shape = self.shape_with({})
        hidden, heads = shape["hidden_size"], shape["num_attention_heads"]
        if hidden % (2 * heads) and "num_attention_heads" in self._used():
            raise ValueError(f"hidden_size ({hidden}) must be a multiple of twice num_attention_heads ({heads})")
        return self

    @model_validator(mode="after")
    def _nothing_idle(self) -> DecoderSettings:
        used = self._used()
        idle = {
            key: f"with mixers {', '.join(self.mixers)}: it is for "
            + ", ".join(name for name in MIXERS if key in reads_of(name).uses)
            for key in sorted(frozenset[str]().union(*(reads_of(name).uses for name in MIXERS)) - used)
        }
        for name in self.mixers:
            reads = reads_of(name)
            if "eigenvalues" in reads.uses and self.eigenvalues not in (None, *reads.ranges):
                raise ValueError(f"eigenvalues {self.eigenvalues}: {name} has {' or '.join(reads.ranges)} alone")
        unused = {"num_attention_heads"} - used
        if self.size != "tiny" and all(getattr(self, key) is not None for key in SIZES[self.size].keys() - unused):
            raise ValueError(f"size {self.size} does nothing where {', '.join(SIZES[self.size])} are given: remove it")
        if self.positions == "none" or (isinstance(self.positions, tuple) and "rope" not in self.positions):
            idle.setdefault("rope_theta", "with positions none")
        if self.positions != "randomised":
            for key in ("position_range", "position_capacity"):
                idle.setdefault(key, f"with positions {self.positions}")
        self.refuse_idle(idle)
        if self.positions == "randomised" and self.position_capacity > self.position_range:
            raise ValueError(
                f"position_capacity ({self.position_capacity}) must be at most position_range ({self.position_range})"
            )
        return self

    @model_validator(mode="after")
    def _every_entry_is_of_a_layer(self) -> DecoderSettings:
        layers = self.shape_with({})["num_hidden_layers"]
        for key in ("window", "positions"):
            entries = getattr(self, key)
            if not isinstance(entries, tuple):
                continue
            if not entries:
                raise ValueError(f"{key} is an empty list: give it an entry for each layer, or no list")
            readers = [layer for layer in range(layers) if key in reads_of(self.mixers[layer % len(self.mixers)]).uses]
            reached = {layer % len(entries) for layer in readers}
            if len(entries) > layers:
                raise ValueError(f"{key} has {len(entries)} entries, and there are only {layers} layers")
            for number, entry in enumerate(entries):
                if entry is not None and number not in reached:
                    raise ValueError(
                        f"{key}.{number} ({entry}) does nothing: none of the {layers} layers that it falls on is attention"
                    )
                if entry is None and number in reached and key == "positions":
                    raise ValueError(f"positions.{number} is null and falls on attention: say rope or none")
        return self

    @model_validator(mode="after")
    def _matchable(self) -> DecoderSettings:
        self.matched()
        return self

    def _used(self) -> frozenset[str]:
        layers = self.shape_with({})["num_hidden_layers"]
        return frozenset[str]().union(*(reads_of(name).uses for name in self.mixers[:layers]))

    def matched(self) -> dict[str, int]:
        """Return the width that `match` chooses, by its key."""
        if self.match is None:
            return {}
        width = matched(self)
        return {width.key: width.value}

    @property
    def shape(self) -> dict[str, int]:
        """Return layers, width, heads and MLP width."""
        return self.shape_with(self.matched())

    def shape_with(self, chosen: dict[str, int]) -> dict[str, int]:
        given = self.model_dump(include=SHAPE, exclude_none=True)
        shape: dict[str, int] = SIZES[self.size] | given | {key: chosen[key] for key in SHAPE & chosen.keys()}
        return {"intermediate_size": 8 * ((shape["hidden_size"] * 8 // 3 + 7) // 8)} | shape

    def resolved(self, chosen: dict[str, int] | None = None) -> dict[str, Any]:
        """Return the settings of a model's configuration. `chosen`: widths, by default matched."""
        chosen = self.matched() if chosen is None else chosen
        return self.model_dump(exclude={"kind", "size", "match"}) | chosen | self.shape_with(chosen)


SHAPE = {"num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size"}
"""The fields that a size sets."""


class MatchedWidth(NamedTuple):
    """A chosen width by its key, and the model's cost beside the target."""

    key: str
    value: int
    cost: float
    target: float

    def sentence(self, match: Match) -> str:
        to = f"{match.to:,.0f}" if isinstance(match.to, float) else f"{', '.join(match.to)} ({self.target:,.0f})"
        return f"{self.key} {self.value} by match: {self.cost:,.0f} {UNITS[match.of]} in the layers, to equal {to}"


@lru_cache(maxsize=256)
def matched(settings: DecoderSettings) -> MatchedWidth:
    """Find the width that `settings.match` asks for.

    Raises:
        ValueError: the width is given too, the length is missing or unused, or no width comes within 2 %.
    """
    match = settings.match
    assert match is not None
    key = "intermediate_size"
    if match.of == "state":
        keys = {reads_of(name).sets_state for name in settings.mixers}
        key = keys.pop() if len(keys) == 1 else "hidden_size"
    if getattr(settings, key) is not None:
        raise ValueError(f"{key} {getattr(settings, key)} is chosen by match: remove it")
    if isinstance(match.to, float):
        target, grows = match.to, False
    else:
        target, grows = _layers_cost(settings.model_copy(update={"mixers": match.to, "match": None}), {}, match)

    def cost(value: int) -> float:
        return _layers_cost(settings, {key: value}, match)[0]

    heads = settings.shape_with({})["num_attention_heads"]
    steps = {"intermediate_size": (8, 1), "hidden_size": (2 * heads,)}.get(key, (1,))
    nearest = [_nearest(cost, target, step) for step in steps]
    if match.length is not None and not (grows or _layers_cost(settings, {key: nearest[0]}, match)[1]):
        raise ValueError(f"match.length {match.length} does nothing where no attention sees all tokens: remove it")
    value = next((value for value in nearest if _error(cost(value), target) <= TOLERANCE), None)
    if value is None:
        raise ValueError(
            f"match: no {key} gives {', '.join(settings.mixers)} within 2 % of {target:,.0f} {UNITS[match.of]}; the nearest, "
            f"{nearest[-1]}, gives {cost(nearest[-1]):,.0f}: change what it is to equal, or the number of layers or heads"
        )
    return MatchedWidth(key, value, cost(value), target)


def _layers_cost(settings: DecoderSettings, chosen: dict[str, int], match: Match) -> tuple[float, bool]:
    # These imports take seconds, and most settings match nothing.
    import torch

    from remedy.models.decoder import Block
    from remedy.models.flops import mixing_cost, weights_in_products

    config: Any = SimpleNamespace(**settings.resolved(chosen), rms_norm_eps=1e-5)
    with torch.device("meta"):  # only shapes
        layers = [Block(config, layer) for layer in range(config.num_hidden_layers)]
    if match.of == "parameters":
        return sum(parameter.numel() for block in layers for parameter in block.parameters()), False
    mixing = mixing_cost(block.mixer for block in layers)
    grows = bool(mixing.state_by_length)
    if grows and match.length is None:
        raise ValueError("match.length is missing: what attention without a window costs grows with the sequence")
    flops, state = (mixing.flops, mixing.state_floats) if match.length is None else mixing.at(match.length)
    if match.of == "state":
        return state, grows
    return flops + 2.0 * sum(p.numel() for block in layers for p in weights_in_products(block)), grows


def _nearest(cost: Callable[[int], float], target: float, step: int) -> int:
    low = step if step == 1 else -(-8 // step) * step
    high = low
    while cost(high) < target and high < WIDEST:
        low, high = high, 2 * high
    while high - low > step:
        middle = (low + high) // (2 * step) * step
        low, high = (middle, high) if cost(middle) < target else (low, middle)
    return min((low, high), key=lambda value: _error(cost(value), target))


def _error(cost: float, target: float) -> float:
    return abs(cost - target) / target


class LoraSettings(Settings):
    """Low-rank adapters (Hu et al., "LoRA", 2021) on a pretrained model.

    Fields have the names of PEFT's `LoraConfig`.
    """

    r: int = Field(default=16, ge=1, le=100_000)
    """Rank of the adapters."""
    lora_alpha: float = Field(default=32.0, gt=0, le=1_000_000)
    """Scale of the adapters: their product is multiplied by `lora_alpha / r`."""
    lora_dropout: float = Field(default=0.0, ge=0, lt=1)
    """Share of the adapters' inputs that is dropped in training."""
    target_modules: Literal["all-linear"] | tuple[str, ...] = "all-linear"
    """Layers with adapters: all linear ones but the head (and, in Mamba's family, `out_proj`), or those whose names end with one of
    these (`[q_proj, v_proj]`)."""
    embeddings: Literal["new", "all"] = "new"
    """Embeddings to train: `new`, only the rows of trace tokens that the vocabulary did not have (none for a code world model); or
    `all`, whole tables, which also works under ZeRO-3."""


class PretrainedSettings(Settings):
    """A Hugging Face causal language model to train: all weights, or adapters."""

    kind: Literal["pretrained"] = "pretrained"
    """A pretrained model."""
    name_or_path: str
    """Name on the Hugging Face hub (`facebook/cwm`) or a folder, such as a finished run's."""
    lora: LoraSettings | None = None
    """Adapters to train; without them all weights are trained."""
    load_in_4bit: bool = False
    """Hold the frozen weights in 4-bit NF4 (Dettmers et al., "QLoRA", 2023); needs `lora`, CUDA and bitsandbytes."""

    @model_validator(mode="after")
    def _adapters_on_four_bit(self) -> PretrainedSettings:
        if self.load_in_4bit and self.lora is None:
            raise ValueError("load_in_4bit freezes the weights: add a `lora` section to train adapters on them")
        return self


def _kind_given(value: Any) -> Any:
    # Most configurations describe a decoder.
    return {"kind": "decoder", **value} if isinstance(value, dict) else value


AnyModel = Annotated[
    Annotated[DecoderSettings | PretrainedSettings, Field(discriminator="kind")], BeforeValidator(_kind_given)
]
