"""Tokens that may come next in a written trace by its program and by the states that it has written.

A line is evaluated on the writer's own state, which says which way it goes; and what the next state shows is certain where nothing
on the way stores or changes it. A value that is new is left to the writer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from remedy.data_gen.execution.program import Event
from remedy.data_gen.roles import Special
from remedy.data_gen.traces.cwm import read_locals
from remedy.data_gen.traces.parse import Malformed, json_string
from remedy.data_gen.traces.reveal import UNCHANGED, RevealConfig
from remedy.eval.control_flow import ControlFlow, ControlFlowError, Exceptions, Step
from remedy.eval.control_flow.evaluator import Guide
from remedy.eval.decoding.control_flow import WITH_LOCALS, Phase, TokenWalk, TraceGrammar, Trie, steps_of
from remedy.eval.decoding.known_text import StateText, value_ids
from remedy.eval.decoding.protocol import Allowed
from remedy.models.tokenizer import TraceTokenizer


def check_states(reveal: RevealConfig, string_encoding: str) -> None:
    """Say if lines can be evaluated on the states of traces that are written so.

    Raises:
        ControlFlowError: states do not show all variables, or strings are not written as they are.
    """
    if reveal.locals not in ("full", "diff") or reveal.spacing != 1:
        setting = "spacing" if reveal.spacing != 1 else "locals"
        raise ControlFlowError(f"reveal.{setting}: lines are evaluated on states, which here do not show all variables")
    if string_encoding != "plain":
        raise ControlFlowError(
            f"string_encoding: lines are evaluated on values, which {string_encoding} does not write as they are; use plain"
        )


class GuidedGrammar(TraceGrammar):
    """The traces of one program that agree with themselves.

    Raises:
        ControlFlowError: as `TraceGrammar` and `check_states`.
    """

    def __init__(
        self,
        flow: ControlFlow,
        tokenizer: TraceTokenizer,
        format: str = "cwm",
        reveal: RevealConfig | None = None,
        string_encoding: str = "plain",
    ) -> None:
        super().__init__(flow, tokenizer, format, reveal)
        check_states(self.reveal, string_encoding)
        self.diff = self.reveal.locals == "diff"
        self._quotes: dict[int, bool] = {}

    def start(self, exceptions: Exceptions = "all") -> GuidedWalk:
        """After the prompt, as `TraceGrammar.start`."""
        guide = (Guide.entered if self.seeded else Guide.start)(self.flow, exceptions)
        return GuidedWalk(self, guide, Phase.EVENT, {} if self.diff else None)

    def may_close(self, token: int) -> bool:
        """Say if a token has a quote, which may end a value."""
        found = self._quotes.get(token)
        if found is None:
            found = self._quotes[token] = '"' in self.tokenizer.decode([token])
        return found


class _Text(NamedTuple):
    """The tokens of a STATE or VALUE that is being written."""

    before: tuple[int, ...] = ()
    pending: tuple[int, ...] = ()
    """What must come next, if anything must."""
    at: int = 0
    """How much of it is written."""

    @property
    def next(self) -> int | None:
        return self.pending[self.at] if self.at < len(self.pending) else None

    @property
    def ids(self) -> tuple[int, ...]:
        """All that is written."""
        return (*self.before, *self.pending[: self.at])


_EMPTY = _Text()


class GuidedWalk(TokenWalk):
    """A place in a trace that is being written."""

    __slots__ = ("_guide", "_memory", "_shown", "_state", "_text")

    grammar: GuidedGrammar

    def __init__(
        self,
        grammar: GuidedGrammar,
        guide: Guide,
        phase: Phase,
        memory: Mapping[str, str] | None,
        event: Event | None = None,
        trie: Trie | None = None,
        shown: Mapping[str, str] | None = None,
        state: StateText | None = None,
        text: _Text = _EMPTY,
    ) -> None:
        super().__init__(grammar, guide.walk, phase, event, trie)
        self._guide = guide
        self._memory = memory
        """The variables that `..` stands for; None where they are not known."""
        self._shown = shown
        """What this frame shows, in full."""
        self._state = state
        self._text = text

    def allowed(self) -> Allowed:
        """Return what may come next; nothing when the trace has ended."""
        return super().allowed() if self._text.next is None else Allowed(frozenset({self._text.next}))

    def _next_steps(self) -> frozenset[Step]:
        return self._guide.allowed()

    def after(self, token: int) -> GuidedWalk | None:
        """After one more token; None if it is not allowed."""
        allowed, phase = self.allowed(), self._phase
        if token not in allowed.ids:
            is_text = allowed.text and not self.grammar.tokenizer.is_special(token)
            return self._with_text(token) if is_text else None
        if self._text.next is not None and not self.grammar.tokenizer.is_special(token):
            return self._moved(phase, text=self._text._replace(at=self._text.at + 1))
        if phase is Phase.EVENT:
            return self._after_event(token)
        if phase in (Phase.STATE, Phase.ACTION_SEP):
            shown = self._read() if phase is Phase.STATE else None
            return self._moved(Phase.ACTION, shown=shown)
        assert self._trie is not None
        if phase is Phase.ACTION and self._trie.next:
            return self._moved(phase, trie=self._trie.next[token], shown=self._shown)
        if phase is Phase.ACTION and self._event not in WITH_LOCALS:
            value = self._guide.value(self._trie.steps)
            separator = self.grammar.separators[Special.FRAME_SEP]
            pending = () if value is None else (*value_ids(self.grammar.tokenizer, value), separator)
            return self._moved(Phase.VALUE, text=_Text((), pending))
        return self._after_frame(self._trie)

    def _moved(
        self,
        phase: Phase,
        trie: Trie | None = None,
        shown: Mapping[str, str] | None = None,
        text: _Text = _EMPTY,
    ) -> GuidedWalk:
        """Another place of the same frame."""
        trie = trie or self._trie
        return GuidedWalk(self.grammar, self._guide, phase, self._memory, self._event, trie, shown, self._state, text)

    def _after_event(self, token: int) -> GuidedWalk:
        grammar, guide = self.grammar, self._guide
        event = grammar.events[token]
        trie = grammar.tries(guide.allowed())[event]
        if event is None or event not in WITH_LOCALS:
            phase = Phase.DONE if event is None else Phase.ACTION_SEP
            return GuidedWalk(grammar, guide, phase, self._memory, event, trie)
        entries, complete = guide.shown(steps_of(trie))
        written = [(name, self._as_written(name, text, event)) for name, text in entries]
        state = StateText(grammar.tokenizer, written, complete)
        place = GuidedWalk(grammar, guide, Phase.STATE, self._memory, event, trie, None, state)
        return place._with_certain(())

    def _as_written(self, name: str, text: str | None, event: Event) -> str | None:
        """A value's text as the next state writes it."""
        if text is None or not self.grammar.diff or event is Event.CALL:
            return text
        if self._memory is None:
            return None
        return UNCHANGED.text if self._memory.get(name) == text else text

    def _with_text(self, token: int) -> GuidedWalk:
        """After a token of free text."""
        ids = (*self._text.ids, token)
        if self._phase is Phase.STATE and self.grammar.may_close(token):
            return self._with_certain(ids)
        return self._moved(self._phase, text=_Text(ids))

    def _with_certain(self, ids: tuple[int, ...]) -> GuidedWalk:
        """After these tokens of a state, with what must follow them."""
        assert self._state is not None
        pending, ended = self._state.certain(ids)
        separator = [self.grammar.separators[Special.ACTION_SEP]] if ended else []
        return self._moved(Phase.STATE, text=_Text(ids, (*pending, *separator)))

    def _read(self) -> Mapping[str, str] | None:
        """Return what the state shows that was just written, in full; None if it cannot be read."""
        try:
            shown = read_locals(self.grammar.tokenizer.decode(self._text.ids))
        except Malformed:
            return None
        if not self.grammar.diff:
            return shown
        known = {} if self._event is Event.CALL else self._memory or {}
        if any(text == UNCHANGED.text and name not in known for name, text in shown.items()):
            return None
        return {name: known[name] if text == UNCHANGED.text else text for name, text in shown.items()}

    def _after_frame(self, trie: Trie) -> GuidedWalk:
        grammar, event = self.grammar, self._event
        memory, value = self._memory, None
        if event in WITH_LOCALS:
            memory = self._shown
        else:
            memory = {} if event is Event.RETURN else memory
            try:
                value = json_string(grammar.tokenizer.decode(self._text.ids), "a value")
            except Malformed:
                value = ""
        guide = self._guide.advance(trie.steps, self._shown, value)
        assert guide is not None
        return GuidedWalk(grammar, guide, Phase.EVENT, memory)
