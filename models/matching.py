"""Models of equal cost: the width at which one decoder has as many parameters, operations or numbers of state as another."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from types import SimpleNamespace
from typing import Annotated, Any, Literal, NamedTuple, Protocol

import torch
from pydantic import Field

from remedy.models.flops import mixing_cost, weights_in_products
from remedy.models.mixers import MIXERS
from remedy.registry import one_of
from remedy.settings import Settings

TOLERANCE = 0.02
"""How far from the reference's cost a matched model's may be."""
WIDEST = 1 << 20
UNITS = {"parameters": "parameters", "flops": "FLOPs a token", "state": "numbers of state"}


class Match(Settings):
    """A width chosen so that a model costs within 2 % what another does, in its layers: `intermediate_size` for parameters and FLOPs;
    for the state what sets it at an unchanged width (`window`, `state_size`), or `hidden_size` where nothing does."""

    of: Literal["parameters", "flops", "state"]
    """What is made equal: parameters, forward FLOPs a token, or the numbers carried from token to token."""
    to: tuple[Annotated[str, one_of(MIXERS)], ...] | Annotated[float, Field(gt=0, le=1e18)]
    """The mixers of the model to equal, which is like this one in all else; or a number."""
    length: int | None = Field(default=None, ge=1, le=1_000_000_000)
    """Tokens of the sequence for which FLOPs or state are counted; needed where attention has no window, and only there."""


class Matchable(Protocol):
    """Settings of a decoder, as far as a match reads them."""

    @property
    def mixers(self) -> tuple[str, ...]:
        """The mixers of the layers, repeated in turn."""

    @property
    def match(self) -> Match | None:
        """Return what is to be equal to what."""

    def shape_with(self, chosen: dict[str, int]) -> dict[str, int]:
        """Layers, widths and heads, with other widths chosen."""

    def resolved(self, chosen: dict[str, int] | None = None) -> dict[str, Any]:
        """Every field that a layer reads, with other widths chosen."""

    def model_copy(self, *, update: dict[str, Any]) -> Matchable:
        """The settings with other values of some fields."""


class Matched(NamedTuple):
    """The width that was chosen, under its key, and what the model costs with it beside what it was to cost."""

    key: str
    value: int
    cost: float
    target: float

    def sentence(self, match: Match) -> str:
        """Return what was matched, for the log."""
        to = f"{match.to:,.0f}" if isinstance(match.to, float) else f"{', '.join(match.to)} ({self.target:,.0f})"
        return f"{self.key} {self.value} by match: {self.cost:,.0f} {UNITS[match.of]} in the layers, to equal {to}"


@lru_cache(maxsize=256)
def matched(settings: Matchable) -> Matched:
    """The width that `settings.match` asks for.

    Raises:
        ValueError: the width is given too, the length is missing or does nothing, or no width comes within 2 %.
    """
    match = settings.match
    assert match is not None
    key = _width(settings, match)
    if getattr(settings, key) is not None:
        raise ValueError(f"{key} {getattr(settings, key)} is chosen by match: remove it")
    counts = _Costs(match)
    reference = None if isinstance(match.to, float) else settings.model_copy(update={"mixers": match.to, "match": None})
    target = float(match.to) if isinstance(match.to, float) else counts(reference, {})

    def cost(value: int) -> float:
        return counts(settings, {key: value})

    steps = {"intermediate_size": (8, 1), "hidden_size": (_hidden_step(settings),)}.get(key, (1,))
    tried = [_nearest(cost, target, step) for step in steps]
    counts.check_length()
    value = next((value for value in tried if _error(cost(value), target) <= TOLERANCE), None)
    if value is None:
        nearest = tried[-1]
        raise ValueError(
            f"match: no {key} gives {', '.join(settings.mixers)} within 2 % of {target:,.0f} {UNITS[match.of]}; the nearest, "
            f"{nearest}, gives {cost(nearest):,.0f}: change what it is to equal, or the number of layers or heads"
        )
    return Matched(key, value, cost(value), target)


class _Costs:
    """Counts what a match is of, and whether the length of the sequence made a difference."""

    def __init__(self, match: Match) -> None:
        self.match = match
        self.grows = False

    def __call__(self, settings: Matchable | None, chosen: dict[str, int]) -> float:
        from remedy.models.block import Block  # waits for Transformers, which other settings need not

        assert settings is not None
        config: Any = SimpleNamespace(**settings.resolved(chosen), rms_norm_eps=1e-5)
        with torch.device("meta"):  # shapes alone
            layers = [Block(config, layer) for layer in range(config.num_hidden_layers)]
        if self.match.of == "parameters":
            return sum(parameter.numel() for block in layers for parameter in block.parameters())
        mixing = mixing_cost(block.mixer for block in layers)
        self.grows |= bool(mixing.state_by_length)
        if self.grows and self.match.length is None:
            raise ValueError("match.length is missing: what attention without a window costs grows with the sequence")
        flops, state = mixing.flops, float(mixing.state_floats)
        if self.match.length is not None:
            flops, state = mixing.at(self.match.length)
        if self.match.of == "state":
            return state
        return flops + 2.0 * sum(p.numel() for block in layers for p in weights_in_products(block))

    def check_length(self) -> None:
        if self.match.length is not None and not self.grows:
            raise ValueError(
                f"match.length {self.match.length} does nothing where no attention sees all tokens: remove it"
            )


def _width(settings: Matchable, match: Match) -> str:
    if match.of != "state":
        return "intermediate_size"
    keys = {MIXERS[name].sets_state for name in settings.mixers}
    return keys.pop() if len(keys) == 1 else "hidden_size"


def _hidden_step(settings: Matchable) -> int:
    return 2 * settings.shape_with({})["num_attention_heads"]


def _nearest(cost: Callable[[int], float], target: float, step: int) -> int:
    """The multiple of `step`, from the first that is at least 8 (1 where the step is 1 and no width), whose cost is nearest."""
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
