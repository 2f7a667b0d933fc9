"""Forcings: the roles that are fed to a model, by name or as a list.

Where states or values are fed, the answer is given, so whether it is right is undefined. A constraint feeds the context alone.
"""

from __future__ import annotations

from remedy.data_gen.roles import ROLES, Role

FREE = frozenset({Role.CONTEXT})
ACTION_FORCED = frozenset({Role.CONTEXT, Role.STRUCTURE, Role.EVENT, Role.ACTION, Role.QUERY})
LINE_FORCED = ACTION_FORCED - {Role.EVENT}
STATE_FORCED = frozenset({Role.CONTEXT, Role.STRUCTURE, Role.STATE, Role.VALUE})
TEACHER_FORCED = frozenset(Role)
ANSWERS = frozenset({Role.STATE, Role.VALUE})
"""Roles that answers are read from."""

FORCINGS: dict[str, frozenset[Role]] = {
    "free": FREE,
    "line_forced": LINE_FORCED,
    "action_forced": ACTION_FORCED,
    "state_forced": STATE_FORCED,
    "teacher_forced": TEACHER_FORCED,
    "control_flow": FREE,
}
CONSTRAINED = frozenset({"control_flow"})
"""Forcings that also constrain the model to what the program allows."""

Forcing = str | tuple[str, ...]
"""A name in FORCINGS, or a list of role names."""


def fed_roles(forcing: Forcing) -> frozenset[Role]:
    if isinstance(forcing, str):
        return FORCINGS[forcing]
    return frozenset(ROLES[name] for name in forcing)


def fed_by_name(name: str) -> frozenset[Role]:
    """Return the roles fed by the forcing of this name (`forcing_name`)."""
    return fed_roles(name if name in FORCINGS else tuple(name.split("+")))


def left_to_the_model(name: str, one_token: bool) -> frozenset[Role]:
    """Return the roles that a model must write itself.

    `one_token`: whether the format writes each part as one token.
    """
    fed = fed_by_name(name)
    left = frozenset(Role) - fed
    if name in CONSTRAINED:  # an untaught model still writes events and lines that its program allows
        left -= {Role.EVENT, Role.ACTION}
    # A text ends when the model writes the next separator, even though that one is fed too.
    return left | {Role.STRUCTURE} if left - {Role.EVENT} and not one_token else left


def feeds_answers(forcing: Forcing) -> bool:
    return bool(fed_roles(forcing) & ANSWERS)


def forcing_name(forcing: Forcing) -> str:
    """Return the name of a forcing in records and reports."""
    return forcing if isinstance(forcing, str) else "+".join(forcing)


def constraint_of(forcing: Forcing) -> str:
    """Return a forcing's constraint; empty if it has none."""
    return forcing if isinstance(forcing, str) and forcing in CONSTRAINED else ""


def fed_as(name: str) -> str:
    """Return the forcing without a constraint that feeds the same roles."""
    return "free" if name in CONSTRAINED else name


def gives_half_an_action(name: str) -> bool:
    """Return whether a forcing feeds either events or source lines, and not both.

    The share of right actions then says nothing about the other half.
    """
    fed = fed_by_name(name)
    return (Role.EVENT in fed) != (Role.ACTION in fed)


def check_forcing(forcing: Forcing) -> None:
    """Check that a forcing can be decoded.

    Raises:
        ValueError: it has an unknown name or role, or does not feed what the decoder needs.
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
