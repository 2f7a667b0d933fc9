"""What a model writes that knows the truth: the true tokens of all roles that a forcing leaves to it."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from remedy.data_gen.roles import Role, Special
from remedy.eval.decoding.cursor import Generated
from remedy.eval.decoding.forcings import TEACHER_FORCED, fed_roles
from remedy.models.tokenizer import Encoded, TraceTokenizer


def start_of(truth: Encoded) -> int:
    return next(place for place, role in enumerate(truth.roles) if role != Role.CONTEXT)


def ids_of(pieces: Sequence[str | Special], tokenizer: TraceTokenizer) -> list[int]:
    return [
        token
        for piece in pieces
        for token in ([tokenizer.special_ids[piece]] if isinstance(piece, Special) else tokenizer.string_ids(piece))
    ]


def generated(start: int, stop: int, ids: list[int], complete: bool = True) -> Generated:
    return Generated(start, stop, ids, [-1.0] * len(ids), complete)


def freely(truth: Encoded, ids: list[int], complete: bool = True) -> list[Generated]:
    return [generated(start_of(truth), len(truth.ids), ids, complete)]


def true_runs(truth: Encoded, forcing: Any) -> list[Generated]:
    """The true tokens of every role that is not fed, or that is predicted."""
    fed = fed_roles(forcing)
    asked = [role != Role.CONTEXT if fed == TEACHER_FORCED else role not in fed for role in truth.roles]
    alone = [one and role == Role.EVENT and Role.STRUCTURE in fed for one, role in zip(asked, truth.roles)]
    kinds = list(zip(asked, alone))
    borders = [0, *(at for at in range(1, len(asked)) if kinds[at] != kinds[at - 1]), len(asked)]
    return [generated(a, b, list(truth.ids[a:b])) for a, b in pairwise(borders) if asked[a]]
