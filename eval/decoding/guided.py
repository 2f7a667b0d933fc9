"""Tokens that may come next in a written trace by its program and by the states that it has written.

A line is evaluated on the writer's own state, which says which way it goes; and what the next state shows is certain where nothing
on the way stores or changes it. A value that is new is left to the writer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from remedy.data_gen.execution.program import UNCHANGED, Event
from remedy.data_gen.traces.cwm import read_locals
from remedy.data_gen.traces.parse import Malformed, json_string
from remedy.data_gen.traces.reveal import RevealConfig
from remedy.eval.control_flow import ControlFlow, ControlFlowError, Exceptions
from remedy.eval.control_flow.evaluator import Guide
from remedy.eval.decoding.control_flow import WITH_LOCALS, TokenWalk, TraceGrammar, Trie
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
        return GuidedWalk(self, guide, self.frames(guide.allowed()), {} if self.diff else None)

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
        node: Trie,
        memory: Mapping[str, str] | None,
        shown: Mapping[str, str] | None = None,
        state: StateText | None = None,
        text: _Text = _EMPTY,
    ) -> None:
        super().__init__(grammar, guide.walk, node)
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

    def after(self, token: int) -> GuidedWalk | None:
        """After one more token; None if it is not allowed."""
        allowed, grammar = self.allowed(), self.grammar
        if token not in allowed.ids:
            return self._with_text(token) if allowed.text and not grammar.tokenizer.is_special(token) else None
        if self._text.next is not None and not grammar.tokenizer.is_special(token):
            return self._moved(self._text._replace(at=self._text.at + 1))
        node = self._following(token)
        assert node is not None
        event = self._event(node)
        shown = self._read(event) if self._state is not None else self._shown
        if node.steps and event is not None:
            return self._after_frame(node, event)
        place = GuidedWalk(grammar, self._guide, node, self._memory, shown)
        return place if node.closing is None else place._begun(event)

    def _moved(self, text: _Text) -> GuidedWalk:
        """The same place of the frame, with other text."""
        return GuidedWalk(self.grammar, self._guide, self._node, self._memory, self._shown, self._state, text)

    def _begun(self, event: Event | None) -> GuidedWalk:
        """The same place, where a STATE or VALUE begins, with what is certain of it."""
        grammar, guide, steps = self.grammar, self._guide, self.steps
        if event in WITH_LOCALS:
            entries, complete = guide.shown(steps)
            written = [(name, self._as_written(name, text, event)) for name, text in entries]
            self._state = StateText(grammar.tokenizer, written, complete)
            return self._with_certain(())
        value = guide.value(steps)
        assert self._node.closing is not None
        pending = () if value is None else (*value_ids(grammar.tokenizer, value), self._node.closing)
        return self._moved(_Text((), pending))

    def _as_written(self, name: str, text: str | None, event: Event | None) -> str | None:
        """A value's text as the next state writes it."""
        if text is None or not self.grammar.diff or event is Event.CALL:
            return text
        if self._memory is None:
            return None
        return UNCHANGED.text if self._memory.get(name) == text else text

    def _with_text(self, token: int) -> GuidedWalk:
        """After a token of free text."""
        ids = (*self._text.ids, token)
        if self._state is not None and self.grammar.may_close(token):
            return self._with_certain(ids)
        return self._moved(_Text(ids))

    def _with_certain(self, ids: tuple[int, ...]) -> GuidedWalk:
        """After these tokens of a state, with what must follow them."""
        assert self._state is not None
        pending, ended = self._state.certain(ids)
        separator = [self._node.closing] if ended and self._node.closing is not None else []
        return self._moved(_Text(ids, (*pending, *separator)))

    def _read(self, event: Event | None) -> Mapping[str, str] | None:
        """Return what the state shows that was just written, in full; None if it cannot be read."""
        try:
            shown = read_locals(self.grammar.tokenizer.decode(self._text.ids))
        except Malformed:
            return None
        if not self.grammar.diff:
            return shown
        known = {} if event is Event.CALL else self._memory or {}
        if any(text == UNCHANGED.text and name not in known for name, text in shown.items()):
            return None
        return {name: known[name] if text == UNCHANGED.text else text for name, text in shown.items()}

    def _after_frame(self, node: Trie, event: Event) -> GuidedWalk:
        grammar, memory, value = self.grammar, self._memory, None
        if event in WITH_LOCALS:
            memory = self._shown
        else:
            memory = {} if event is Event.RETURN else memory
            try:
                value = json_string(grammar.tokenizer.decode(self._text.ids), "a value")
            except Malformed:
                value = ""
        guide = self._guide.advance(node.steps, self._shown, value)
        assert guide is not None
        return GuidedWalk(grammar, guide, grammar.frames(guide.allowed()), memory)
