"""Token masks from a program's control flow.

Separators and events are special tokens, and an action is one of a few source lines, so a trie over the possible frames gives the
allowed tokens (De Cao et al., "Autoregressive entity retrieval", 2021). State and value are free text; none where the reveal leaves
it out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from remedy.data_gen.execution.program import Event
from remedy.data_gen.roles import Role, Special
from remedy.data_gen.traces.cwm import EVENT_TOKENS, Cwm
from remedy.data_gen.traces.render import FORMATS
from remedy.data_gen.traces.reveal import RevealConfig
from remedy.data_gen.traces.spans import source_spans
from remedy.eval.control_flow import ControlFlow, ControlFlowError, Exceptions, Step, Walk
from remedy.eval.decoding.protocol import Allowed
from remedy.models.tokenizer import TraceTokenizer

WITH_LOCALS = frozenset({Event.CALL, Event.LINE})
Symbols = tuple[int, ...]
"""Tokens and free texts: `~token` is a free text that this token closes."""


class Trie:
    """Prefix tree over frames. `steps` holds what the frames below it may stand for."""

    __slots__ = ("next", "steps")

    def __init__(self) -> None:
        self.next: dict[int, Trie] = {}
        self.steps: set[Step] = set()

    def add(self, symbols: Iterable[int], step: Step) -> None:
        node = self
        for symbol in symbols:
            node = node.next.setdefault(symbol, Trie())
            node.steps.add(step)

    @property
    def closing(self) -> int | None:
        """Return the token that closes the free text next; None if none follows."""
        return next((~symbol for symbol in self.next if symbol < 0), None)


class TraceGrammar:
    """Grammar of one program's traces for a tokenizer and a format.

    Raises:
        ControlFlowError: as in `check`.
    """

    def __init__(
        self,
        flow: ControlFlow,
        tokenizer: TraceTokenizer,
        format: str = "cwm",
        reveal: RevealConfig | None = None,
    ) -> None:
        self.reveal = reveal or RevealConfig()
        self.check(format, self.reveal)
        writer = FORMATS[format]
        assert isinstance(writer, Cwm)
        self.flow = flow
        self.tokenizer = tokenizer
        self.seeded = writer.seeded
        self._writer = writer
        # Caches of this object, which are freed with it; those of a class would keep every grammar.
        self.frame = cache(self._frame)
        """The symbols of a step's frame; the end of the trace is one token."""
        self.frames = cache(self._frames)
        """A trie of the frames of some steps."""

    @staticmethod
    def check(format: str, reveal: RevealConfig) -> None:
        """Check that control flow can follow this format and these states.

        Raises:
            ControlFlowError: the format writes no events, or frames are left out.
        """
        if not isinstance(FORMATS[format], Cwm):
            known = ", ".join(name for name, writer in FORMATS.items() if isinstance(writer, Cwm))
            raise ControlFlowError(
                f"format: {format} does not write events, which control flow goes by; use one of {known}"
            )
        plain = RevealConfig()
        settings = ("answer_only", "call_depth", "frames", "loops")
        if setting := next((name for name in settings if getattr(reveal, name) != getattr(plain, name)), ""):
            raise ControlFlowError(
                f"reveal.{setting}: control flow goes from frame to frame, and this leaves frames out"
            )

    def start(self, exceptions: Exceptions = "all") -> TokenWalk:
        """Return the state after the prompt, which in most formats ends with the entry's CALL.

        `exceptions`: see `ControlFlow.start`.
        """
        walk = self.flow.start(exceptions)
        # The prompt holds that CALL, so that no token is written for it.
        if self.seeded:
            after = walk.advance(walk.allowed())
            assert after is not None
            walk = after
        return self.state_at(walk, int(self.seeded))

    def state_at(self, walk: Walk, with_locals: int) -> TokenWalk:
        """Return the state before a frame, after so many frames with locals."""
        return TokenWalk(self, walk, self.frames(walk.allowed()), with_locals)

    def leaves_out(self, walk: Walk, node: Trie, ordinal: int) -> bool:
        """Say if no state stands at a node of the next frame, the `ordinal`-th with locals."""
        reveal, is_state = self.reveal, node.closing == self.tokenizer.special_ids[Special.ACTION_SEP]
        if not is_state or reveal.at is not None or reveal.locals == "changes" or reveal.keeps(ordinal, -1):
            return False
        return not any(may_end(walk.advance({step})) for step in node.steps)  # a trace's last state is always shown

    def _frames(self, allowed: frozenset[Step]) -> Trie:
        trie = Trie()
        for step in allowed:
            trie.add(self.frame(step), step)
        return trie

    def _frame(self, step: Step) -> Symbols:
        special, event = self.tokenizer.special_ids, step.event
        if event is None:
            return (special[Special.END_OF_TEXT],)
        source = self._writer.action(self.flow.program, step.line, self.flow.source(step))
        action = self.tokenizer.encode(source_spans(Role.ACTION, source, 0)).ids
        first, separator, end = special[EVENT_TOKENS[event]], special[Special.ACTION_SEP], special[Special.FRAME_SEP]
        if event in WITH_LOCALS:
            return (first, ~separator, *action, end)
        return (first, separator, *action, special[Special.ARG_SEP], ~end)


@dataclass(slots=True, eq=False)
class TokenWalk:
    """Immutable state of the grammar within a trace."""

    grammar: TraceGrammar
    walk: Walk
    node: Trie
    """Position in the frame that follows those which `walk` has read."""
    with_locals: int
    """Number of frames with locals that `walk` has read."""
    left_out: bool = False
    """Whether the text at `node` is a state that the reveal leaves out."""

    @property
    def done(self) -> bool:
        return not self.node.next

    def allowed(self) -> Allowed:
        closing = self.node.closing
        if closing is None:
            return Allowed(frozenset(self.node.next))
        return Allowed(frozenset({closing}), text=not self.left_out)

    def after(self, token: int) -> TokenWalk | None:
        node = self.node.next.get(token) or self.node.next.get(~token)
        if node is None:  # free text stays where it is until its closing token
            return self if self.allowed().text and not self.grammar.tokenizer.is_special(token) else None
        walk = None if node.next else self.walk.advance(node.steps)
        if walk is None:
            left_out = self.grammar.leaves_out(self.walk, node, self.with_locals)
            return TokenWalk(self.grammar, self.walk, node, self.with_locals, left_out)
        read = any(step.event in WITH_LOCALS for step in node.steps)
        return self.grammar.state_at(walk, self.with_locals + read)


MOST_LEAVING = 100
"""Frames without locals that are followed to the end of a trace."""


def may_end(walk: Walk | None) -> bool:
    """Say if a trace may end without another frame that has locals."""
    waiting = [walk]
    for number, after in enumerate(waiting):  # which grows meanwhile
        steps = after.allowed() if after is not None else ()
        if number > MOST_LEAVING or any(step.event is None for step in steps):
            return True
        for event in (Event.RETURN, Event.EXCEPTION):
            if leaving := {step for step in steps if step.event is event}:
                assert after is not None
                waiting.append(after.advance(leaving))
    return False
