"""Roles that a model was never taught, though an evaluation asks for them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from remedy.data_gen.roles import Role
from remedy.eval.decoding.forcings import TEACHER_FORCED, fed_by_name, left_to_the_model


class Knowledge(NamedTuple):
    """Knowledge of traces that a model has from its training.

    `training`: the run's manifest. `new_tokens`: trace tokens that its vocabulary lacked.
    """

    training: Mapping[str, Any] | None = None
    new_tokens: int = 0

    @property
    def untrained(self) -> str:
        """Explain why the model cannot know traces; empty if it may."""
        if self.training is not None:
            return "" if self.training["steps"] else "untrained: 0 steps"
        return f"untrained: {self.new_tokens} trace tokens are new to it" if self.new_tokens else ""

    def lacks(self, forcing: str, one_token: bool, shown: Collection[Role]) -> str:
        """Explain which shown roles the model must write untaught; empty if none.

        Under teacher forcing such roles are not predicted. `forcing`: its name.
        """
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
        # By how much they feed: the first that leaves nothing untaught is advised.
        feeds = next(name for name in ("action_forced", "state_forced", "teacher_forced") if not left(name))
        return f"{forcing} leaves {', '.join(roles)} to the model, {why}: forcing {feeds} feeds them"
