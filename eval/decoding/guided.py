"""Tokens that may come next in a written trace by its program and by the states that it has written.

A line is evaluated on the writer's own state, which says which way it goes; and what the next state shows is certain where nothing
on the way stores or changes it. A value that is new is left to the writer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from remedy.data_gen.execution.program import UNCHANGED, Event
from remedy.data_gen.traces.cwm import read_locals
from remedy.data_gen.traces.parse import Malformed, json_string
from remedy.data_gen.traces.reveal import RevealConfig
from remedy.eval.control_flow import ControlFlowError, Exceptions
from remedy.eval.control_flow.evaluator import Guide
from remedy.eval.decoding.control_flow import WITH_LOCALS, TokenWalk, TraceGrammar, Trie
from remedy.eval.decoding.known_text import StateText, has_quote, value_ids
from remedy.eval.decoding.protocol import Allowed


class GuidedGrammar(TraceGrammar):
    """The traces of one program that agree with themselves."""

    @property
    def diff(self) -> bool:
        return self.reveal.locals == "diff"

    @classmethod
    def check(cls, format: str, reveal: RevealConfig, string_encoding: str = "plain") -> None:
        """Say if lines can be evaluated on the states of traces that are written so.

        Raises:
            ControlFlowError: as of a `TraceGrammar`; states do not show all variables, or strings are not written as they are.
        """
        super().check(format, reveal, string_encoding)
        if reveal.locals not in ("full", "diff") or reveal.spacing != 1:
            setting = "spacing" if reveal.spacing != 1 else "locals"
            raise ControlFlowError(
                f"reveal.{setting}: lines are evaluated on states, which here do not show all variables"
            )
        if string_encoding != "plain":
            raise ControlFlowError(
                f"string_encoding: lines are evaluated on values, which {string_encoding} does not write as they are; use plain"
            )

    def start(self, exceptions: Exceptions = "all") -> GuidedWalk:
        guide = (Guide.entered if self.seeded else Guide.start)(self.flow, exceptions)
        node = self.frames(guide.allowed())
        return GuidedWalk(self, guide.walk, node, guide, {} if self.diff else None)


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


@dataclass(slots=True, eq=False)
class GuidedWalk(TokenWalk):
    """A place in a trace that agrees with itself."""

    grammar: GuidedGrammar
    guide: Guide
    memory: Mapping[str, str] | None
    """The variables that `..` stands for; None where they are not known."""
    shown: Mapping[str, str] | None = None
    """What this frame shows, in full."""
    state: StateText | None = None
    text: _Text = _Text()  # noqa: RUF009 (it does not change)

    def allowed(self) -> Allowed:
        return TokenWalk.allowed(self) if self.text.next is None else Allowed(frozenset({self.text.next}))

    def after(self, token: int) -> GuidedWalk | None:
        allowed, grammar = self.allowed(), self.grammar
        if token not in allowed.ids:
            return self._with_text(token) if allowed.text and not grammar.tokenizer.is_special(token) else None
        if self.text.next is not None and not grammar.tokenizer.is_special(token):
            return replace(self, text=self.text._replace(at=self.text.at + 1))
        node = self._following(token)
        assert node is not None
        event = self._event(node)
        shown = self._read(event) if self.state is not None else self.shown
        if node.steps and event is not None:
            return self._after_frame(node, event)
        place = GuidedWalk(grammar, self.walk, node, self.guide, self.memory, shown)
        return place if node.closing is None else place._begun(event)

    def _begun(self, event: Event | None) -> GuidedWalk:
        """The same place, where a STATE or VALUE begins, with what is certain of it."""
        grammar, guide, steps = self.grammar, self.guide, self.steps
        if event in WITH_LOCALS:
            entries, complete = guide.shown(steps)
            written = [(name, self._as_written(name, text, event)) for name, text in entries]
            self.state = StateText(grammar.tokenizer, written, complete)
            return self._with_certain(())
        value = guide.value(steps)
        assert self.node.closing is not None
        pending = () if value is None else (*value_ids(grammar.tokenizer, value), self.node.closing)
        return replace(self, text=_Text((), pending))

    def _as_written(self, name: str, text: str | None, event: Event | None) -> str | None:
        """A value's text as the next state writes it."""
        if text is None or not self.grammar.diff or event is Event.CALL:
            return text
        if self.memory is None:
            return None
        return UNCHANGED.text if self.memory.get(name) == text else text

    def _with_text(self, token: int) -> GuidedWalk:
        ids = (*self.text.ids, token)
        if self.state is not None and has_quote(self.grammar.tokenizer, token):
            return self._with_certain(ids)
        return replace(self, text=_Text(ids))

    def _with_certain(self, ids: tuple[int, ...]) -> GuidedWalk:
        """After these tokens of a state, with what must follow them."""
        assert self.state is not None
        pending, ended = self.state.certain(ids)
        separator = [self.node.closing] if ended and self.node.closing is not None else []
        return replace(self, text=_Text(ids, (*pending, *separator)))

    def _read(self, event: Event | None) -> Mapping[str, str] | None:
        """Return what the state shows that was just written, in full; None if it cannot be read."""
        try:
            shown = read_locals(self.grammar.tokenizer.decode(self.text.ids))
        except Malformed:
            return None
        if not self.grammar.diff:
            return shown
        known = {} if event is Event.CALL else self.memory or {}
        if any(text == UNCHANGED.text and name not in known for name, text in shown.items()):
            return None
        return {name: known[name] if text == UNCHANGED.text else text for name, text in shown.items()}

    def _after_frame(self, node: Trie, event: Event) -> GuidedWalk:
        grammar, memory, value = self.grammar, self.memory, None
        if event in WITH_LOCALS:
            memory = self.shown
        else:
            memory = {} if event is Event.RETURN else memory
            try:
                value = json_string(grammar.tokenizer.decode(self.text.ids), "a value")
            except Malformed:
                value = ""
        guide = self.guide.advance(node.steps, self.shown, value)
        assert guide is not None
        return GuidedWalk(grammar, guide.walk, grammar.frames(guide.allowed()), guide, memory)
