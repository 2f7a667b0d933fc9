"""Views: tokens by role, and what a model wrote beside the truth."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from itertools import groupby
from typing import Any, NamedTuple

from remedy.data_gen.roles import Role
from remedy.data_gen.traces.render import FORMATS
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
"""Meaning of each role, for legends."""
BORDERS = (0.99, 0.9, 0.5)
STEPS = ("0.99 and more", "0.9 to 0.99", "0.5 to 0.9", "below 0.5")
"""Classes of a token's probability, and the lower border of each but the last."""
_SIGNS = str.maketrans({"\n": "↵", "\t": "⇥"})


def visible(text: str) -> str:
    """Return the text with signs for newlines and tabs; other control characters are escaped."""
    return escaped(text.translate(_SIGNS))


class Token(NamedTuple):
    """Token of a view, with its text not escaped.

    `string`: in the text of a string value. `supervised`: learnt, or written by the model. `wrong`: differs from the true one.
    `logprob`: NaN if unknown, None if no model chose it. `cut`: probability that a constraint removed here.
    """

    id: int
    text: str
    role: Role
    frame: int
    string: bool = False
    supervised: bool = True
    special: bool = False
    wrong: bool = False
    logprob: float | None = None
    cut: float = 0.0

    @property
    def step(self) -> int | None:
        """Return the class of its probability; None if that is unknown."""
        if self.logprob is None or math.isnan(self.logprob):
            return None
        return sum(math.exp(self.logprob) < border for border in BORDERS)


@dataclass(frozen=True)
class Block:
    """Tokens of the context (`frame` -1) or of one frame.

    `written`: the model's, beside true ones. `missing`: number of true tokens not written.
    """

    frame: int
    label: str
    tokens: tuple[Token, ...]
    written: tuple[Token, ...] | None = None
    first_error: bool = False
    missing: int = 0

    @property
    def chosen(self) -> list[Token]:
        tokens = self.tokens if self.written is None else self.written
        return [token for token in tokens if token.logprob is not None]

    @property
    def probability(self) -> float | None:
        """Return the product of chosen tokens' probabilities; NaN if unknown, None without any."""
        logprobs = [token.logprob for token in self.chosen if token.logprob is not None]
        return math.exp(sum(logprobs)) if logprobs else None

    @property
    def note(self) -> str:
        known = [token for token in self.chosen if token.step is not None]
        unknown = "probability unknown: a server chose, or the text was cut into other tokens"
        remarks = [unknown] if len(known) < len(self.chosen) else []
        if known:
            least = min(known, key=lambda token: token.logprob or 0)
            remarks.append(f"least likely token {visible(least.text) or '·'!r} {math.exp(least.logprob or 0):.3g}")
        cut = 1 - math.prod(1 - token.cut for token in self.chosen)
        remarks += [f"a probability of {cut:.3g} was cut"] if cut > 0 else []
        return ", ".join([*remarks, *([f"{self.missing} tokens not written"] if self.missing else [])])


@dataclass(frozen=True)
class View:
    """Blocks with a title and facts.

    `asked`: the word for tokens that are not grey. `separator`: between texts of tokens.
    """

    title: str
    blocks: tuple[Block, ...]
    facts: dict[str, str] = field(default_factory=dict)
    asked: str = "supervised"
    separator: str = ""

    @property
    def tokens(self) -> list[Token]:
        """Return all tokens in order, without those written beside them."""
        return [token for block in self.blocks for token in block.tokens]

    def counts(self) -> Iterator[tuple[Role, int, int, int]]:
        """Yield each role with its numbers of tokens: all, supervised, and in strings."""
        for role in MEANINGS:
            if role_tokens := [token for token in self.tokens if token.role is role]:
                yield (
                    role,
                    len(role_tokens),
                    sum(token.supervised for token in role_tokens),
                    sum(token.string for token in role_tokens),
                )


def view_of(
    title: str, form: str, tokenizer: TraceTokenizer, tokens: Sequence[Token], facts: Mapping[str, Any]
) -> View:
    shown_facts = {"format": form, "tokenizer": tokenizer.settings.kind, **facts}
    shown_facts = {name.replace("_", " "): str(fact) for name, fact in shown_facts.items() if fact != ""}
    return View(title, blocks_of(tokens), shown_facts, separator=" " if FORMATS[form].one_token else "")


def tokens_of(tokenizer: TraceTokenizer, encoded: Encoded, supervised: frozenset[Role]) -> list[Token]:
    """Return tokens with their texts; those of `supervised` roles are learnt."""
    return [
        Token(token, text, Role(role), frame, string, Role(role) in supervised, tokenizer.is_special(token))
        for token, role, frame, string, text in zip(*encoded, token_texts(tokenizer, encoded.ids))
    ]


def blocks_of(tokens: Sequence[Token]) -> tuple[Block, ...]:
    """Group tokens into one block per frame.

    A special token alone after the last frame is the end.
    """
    blocks = []
    for frame, group in groupby(tokens, key=lambda token: token.frame):
        frame_tokens = tuple(group)
        ends = len(frame_tokens) == 1 and frame_tokens[0].special and frame_tokens[0] is tokens[-1]
        label = "context" if frame < 0 else "end" if ends else f"frame {frame}"
        blocks.append(Block(frame, label, frame_tokens))
    return tuple(blocks)


def lines_of(tokens: Sequence[Token]) -> list[list[tuple[int, Token, str]]]:
    """Split a block's tokens into lines of (index, token, text).

    A line ends after a newline, unless a special token follows.
    """
    lines: list[list[tuple[int, Token, str]]] = [[]]
    ended = False
    for number, token in enumerate(tokens):
        for text in re.findall(r"[^\n]*\n|[^\n]+", token.text) or [""]:
            if ended and not token.special:
                lines.append([])
            lines[-1].append((number, token, text))
            ended = text.endswith("\n")
    return lines


class Run(NamedTuple):
    """Stretch of the true sequence, and the tokens that a model wrote in its place."""

    start: int
    stop: int
    tokens: Sequence[Token]


def side_by_side(
    truth: Sequence[Token],
    runs: Sequence[Run],
    error: int = -1,
    by_place: bool = False,
) -> tuple[Block, ...]:
    """Return a block for each frame, with the written tokens beside the true ones.

    `error`: number of the first frame that differs, below 0 if none. `by_place`: compare tokens by position, as in one-token
    formats and under teacher forcing; else they are aligned. Tokens that the model did not write are grey.
    """
    model_positions = {position for run in runs for position in range(run.start, run.stop)}
    true = [token._replace(supervised=position in model_positions) for position, token in enumerate(truth)]
    written: dict[int, list[Token]] = {}
    for token in _decoded(true, runs, by_place):
        written.setdefault(token.frame, []).append(token)
    align = (lambda true, written_tokens: tuple(written_tokens)) if by_place else _aligned
    blocks = list(blocks_of(true))
    # What the model wrote after the true end.
    after = {*written} - {block.frame for block in blocks}
    blocks += [Block(frame, f"frame {frame}", ()) for frame in sorted(after)]
    for position, block in enumerate(blocks):
        if block.frame < 0:
            continue
        frame_tokens = written.get(block.frame, [])
        missing = len(block.tokens) - len(frame_tokens) if runs and by_place else 0
        first = block.frame == error
        blocks[position] = replace(block, written=align(block.tokens, frame_tokens), first_error=first, missing=missing)
    return tuple(blocks)


def _decoded(true: Sequence[Token], runs: Sequence[Run], by_place: bool) -> Iterator[Token]:
    """Yield the decoded sequence: true tokens where fed, else the model's."""
    end = 0
    for run in runs:
        yield from true[end : run.start]
        for offset, token in enumerate(run.tokens):
            # A run may be longer than the true one: the rest belongs to its last token.
            true_token = true[min(run.start + offset, run.stop - 1)]
            if by_place:
                wrong = token.id != true_token.id
                token = token._replace(
                    role=true_token.role, string=true_token.string, frame=true_token.frame, wrong=wrong
                )
            yield token
        end = run.stop
    if end:  # without a run nothing was decoded, so that nothing stands beside the truth
        yield from true[end:]


def _aligned(true: Sequence[Token], written: Sequence[Token]) -> tuple[Token, ...]:
    """Return a frame's written tokens with the roles of aligned true ones.

    Others that the model wrote are wrong.
    """
    # autojunk would not align frequent tokens, such as separators.
    matcher = SequenceMatcher(None, [token.id for token in true], [token.id for token in written], autojunk=False)
    aligned = []
    for tag, start, _, first, last in matcher.get_opcodes():
        for offset, token in enumerate(written[first:last]):
            same = tag == "equal"
            true_token = true[min(start + offset * same, len(true) - 1)] if true else token
            aligned.append(
                token._replace(
                    role=true_token.role, string=same and true_token.string, wrong=token.supervised and not same
                )
            )
    return tuple(aligned)
