"""Tokens that a program's control flow allows next in a written trace.

Between separators, which are ids and never text, an event is one token and an ACTION is one of a few source lines, each of which a
tokenizer cuts in one way: a trie over their ids says which tokens may follow (De Cao et al., "Autoregressive entity retrieval", 2021).
STATE and VALUE are free text. What is allowed alone need not be asked of a model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum

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
TEXT = None
"""Free text and the token that closes it."""
Symbols = tuple[int | None, ...]
"""Tokens, and `TEXT`."""


def check_traces(format: str, reveal: RevealConfig) -> None:
    """Say if traces that are written so can be told by control flow.

    Raises:
        ControlFlowError: the format has no events to tell frames by, or frames are left out.
    """
    if not isinstance(FORMATS[format], Cwm):
        known = ", ".join(name for name, one in FORMATS.items() if isinstance(one, Cwm))
        raise ControlFlowError(
            f"format: {format} does not write events, which control flow goes by; use one of {known}"
        )
    if reveal.answer_only or reveal.call_depth is not None:
        setting = "answer_only" if reveal.answer_only else "call_depth"
        raise ControlFlowError(f"reveal.{setting}: control flow goes from frame to frame, and this leaves frames out")


class Trie:
    """Lists of ids that have beginnings in common. A list that ends has `steps`: the frames that it may stand for."""

    __slots__ = ("next", "steps")

    def __init__(self) -> None:
        self.next: dict[int, Trie] = {}
        self.steps: set[Step] = set()

    def add(self, ids: Iterable[int], step: Step) -> None:
        node = self
        for token in ids:
            node = node.next.setdefault(token, Trie())
        node.steps.add(step)


class Phase(Enum):
    """Part of a frame that is written next."""

    EVENT = 0
    STATE = 1
    ACTION_SEP = 2
    ACTION = 3
    VALUE = 4
    DONE = 5

    __hash__ = object.__hash__


class TraceGrammar:
    """The traces of one program as a tokenizer and a format write them.

    Raises:
        ControlFlowError: the format has no events to tell frames by, or frames are left out.
    """

    def __init__(
        self, flow: ControlFlow, tokenizer: TraceTokenizer, format: str = "cwm", reveal: RevealConfig | None = None
    ) -> None:
        writer = FORMATS[format]
        check_traces(format, reveal or RevealConfig())
        assert isinstance(writer, Cwm)
        self.flow = flow
        self.tokenizer = tokenizer
        self.seeded = writer.seeded
        self._writer = writer
        self.reveal = reveal or RevealConfig()
        special = tokenizer.special_ids
        self.separators = {name: special[name] for name in (Special.ACTION_SEP, Special.ARG_SEP, Special.FRAME_SEP)}
        self.event_ids: dict[Event | None, int] = {event: special[token] for event, token in EVENT_TOKENS.items()}
        self.event_ids[None] = special[Special.END_OF_TEXT]
        self.events = {token: event for event, token in self.event_ids.items()}
        self._tries: dict[frozenset[Step], dict[Event | None, Trie]] = {}

    def start(self, exceptions: Exceptions = "all") -> TokenWalk:
        """After the prompt, which in most formats ends with the entry's CALL. `exceptions`: see `ControlFlow.start`."""
        walk = self.flow.start(exceptions)
        if self.seeded:
            after = walk.advance(walk.allowed())
            assert after is not None
            walk = after
        return TokenWalk(self, walk, Phase.EVENT)

    def tries(self, allowed: frozenset[Step]) -> dict[Event | None, Trie]:
        """The source lines of steps, by event."""
        found = self._tries.get(allowed)
        if found is None:
            found = self._tries[allowed] = {}
            for step in allowed:
                found.setdefault(step.event, Trie()).add(self.ids(step), step)
        return found

    def frame(self, event: Event | None, action: Sequence[int]) -> Symbols:
        """A frame whose source line has these tokens; the end of the trace is one token."""
        if event is None:
            return (self.event_ids[event],)
        separators = self.separators
        if event in WITH_LOCALS:
            return (self.event_ids[event], TEXT, *action, separators[Special.FRAME_SEP])
        sep, arg_sep = separators[Special.ACTION_SEP], separators[Special.ARG_SEP]
        return (self.event_ids[event], sep, *action, arg_sep, TEXT)

    def ids(self, step: Step) -> list[int]:
        """The tokens of a step's ACTION."""
        if step.event is None:
            return []
        source = self._writer.action(self.flow.program, step.line, self.flow.source(step))
        return self.tokenizer.encode(source_spans(Role.ACTION, source, 0)).ids


class TokenWalk:
    """A place in a trace that is being written. It does not change: `after` gives another, so that guesses can be taken back."""

    __slots__ = ("_event", "_phase", "_trie", "_walk", "grammar")

    def __init__(
        self, grammar: TraceGrammar, walk: Walk, phase: Phase, event: Event | None = None, trie: Trie | None = None
    ) -> None:
        self.grammar = grammar
        self._walk = walk
        self._phase = phase
        self._event = event
        self._trie = trie

    @property
    def done(self) -> bool:
        """Say if the trace has ended."""
        return self._phase is Phase.DONE

    @property
    def steps(self) -> frozenset[Step]:
        """The frames that the one being written may be, as far as it is written."""
        if self._phase is Phase.EVENT:
            return self._next_steps()
        return frozenset(steps_of(self._trie)) if self._trie is not None else frozenset()

    def allowed(self) -> Allowed:
        """Return what may come next; nothing when the trace has ended."""
        grammar, phase = self.grammar, self._phase
        separators = grammar.separators
        if phase is Phase.EVENT:
            return Allowed(frozenset(grammar.event_ids[event] for event in grammar.tries(self._next_steps())))
        if phase is Phase.STATE:
            return Allowed(frozenset({separators[Special.ACTION_SEP]}), text=True)
        if phase is Phase.ACTION_SEP:
            return Allowed(frozenset({separators[Special.ACTION_SEP]}))
        if phase is Phase.ACTION:
            assert self._trie is not None
            return Allowed(frozenset(self._trie.next or {self._closing()}))
        if phase is Phase.VALUE:
            return Allowed(frozenset({separators[Special.FRAME_SEP]}), text=True)
        return Allowed(frozenset())

    def after(self, token: int) -> TokenWalk | None:
        """After one more token; None if it is not allowed."""
        allowed = self.allowed()
        if token not in allowed.ids:
            return self if allowed.text and not self.grammar.tokenizer.is_special(token) else None
        grammar, phase = self.grammar, self._phase
        if phase is Phase.EVENT:
            event = grammar.events[token]
            phase = Phase.DONE if event is None else Phase.STATE if event in WITH_LOCALS else Phase.ACTION_SEP
            return TokenWalk(grammar, self._walk, phase, event, grammar.tries(self._walk.allowed())[event])
        if phase in (Phase.STATE, Phase.ACTION_SEP):
            return TokenWalk(grammar, self._walk, Phase.ACTION, self._event, self._trie)
        assert self._trie is not None
        if phase is Phase.ACTION and self._trie.next:
            return TokenWalk(grammar, self._walk, phase, self._event, self._trie.next[token])
        if phase is Phase.ACTION and self._event not in WITH_LOCALS:
            return TokenWalk(grammar, self._walk, Phase.VALUE, self._event, self._trie)
        walk = self._walk.advance(self._trie.steps)
        assert walk is not None
        return TokenWalk(grammar, walk, Phase.EVENT)

    def _next_steps(self) -> frozenset[Step]:
        """Return what the next frame may be."""
        return self._walk.allowed()

    def rest(self) -> Iterator[tuple[Symbols, Walk]]:
        """Return how the frame that is being written may go on to its end, and the walk after it; nothing when the trace has ended."""
        if self._phase is Phase.EVENT:
            yield (), self._walk
        elif self._phase is not Phase.DONE:
            assert self._trie is not None
            written = {Phase.STATE: 1, Phase.ACTION_SEP: 1, Phase.ACTION: 2, Phase.VALUE: -1}[self._phase]
            for ids, steps in endings(self._trie):
                walk = self._walk.advance(steps)
                assert walk is not None
                yield self.grammar.frame(self._event, ids)[written:], walk

    def _closing(self) -> int:
        """Return what stands after the source line."""
        closing = Special.FRAME_SEP if self._event in WITH_LOCALS else Special.ARG_SEP
        return self.grammar.separators[closing]


def steps_of(trie: Trie) -> set[Step]:
    """The steps that lists with this beginning stand for."""
    return trie.steps.union(*(steps_of(one) for one in trie.next.values()))


def endings(trie: Trie) -> Iterator[tuple[tuple[int, ...], set[Step]]]:
    """Return how each list with this beginning goes on, and the steps that it stands for."""
    if trie.steps:
        yield (), trie.steps
    for token, following in trie.next.items():
        for ids, steps in endings(following):
            yield (token, *ids), steps
