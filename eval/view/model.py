"""A trace to look at: its tokens by role, and what a model wrote beside what is true; nothing of colours, terminals or pages."""

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
"""The meaning of each role, for legends."""
BORDERS = (0.99, 0.9, 0.5)
STEPS = ("0.99 and more", "0.9 to 0.99", "0.5 to 0.9", "below 0.5")
"""Steps of the model's own probability of a token, and the least of each but the last."""
_SIGNS = str.maketrans({"\n": "↵", "\t": "⇥"})


def visible(text: str) -> str:
    """The text with a sign for each newline and tab, and with every other control or format character as its escape."""
    return escaped(text.translate(_SIGNS))


class Token(NamedTuple):
    """One token. `text` has nothing escaped; `string`: it overlaps the text of a string value; `supervised`: it is learnt, or the
    model wrote it; `wrong`: it differs from the true one; `logprob`: the natural logarithm of the model's own probability of it (NaN:
    a server does not tell; None: no model chose it); `cut`: the probability of all that a constraint did not allow in its place."""

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
        """The step of its probability; None where that is not known."""
        if self.logprob is None or math.isnan(self.logprob):
            return None
        return sum(math.exp(self.logprob) < border for border in BORDERS)


@dataclass(frozen=True)
class Block:
    """The tokens of the context (`frame` -1), or of one frame. `written`: those of a model beside true ones;
    `missing`: true tokens that were not written."""

    frame: int
    label: str
    tokens: tuple[Token, ...]
    written: tuple[Token, ...] | None = None
    first_error: bool = False
    missing: int = 0

    @property
    def chosen(self) -> list[Token]:
        """The tokens that a model chose."""
        tokens = self.tokens if self.written is None else self.written
        return [token for token in tokens if token.logprob is not None]

    @property
    def probability(self) -> float | None:
        """The model's own probability of all that it chose here; NaN where a server does not tell, None where it chose nothing."""
        logprobs = [token.logprob for token in self.chosen if token.logprob is not None]
        return math.exp(sum(logprobs)) if logprobs else None

    @property
    def note(self) -> str:
        """The least likely token, what a constraint cut, and how many tokens are missing."""
        known = [token for token in self.chosen if token.step is not None]
        said = ["probability unknown: a server chose"] if len(known) < len(self.chosen) else []
        if known:
            least = min(known, key=lambda token: token.logprob or 0)
            said.append(f"least likely token {visible(least.text) or '·'!r} {math.exp(least.logprob or 0):.3g}")
        cut = 1 - math.prod(1 - token.cut for token in self.chosen)
        said += [f"a probability of {cut:.3g} was cut"] if cut > 0 else []
        return ", ".join([*said, *([f"{self.missing} tokens not written"] if self.missing else [])])


@dataclass(frozen=True)
class View:
    """Blocks with a title and facts. `asked`: the word for tokens that are not grey; `separator`: stands between tokens' texts."""

    title: str
    blocks: tuple[Block, ...]
    facts: dict[str, str] = field(default_factory=dict)
    asked: str = "supervised"
    separator: str = ""

    @property
    def tokens(self) -> list[Token]:
        """All tokens in order, without those that a model wrote beside them."""
        return [token for block in self.blocks for token in block.tokens]

    def counts(self) -> Iterator[tuple[Role, int, int, int]]:
        """Tokens by role, for the roles that occur: all, the supervised ones, and those in strings."""
        for role in MEANINGS:
            if mine := [token for token in self.tokens if token.role is role]:
                yield role, len(mine), sum(token.supervised for token in mine), sum(token.string for token in mine)


def view_of(
    title: str, form: str, tokenizer: TraceTokenizer, tokens: Sequence[Token], facts: Mapping[str, Any]
) -> View:
    """An example written in a format."""
    said = {"format": form, "tokenizer": tokenizer.settings.kind, **facts}
    said = {name.replace("_", " "): str(fact) for name, fact in said.items() if fact != ""}
    return View(title, blocks_of(tokens), said, separator=" " if FORMATS[form].one_token else "")


def tokens_of(tokenizer: TraceTokenizer, encoded: Encoded, supervised: frozenset[Role]) -> list[Token]:
    """Tokens with their texts; those of `supervised` roles are learnt."""
    return [
        Token(token, text, Role(role), frame, string, Role(role) in supervised, tokenizer.is_special(token))
        for token, role, frame, string, text in zip(*encoded, token_texts(tokenizer, encoded.ids))
    ]


def blocks_of(tokens: Sequence[Token]) -> tuple[Block, ...]:
    """Tokens in order as one block for each frame. A special token alone after the last frame is the end."""
    found = []
    for frame, group in groupby(tokens, key=lambda token: token.frame):
        mine = tuple(group)
        ends = len(mine) == 1 and mine[0].special and mine[0] is tokens[-1]
        label = "context" if frame < 0 else "end" if ends else f"frame {frame}"
        found.append(Block(frame, label, mine))
    return tuple(found)


def lines_of(tokens: Sequence[Token]) -> list[list[tuple[int, Token, str]]]:
    """A block's tokens as lines, each with its place and its text there: one ends after a newline, unless a special token follows."""
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
    """A stretch of the true sequence, and the tokens that a model wrote in its place."""

    start: int
    stop: int
    tokens: Sequence[Token]


def beside(
    truth: Sequence[Token],
    runs: Sequence[Run],
    error: int = -1,
    by_place: bool = False,
) -> tuple[Block, ...]:
    """A block for every true frame, with what was written of it, and for frames that were written after the last. `error`: the number
    of the first frame that differs, below 0 if none does.

    Tokens that the model did not write are not supervised in this view, and shown grey. `by_place`: every written token stands for
    the true token in its place, as in one-token formats and under teacher forcing; else a frame's are aligned with the true ones.
    """
    asked = {place for run in runs for place in range(run.start, run.stop)}
    true = [token._replace(supervised=place in asked) for place, token in enumerate(truth)]
    written: dict[int, list[Token]] = {}
    for token in _decoded(true, runs, by_place):
        written.setdefault(token.frame, []).append(token)
    align = (lambda true, own: tuple(own)) if by_place else _aligned
    blocks = list(blocks_of(true))
    after = {*written} - {block.frame for block in blocks}
    blocks += [Block(frame, f"frame {frame}", ()) for frame in sorted(after)]
    for place, block in enumerate(blocks):
        if block.frame < 0:
            continue
        here = written.get(block.frame, [])
        missing = len(block.tokens) - len(here) if runs and by_place else 0
        first = block.frame == error
        blocks[place] = replace(block, written=align(block.tokens, here), first_error=first, missing=missing)
    return tuple(blocks)


def _decoded(true: Sequence[Token], runs: Sequence[Run], by_place: bool) -> Iterator[Token]:
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
            same = tag == "equal"
            near = true[min(start + offset * same, len(true) - 1)] if true else token
            found.append(
                token._replace(role=near.role, string=same and near.string, wrong=token.supervised and not same)
            )
    return tuple(found)
