"""Grammar of what may still come of a written trace, for a server to hold a model to: in llguidance's dialect of Lark, over token ids.

Every terminal is a token by its id, and free text is any number of tokens that are not special, closed by one that is: so the server
allows at every place the tokens that `TokenWalk` allows here, whatever its tokenizer calls them. Where generators wait or many frames
are open at once the walk keeps less of what was, and may allow more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from remedy.eval.control_flow import ControlFlowError, Step
from remedy.eval.control_flow.grammar import Grammar, Rule
from remedy.eval.control_flow.grammar import Symbols as Alternative
from remedy.eval.decoding.control_flow import Symbols, TokenWalk, TraceGrammar

ITEMS = 2_000
"""What a parser of llguidance 1.9 holds at one place of a text at most (`ParserLimits.max_items_in_row`)."""
SIZE = 50_000
"""Rules, alternatives and tokens of source lines: of a third more llguidance makes more symbols than it has numbers for (65,525)."""
_ANYTHING = ["rest: | rest <[*]>"]
Rules = Mapping[Rule, Sequence[Alternative]]


class LarkGrammar:
    """The grammars of one program's traces, from any place of them on."""

    def __init__(self, traces: TraceGrammar) -> None:
        self.traces = traces
        self._grammar = Grammar(traces.flow.start().options)
        special = ",".join(map(str, sorted(traces.tokenizer.special_ids.values())))
        self._text = [f"text: open <[{special}]>", f"open: | open <[^{special}]>"]

    def after(self, place: TokenWalk) -> str:
        """Return what may come after a place.

        Raises:
            ControlFlowError: it is more than a server reads; the message names the program.
        """
        try:
            ways = [(rest, self._grammar.after(walk)) for rest, walk in place.rest()]
            first = [one for _, alternatives in ways for one in alternatives]
            rules = self._grammar.rules(first)
            frames = self._checked(rules, first)
        except ControlFlowError as error:
            raise ControlFlowError(f"{self.traces.flow.program.name}: {error}") from None
        start = [" ".join([*map(_token, rest), self._said(one, frames)]) for rest, some in ways for one in some]
        lines = [
            "%llguidance {}",
            _rule("start", start),
            *(_rule(_name(rule), (self._said(one, frames) for one in some)) for rule, some in rules.items()),
            *(_rule(name, [" ".join(map(_token, symbols))]) for symbols, name in frames.items()),
            *self._text,
        ]
        return "\n".join(lines) + "\n"

    def _said(self, symbols: Alternative, frames: Mapping[Symbols, str]) -> str:
        return " ".join(_name(one) if isinstance(one, Rule) else frames[self.traces.frame(one)] for one in symbols)

    def _checked(self, rules: Rules, first: Collection[Alternative]) -> dict[Symbols, str]:
        """The names of all frames. Raises a ControlFlowError where a parser would not read the grammar."""
        alternatives = [*first, *(one for some in rules.values() for one in some)]
        steps = {one for symbols in alternatives for one in symbols if isinstance(one, Step)}
        frames = {
            symbols: f"f{number}"
            for number, symbols in enumerate(dict.fromkeys(map(self.traces.frame, sorted(steps, key=str))))
        }
        if (size := len(rules) + len(alternatives) + sum(map(len, frames))) > SIZE:
            raise ControlFlowError(f"a grammar of its traces has {size:,} symbols, and a server reads {SIZE:,}")
        called: dict[tuple[object, ...], set[Rule]] = {}
        for symbols in alternatives:
            if len(symbols) == 3 and isinstance(symbols[1], Step) and isinstance(symbols[2], Rule):
                called.setdefault((symbols[0], self.traces.frame(symbols[1])), set()).add(symbols[2])
        begun = [{one[0] for one in first if isinstance(one[0], Rule)}, *called.values()]
        for some in {frozenset(one) for one in begun}:
            if _items(rules, some) > ITEMS:
                raise ControlFlowError(
                    f"a parser of its traces would hold more than {ITEMS:,} alternatives at once, which a server does not"
                )
        return frames


def beginning(ids: Iterable[int]) -> str:
    """One of these tokens, and after it anything."""
    return "\n".join(
        ["%llguidance {}", _rule("start", ["first rest"]), _rule("first", map(_token, sorted(ids))), *_ANYTHING, ""]
    )


def _items(rules: Rules, begun: Iterable[Rule]) -> int:
    """Return how many alternatives a parser looks at where these nonterminals begin, as far as `ITEMS`."""
    seen: set[Rule] = set()
    waiting, found = list(begun), 0
    while waiting and found <= ITEMS:
        rule = waiting.pop()
        if rule not in seen:
            seen.add(rule)
            found += len(rules[rule])
            waiting += [one[0] for one in rules[rule] if one and isinstance(one[0], Rule)]
    return found


def _rule(name: str, alternatives: Iterable[str]) -> str:
    return f"{name}: " + " | ".join(dict.fromkeys(alternatives))


def _name(rule: Rule) -> str:
    return f"n{rule.number}"


def _token(symbol: int) -> str:
    return "text" if symbol < 0 else f"<[{symbol}]>"
