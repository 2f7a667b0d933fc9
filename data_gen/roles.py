"""Roles: a written trace is a list of spans, and every span has a role."""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Annotated, NamedTuple

from remedy.registry import Registry, one_of


class Role(IntEnum):
    """Kind of a token; the stored values are never renumbered."""

    CONTEXT = 0
    """Given, never written by a model: the program's source and the seeded first frame."""
    STRUCTURE = 1
    """Separators, end of text."""
    ACTION = 2
    """The source line about to run, or the REPL command."""
    STATE = 3
    """The locals, or the values printed by a reveal."""
    VALUE = 4
    """A returned or raised value."""
    QUERY = 5
    """What asks for a state in a session, `>>> print('a', a)`: no line of the program."""
    EVENT = 6
    """The token that says what a frame is: a call, a line, a return or an exception."""

    @property
    def label(self) -> str:
        return self.name.lower()

    @property
    def column(self) -> str:
        """Return the column of records that counts its tokens."""
        return f"tokens_{self.label}"


ROLES: Registry[Role] = Registry("role")
ROLES.update({role.label: role for role in Role})

RoleName = Annotated[str, one_of(ROLES)]


PAD_ROLE = -1
"""Role of padding in arrays: in no set of roles, so never trained on, forced or counted."""


class Special(Enum):
    """Special token: an id, never text, so that no source can forge it."""

    PAD = "<|pad|>"
    BEGIN_OF_TEXT = "<|begin_of_text|>"
    END_OF_TEXT = "<|end_of_text|>"
    TRACE_CONTEXT_START = "<|trace_context_start|>"
    FRAME_SEP = "<|frame_sep|>"
    ACTION_SEP = "<|action_sep|>"
    CALL_SEP = "<|call_sep|>"
    LINE_SEP = "<|line_sep|>"
    RETURN_SEP = "<|return_sep|>"
    EXCEPTION_SEP = "<|exception_sep|>"
    ARG_SEP = "<|arg_sep|>"

    __hash__ = object.__hash__  # members are single objects; Enum's own hash is a slow call on a hot path


CWM_IDS: dict[Special, int] = {
    Special.BEGIN_OF_TEXT: 128000,
    Special.END_OF_TEXT: 128001,
    Special.PAD: 128004,
    Special.FRAME_SEP: 128100,
    Special.ACTION_SEP: 128101,
    Special.RETURN_SEP: 128102,
    Special.CALL_SEP: 128103,
    Special.LINE_SEP: 128104,
    Special.EXCEPTION_SEP: 128105,
    Special.ARG_SEP: 128106,
    Special.TRACE_CONTEXT_START: 128107,
}
"""Ids of the trace tokens in `facebook/cwm`'s own vocabulary (the model's public guide)."""


class Span(NamedTuple):
    """Piece of text, or one special token, with its role.

    `frame`: index of its trace frame, -1 in the context. `string`: it is a string value's text, which tokenizers may cut
    into characters.
    """

    role: Role
    piece: str | Special
    frame: int = -1
    string: bool = False


def spans_text(spans: list[Span], separator: str = "") -> str:
    """Join spans for people, special tokens by name."""
    return separator.join(s.piece.value if isinstance(s.piece, Special) else s.piece for s in spans)
