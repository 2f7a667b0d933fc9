"""Remarks beside a rate that would mislead by itself: traces cut short, floors, ceilings, guesses, models without training."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from remedy.data_gen.roles import Role
from remedy.eval.decoding.forcings import TEACHER_FORCED, fed_by_name, left_to_the_model
from remedy.eval.records import baselines

if TYPE_CHECKING:
    from remedy.eval.records.summary import ConditionSummary


def remarks(conditions: Sequence[ConditionSummary], rate: tuple[float, float, float] | None) -> list[str]:
    """Say what would mislead in one rate of these conditions, as its mean and the ends of its interval; None where there is none."""
    found = list(dict.fromkeys(said for one in conditions if (said := one.get("lacks", ""))))
    examples = sum(one["examples"] for one in conditions)
    truncated = round(sum(one["truncated"] * one["examples"] for one in conditions))
    if truncated:
        found.append(
            f"{'all' if truncated == examples else f'{truncated} of {examples}'} truncated by a limit on tokens"
        )
    if rate is None or not examples:
        return found
    mean, low, high = rate
    name, share = baselines.highest(conditions)
    if mean in (0.0, 1.0):
        found.append("floor: none right" if mean == 0.0 else "ceiling: all right")
    if name and high < share:
        found.append(f"below {baselines.NAMES[name]} ({share:.0%})")
    elif name and mean and low <= share:
        found.append(f"not distinguishable from {baselines.NAMES[name]} ({share:.0%})")
    return found


def of_condition(condition: ConditionSummary) -> list[str]:
    """Say what would mislead in the rate of one condition."""
    right = condition["right"]
    return remarks([condition], right and (right.mean, right.low, right.high))


class Knowledge(NamedTuple):
    """What a model may know of traces. `training`: its account, of a run; `new_tokens`: how many trace tokens its vocabulary did not
    have."""

    training: Mapping[str, Any] | None = None
    new_tokens: int = 0

    @property
    def untrained(self) -> str:
        """Say why the model cannot know traces, in words; empty where it may."""
        if self.training is not None:
            return "" if self.training["steps"] else "untrained: 0 steps"
        return f"untrained: {self.new_tokens} trace tokens are new to it" if self.new_tokens else ""

    def lacks(self, forcing: str, one_token: bool, shown: Collection[Role]) -> str:
        """Say which of the shown roles training never supervised, though the model has to write them, or teacher forcing could ask for
        them. `forcing`: its name; `one_token`: as of the format."""
        supervised = (self.training or {}).get("supervised")
        if self.untrained or supervised is None:
            return self.untrained
        unknown = {role for role in shown if role.label not in supervised} - {Role.CONTEXT}

        def left(name: str) -> list[str]:
            return [role.label for role in sorted(unknown & left_to_the_model(name, one_token))]

        why = "which train.loss_roles never supervised"
        if fed_by_name(forcing) == TEACHER_FORCED:
            return f"not asked: {', '.join(role.label for role in sorted(unknown))}, {why}" if unknown else ""
        if not (roles := left(forcing)):
            return ""
        feeds = next(name for name in ("action_forced", "state_forced", "teacher_forced") if not left(name))
        return f"{forcing} leaves {', '.join(roles)} to the model, {why}: forcing {feeds} feeds them"
