"""What a view holds, before anything is said of colours, terminals or pages: parts, blocks of tokens, and counts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from remedy.data_gen.roles import Role
from remedy.eval.view.doubt import NAMES, doubt
from remedy.eval.view.text import token_texts
from remedy.models.tokenizer import Encoded, TraceTokenizer

MEANINGS = {
    Role.CONTEXT: "the program",
    Role.STRUCTURE: "separators",
    Role.EVENT: "what the frame is",
    Role.ACTION: "the line about to run",
    Role.QUERY: "what asks for a state",
    Role.STATE: "the variables before it runs",
    Role.VALUE: "what is returned or raised",
}
"""What stands beside each role in a legend."""


class Token(NamedTuple):
    """One token. `text` is what it stands for, with nothing escaped; `string`: it overlaps the text of a string value;
    `wrong`: it differs from the true one."""

    id: int
    text: str
    role: Role
    frame: int
    string: bool = False
    supervised: bool = True
    special: bool = False
    wrong: bool = False
    logprob: float | None = None
    """The natural logarithm of the probability that the model gave it, where that is known."""


@dataclass(frozen=True)
class Block:
    """The tokens of the context (`frame` -1), or of one frame. `written`: what a model wrote there, where a record is shown."""

    frame: int
    label: str
    tokens: tuple[Token, ...]
    written: tuple[Token, ...] | None = None
    note: str = ""
    first_error: bool = False
    probability: float | None = None
    """That of all that the model wrote here, where it wrote anything."""
    shows: str = ""
    """What changes in the state that is written."""
    marks: tuple[str, ...] = ()
    """What is wrong with what is written, in sentences."""


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
    """How many tokens of a role there are, how many of them are supervised, and how many lie in strings."""

    role: Role
    tokens: int
    supervised: int
    strings: int


@dataclass(frozen=True)
class View:
    """Everything that is shown."""

    title: str
    parts: tuple[Part, ...]
    facts: dict[str, str] = field(default_factory=dict)
    asked: str = "supervised"
    """What is said of the tokens that are not grey."""

    def tokens(self) -> Iterator[Token]:
        """All tokens in order, without what a model wrote."""
        return (token for part in self.parts for block in part.blocks for token in block.tokens)

    def counts(self) -> list[RoleCount]:
        """Tokens by role, for the roles that occur."""
        tokens = list(self.tokens())
        by_role = {role: [token for token in tokens if token.role is role] for role in MEANINGS}
        return [
            RoleCount(role, len(of_role), sum(t.supervised for t in of_role), sum(t.string for t in of_role))
            for role, of_role in by_role.items()
            if of_role
        ]

    @property
    def first_error(self) -> int | None:
        """The frame of the first error, where there is one."""
        return next((block.frame for part in self.parts for block in part.blocks if block.first_error), None)

    def doubts(self) -> list[int]:
        """How many tokens that a model wrote there are of each step of doubt, the surest first; nothing where that is not known."""
        blocks = [block for part in self.parts for block in part.blocks]
        written = [token for block in blocks for token in (block.tokens if block.written is None else block.written)]
        steps = [doubt(token.logprob) for token in written if token.logprob is not None]
        return [steps.count(step) for step in range(len(NAMES))] if steps else []

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
