"""A view before anything is said of colours, terminals or pages: parts, blocks of tokens, counts, and text that is safe to show."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from itertools import groupby
from typing import NamedTuple

from remedy.data_gen.roles import Role
from remedy.eval.records.generations import token_texts
from remedy.messages import escaped
from remedy.models.tokenizer import Encoded, TraceTokenizer

MEANINGS = {
    Role.CONTEXT: "the program",
    Role.STRUCTURE: "separators",
    Role.EVENT: "call, line, return or exception",
    Role.ACTION: "the line about to run",
    Role.QUERY: "the question for a state",
    Role.STATE: "the variables before it runs",
    Role.VALUE: "the returned or raised value",
}
"""The meaning of each role, for legends."""
BORDERS = (0.99, 0.9, 0.5)
"""Probabilities at which the steps begin, the surest first."""
STEPS = ("0.99 and more", "0.9 to 0.99", "0.5 to 0.9", "below 0.5")
_SIGNS = str.maketrans({"\n": "↵", "\t": "⇥"})


def visible(text: str) -> str:
    """The text with a sign for each newline and tab, and with every other control or format character as its escape."""
    return escaped(text.translate(_SIGNS))


def step_of(logprob: float | None) -> int:
    """The step of its probability of a token by its log-probability; the surest where that is not known."""
    if logprob is None:
        return 0
    return next((step for step, border in enumerate(BORDERS) if math.exp(logprob) >= border), len(BORDERS))


class Token(NamedTuple):
    """One token. `text` has nothing escaped; `string`: it overlaps the text of a string value; `supervised`: it is learnt, or the
    model wrote it; `wrong`: it differs from the true one; `logprob`: the logarithm of the probability that the model gave it."""

    id: int
    text: str
    role: Role
    frame: int
    string: bool = False
    supervised: bool = True
    special: bool = False
    wrong: bool = False
    logprob: float | None = None


@dataclass(frozen=True)
class Block:
    """The tokens of the context (`frame` -1), or of one frame. `written`: those of a model, where a record is shown; `probability`: of
    all that it wrote here; `shows`: changes in the state that is written; `marks`: faults of what is written, as sentences."""

    frame: int
    label: str
    tokens: tuple[Token, ...]
    written: tuple[Token, ...] | None = None
    note: str = ""
    first_error: bool = False
    probability: float | None = None
    shows: str = ""
    marks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Part:
    """One example: a view of a packed row has several."""

    heading: str
    blocks: tuple[Block, ...]


class Piece(NamedTuple):
    """The part of a token that lies on one line; `number` is the token's place in its block."""

    number: int
    token: Token
    text: str


class RoleCount(NamedTuple):
    """Tokens of a role: all, the supervised ones, and those in strings."""

    role: Role
    tokens: int
    supervised: int
    strings: int


@dataclass(frozen=True)
class View:
    """All parts with a title and facts. `asked`: the word for tokens that are not grey."""

    title: str
    parts: tuple[Part, ...]
    facts: dict[str, str] = field(default_factory=dict)
    asked: str = "supervised"

    def blocks(self) -> list[Block]:
        """The blocks of all parts."""
        return [block for part in self.parts for block in part.blocks]

    def tokens(self) -> Iterator[Token]:
        """All tokens in order, without those that a model wrote."""
        return (token for block in self.blocks() for token in block.tokens)

    def counts(self) -> list[RoleCount]:
        """Tokens by role, for the roles that occur."""
        by_role = {role: [token for token in self.tokens() if token.role is role] for role in MEANINGS}
        return [
            RoleCount(role, len(mine), sum(t.supervised for t in mine), sum(t.string for t in mine))
            for role, mine in by_role.items()
            if mine
        ]

    @property
    def first_error(self) -> int | None:
        """The frame of the first error, where there is one."""
        return next((block.frame for block in self.blocks() if block.first_error), None)

    def steps(self) -> list[int]:
        """Written tokens by step of its probability, the surest first; empty where probabilities are not known."""
        written = [
            token for block in self.blocks() for token in (block.tokens if block.written is None else block.written)
        ]
        steps = [step_of(token.logprob) for token in written if token.logprob is not None]
        return [steps.count(step) for step in range(len(STEPS))] if steps else []

    def supervised_share(self) -> float:
        """The share of the tokens that are supervised."""
        counts = self.counts()
        return sum(count.supervised for count in counts) / max(1, sum(count.tokens for count in counts))


def tokens_of(tokenizer: TraceTokenizer, encoded: Encoded, supervised: Sequence[bool]) -> list[Token]:
    """Tokens with their texts; `supervised` says of each whether it is learnt."""
    columns = zip(*encoded, token_texts(tokenizer, encoded.ids), supervised)
    return [
        Token(token, text, Role(role), frame, string, learnt, tokenizer.is_special(token))
        for token, role, frame, string, text, learnt in columns
    ]


def blocks_of(tokens: Sequence[Token], labels: Mapping[int, str] | None = None) -> tuple[Block, ...]:
    """Tokens in order as one block for each frame; `labels` names frames better than their numbers do."""
    return tuple(
        Block(frame, (labels or {}).get(frame, "context" if frame < 0 else f"frame {frame}"), tuple(group))
        for frame, group in groupby(tokens, key=lambda token: token.frame)
    )


def lines_of(tokens: Sequence[Token]) -> list[list[Piece]]:
    """A block's tokens as lines: one ends after a newline, unless a special token follows. A token may lie on several."""
    lines: list[list[Piece]] = [[]]
    ended = False
    for number, token in enumerate(tokens):
        for text in re.findall(r"[^\n]*\n|[^\n]+", token.text) or [""]:
            if ended and not token.special:
                lines.append([])
            lines[-1].append(Piece(number, token, text))
            ended = text.endswith("\n")
    return lines


class Run(NamedTuple):
    """A stretch of the true sequence, and the tokens that a model wrote in its place."""

    start: int
    stop: int
    tokens: Sequence[Token]


def frame_at(numbers: Sequence[int], place: int) -> int:
    """The number of the frame at a place among the written ones; those after the last are numbered on from it."""
    return numbers[place] if place < len(numbers) else numbers[-1] + 1 + place - len(numbers)


def beside(
    truth: Sequence[Token], runs: Sequence[Run], labels: Mapping[int, str], by_place: bool = False
) -> tuple[Block, ...]:
    """A block for every true frame, with what was written of it, and for frames that were written after the last.

    Tokens that the model did not write are not supervised in this view, and shown grey. `by_place`: every written token stands for
    the true token in its place, as in one-token formats and under teacher forcing; else a frame's are aligned with the true ones.
    """
    asked = {place for run in runs for place in range(run.start, run.stop)}
    true = [token._replace(supervised=place in asked) for place, token in enumerate(truth)]
    written: dict[int, list[Token]] = {}
    for token in _decoded(true, runs, by_place):
        written.setdefault(token.frame, []).append(token)
    align = (lambda true, own: tuple(own)) if by_place else _aligned
    blocks = []
    for block in blocks_of(true, labels):
        here = written.pop(block.frame, [])
        blocks.append(replace(block, written=align(block.tokens, here) if block.frame >= 0 else None))
    blocks += [Block(frame, f"frame {frame}", (), align((), here)) for frame, here in sorted(written.items())]
    return tuple(blocks)


def _decoded(true: Sequence[Token], runs: Iterable[Run], by_place: bool) -> Iterator[Token]:
    """The decoded sequence: fed tokens are true ones, the others the model's. Nothing, if the model was not run."""
    end = 0
    for run in runs:
        yield from true[end : run.start]
        for offset, token in enumerate(run.tokens):
            near = true[min(run.start + offset, run.stop - 1)]
            if by_place:
                wrong = token.id != near.id
                token = token._replace(role=near.role, string=near.string, frame=near.frame, wrong=wrong)
            yield token
        end = run.stop
    if end:
        yield from true[end:]


def _aligned(true: Sequence[Token], written: Sequence[Token]) -> tuple[Token, ...]:
    """The written tokens of a frame with the roles of the true ones that they agree with; the model's others are wrong, each with the
    role of the true one where it stands."""
    matcher = SequenceMatcher(None, [token.id for token in true], [token.id for token in written], autojunk=False)
    found = []
    for tag, start, _, first, last in matcher.get_opcodes():
        for offset, token in enumerate(written[first:last]):
            if tag == "equal":
                near = true[start + offset]
                found.append(token._replace(role=near.role, string=near.string))
            else:
                role = true[min(start, len(true) - 1)].role if true else token.role
                found.append(token._replace(role=role, string=False, wrong=token.supervised))
    return tuple(found)
