"""The roles that a model was never taught, though an evaluation asks for them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from remedy.data_gen.roles import Role
from remedy.eval.decoding.forcings import TEACHER_FORCED, fed_by_name, left_to_the_model


class Knowledge(NamedTuple):
    """A model's knowledge of traces, by its training.

    `training`: a run's account of it. `new_tokens`: trace tokens that its vocabulary did not have.
    """

    training: Mapping[str, Any] | None = None
    new_tokens: int = 0

    @property
    def untrained(self) -> str:
        """Say why the model cannot know traces, in words; empty where it may."""
        if self.training is not None:
            return "" if self.training["steps"] else "untrained: 0 steps"
        return f"untrained: {self.new_tokens} trace tokens are new to it" if self.new_tokens else ""

    def lacks(self, forcing: str, one_token: bool, shown: Collection[Role]) -> str:
        """Say which shown roles the model has to write without having been taught; empty if none.

        Teacher forcing asks for no such role. `forcing`: its name. `one_token`: as of the format.
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
        feeds = next(name for name in ("action_forced", "state_forced", "teacher_forced") if not left(name))
        return f"{forcing} leaves {', '.join(roles)} to the model, {why}: forcing {feeds} feeds them"
