"""Forcings: the roles that are fed to a model, by name or as a list; it writes the others (`Diagnostic.forcing` describes each).

Where states or values are fed, the answer is read from what was given: whether it is right is undefined. Under a constraint the context
alone is fed, and no truth is known (`constrained`).
"""

from __future__ import annotations

from remedy.data_gen.roles import ROLES, Role

FREE = frozenset({Role.CONTEXT})
ACTION_FORCED = frozenset({Role.CONTEXT, Role.STRUCTURE, Role.EVENT, Role.ACTION, Role.QUERY})
LINE_FORCED = ACTION_FORCED - {Role.EVENT}
STATE_FORCED = frozenset({Role.CONTEXT, Role.STRUCTURE, Role.STATE, Role.VALUE})
TEACHER_FORCED = frozenset(Role)
ANSWERS = frozenset({Role.STATE, Role.VALUE})
"""The roles that answers are read from."""

FORCINGS: dict[str, frozenset[Role]] = {
    "free": FREE,
    "line_forced": LINE_FORCED,
    "action_forced": ACTION_FORCED,
    "state_forced": STATE_FORCED,
    "teacher_forced": TEACHER_FORCED,
    "control_flow": FREE,
}
CONSTRAINED = frozenset({"control_flow"})
"""Forcings that hold the model to what the program allows, beside what they feed."""

Forcing = str | tuple[str, ...]
"""Which roles the decoder feeds: a name of FORCINGS, or a list of role names."""


def fed_roles(forcing: Forcing) -> frozenset[Role]:
    """The roles a forcing feeds."""
    if isinstance(forcing, str):
        return FORCINGS[forcing]
    return frozenset(ROLES[name] for name in forcing)


def fed_by_name(name: str) -> frozenset[Role]:
    """The roles fed by the forcing of this name (`forcing_name`)."""
    return fed_roles(name if name in FORCINGS else tuple(name.split("+")))


def left_to_the_model(name: str, one_token: bool) -> frozenset[Role]:
    """The roles that a model has to write by itself under the forcing of this name. `one_token`: as of the format."""
    fed = fed_by_name(name)
    left = frozenset(Role) - fed
    if name in CONSTRAINED:
        left -= {Role.EVENT, Role.ACTION}
    # A text ends where the model writes the separator that follows it, even if that one is fed then.
    return left | {Role.STRUCTURE} if left - {Role.EVENT} and not one_token else left


def feeds_answers(forcing: Forcing) -> bool:
    """Say if a forcing feeds tokens that answers are read from, so that whether one is right is undefined."""
    return bool(fed_roles(forcing) & ANSWERS)


def forcing_name(forcing: Forcing) -> str:
    """Name a forcing in records and reports."""
    return forcing if isinstance(forcing, str) else "+".join(forcing)


def constraint_of(forcing: Forcing) -> str:
    """Name the constraint of a forcing; empty where it has none."""
    return forcing if isinstance(forcing, str) and forcing in CONSTRAINED else ""


def fed_as(name: str) -> str:
    """The forcing without a constraint that feeds what this one feeds: a constraint knows no truth, and feeds none."""
    return "free" if name in CONSTRAINED else name


def gives_half_an_action(name: str) -> bool:
    """Say if the forcing of this name (`forcing_name`) feeds a frame's event or its source line, and not both. Shares of right
    actions are of both together, so that under teacher forcing they say nothing of the half that the model writes here."""
    fed = fed_by_name(name)
    return (Role.EVENT in fed) != (Role.ACTION in fed)


def check_forcing(forcing: Forcing) -> None:
    """Check that a forcing can be decoded.

    Raises:
        ValueError: it names no forcing or role, or leaves out what the decoder needs.
    """
    if isinstance(forcing, str) and forcing not in FORCINGS:
        raise ValueError(f"unknown forcing {forcing!r}; valid: {', '.join(FORCINGS)}, or a list of roles")
    if not isinstance(forcing, str) and not set(forcing) <= set(ROLES):
        raise ValueError(f"a forcing lists roles among {', '.join(ROLES)}")
    fed = fed_roles(forcing)
    if Role.CONTEXT not in fed or (fed != FREE and Role.STRUCTURE not in fed):
        raise ValueError(
            "a forcing feeds context, and structure too unless it feeds nothing else: it marks where runs end"
        )
