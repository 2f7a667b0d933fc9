"""A view in the terminal: colours where there are any, else the roles' names in a plain layout; and as a page with these colours."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from rich.console import Console
from rich.style import Style
from rich.table import Table
from rich.text import Text

from remedy.data_gen.roles import Role
from remedy.eval.tables.colours import ROLE_COLOURS, mixed
from remedy.eval.view.model import MEANINGS, STEPS, Block, Token, View, lines_of, visible

BORDER = "│"
INK = "#1b1b1b"
SHADES = (0.22, 0.38)
"""The share of a role's colour in the backgrounds of even and odd tokens, so that their borders are seen."""
GREYS = ("#eeeeee", "#dddddd")
SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
STEP_STYLES = (Style(), Style(bold=True), Style(color="#9a4a00", bold=True), Style(color="#c00000", bold=True))
"""Styles that the steps of a token's probability add to its colours."""
ERROR = Style(color="#ffffff", bgcolor="#b3261e", bold=True)
FAINT = Style(dim=True)
BAR, LABELS, WITH_BARS = 8, 12, 28
"""Widths of the bar of a probability, of labels alone, and of labels with such bars."""
PAGE = 128
"""Characters of a line of a page."""


def show_view(view: View, console: Console, ids: bool = False) -> None:
    """Print the view; without colours where the console has none."""
    Terminal(console, ids).view(view)


def page(view: View, ids: bool = False) -> str:
    """The view as one HTML page that needs nothing else, as a terminal with colours shows it; every text in it is escaped."""
    console = Console(
        file=io.StringIO(),
        record=True,
        width=PAGE,
        color_system="truecolor",
        force_terminal=True,
        force_jupyter=False,
        no_color=False,
    )
    show_view(view, console, ids)
    return console.export_html()


def share_said(view: View) -> str:
    """A sentence on the supervised tokens."""
    return f"{view.supervised_share():.0%} of {len(view.tokens)} tokens {view.asked}"


class Terminal:
    """Prints lines, blocks and views. What programs and models say is escaped."""

    def __init__(self, console: Console, ids: bool = False) -> None:
        self._console = console
        self._ids = ids
        self.coloured = console.is_terminal and not console.no_color
        self._labels = WITH_BARS

    def say(self, text: str | Text = "", style: str = "") -> None:
        """One line, however long."""
        self._print(Text(text, style=style) if isinstance(text, str) else text, soft_wrap=True)

    def view(self, view: View) -> None:
        """All of a view."""
        self.say(visible(view.title), "bold")
        self.facts(view.facts)
        self.say()
        self.blocks(view)

    def blocks(self, view: View) -> None:
        """The blocks of a view, with a legend."""
        if not self.coloured:
            for line in _plain(view, self._ids):
                self.say(line)
            return
        self._labels = WITH_BARS if view.judged else LABELS
        self._print(_legend(view))
        self.say(f"{share_said(view)}\n")
        if view.compared:
            self._row(Text(), Text("true", style="bold"), Text("written", style="bold"))
        if view.judged:
            steps = [(f" {name} ", style) for name, style in zip(STEPS, STEP_STYLES)]
            self.say(Text.assemble(("the model's own probability of a token: ", FAINT), *steps))
        for block in view.blocks:
            self._block(block, view.compared)

    def facts(self, facts: Mapping[str, str]) -> None:
        """A line for each."""
        for name, fact in facts.items():
            self.say(f"{name}: {visible(fact)}")

    def _block(self, block: Block, compared: bool) -> None:
        """One block in colours, true tokens beside written ones where they are `compared`, with all that is said of it."""
        head = Text(f"{block.label:<{LABELS}}", style=ERROR if block.first_error else "")
        if (probability := block.probability) is not None:
            filled = 0 if math.isnan(probability) else round(BAR * probability)
            head.append(f" {'█' * filled}{'░' * (BAR - filled)} {probability:.2g}", FAINT)
        body = self._tokens(block.tokens if block.written is None or not compared else block.written)
        if block.note:
            body.append(f"\n{visible(block.note)}", style=FAINT)
        if not compared:
            self._row(head, body)
        elif block.written is None:
            self._row(head, body, Text())
        else:
            self._row(head, self._tokens(block.tokens), body)

    def _tokens(self, tokens: Sequence[Token]) -> Text:
        text = Text()
        for number, line in enumerate(lines_of(tokens)):
            text.append("\n" if number else "")
            for piece in line:
                style = token_style(piece.token, piece.number)
                text.append(visible(piece.text) or "·", style=style)
                if self._ids:
                    text.append(str(piece.token.id).translate(SUBSCRIPTS), style=style + Style(underline=False))
        return text

    def _row(self, head: Text, *cells: Text) -> None:
        table = Table.grid(padding=(0, 1), pad_edge=False)
        table.add_column(width=self._labels)
        for _ in cells:
            table.add_column(overflow="fold", ratio=1)
        table.add_row(head, *cells)
        self._print(table)

    def _print(self, item: Text | Table, soft_wrap: bool = False) -> None:
        self._console.print(item, markup=False, highlight=False, emoji=False, soft_wrap=soft_wrap)


def token_style(token: Token, number: int) -> Style:
    """The token's colours: by its role if it is supervised, else grey; neighbours differ in shade, strings are underlined."""
    if token.wrong:
        return ERROR + Style(underline=token.string)
    colour = ROLE_COLOURS[token.role.label]
    if token.supervised:
        ground, ink = mixed(colour, "#ffffff", SHADES[number % 2]), INK
    else:
        ground, ink = GREYS[number % 2], mixed(colour, "#808080", 0.5)
    return Style(color=ink, bgcolor=ground, underline=token.string) + STEP_STYLES[token.step or 0]


def _legend(view: View) -> Table:
    table = Table.grid(padding=(0, 2))
    for justify in ("left", "left", "right", "right", "right"):
        table.add_column(justify=justify)
    table.add_row(*(Text(word, style=FAINT) for word in ("role", "", "tokens", view.asked, "in strings")))
    for count in view.counts():
        style = token_style(Token(0, "", count.role, 0, supervised=count.supervised > 0), 0)
        name = Text.assemble((f" {count.role.label} ", style))
        table.add_row(name, MEANINGS[count.role], *map(str, (count.tokens, count.supervised, count.strings)))
    grey = token_style(Token(0, "", Role.CONTEXT, 0, supervised=False), 0)
    table.add_row(Text.assemble((" grey ", grey)), f"not {view.asked}")
    table.add_row(Text.assemble(" ", ("underlined", "underline")), "string value")
    return table


def _plain(view: View, ids: bool) -> Iterator[str]:
    yield f"{'role':<12}{'tokens':>8}{view.asked:>12}{'in strings':>12}"
    for count in view.counts():
        yield f"{count.role.label:<12}{count.tokens:>8}{count.supervised:>12}{count.strings:>12}"
    yield share_said(view)
    yield f"{BORDER} stands between tokens, « » around string values, ✗ before wrong tokens, - before what is not {view.asked}"
    for block in view.blocks:
        probability = "" if block.probability is None else f"probability {block.probability:.2g}"
        said = visible(", ".join(filter(None, [probability, block.note])))
        said = f"  ({said})" if said else ""
        yield f"\n{block.label}" + ("  <- first error" if block.first_error else "") + said * (block.written is None)
        if block.written is None:
            yield from _plain_tokens(block.tokens, ids)
            continue
        yield "  true"
        yield from _plain_tokens(block.tokens, ids)
        yield f"  written{said}"
        yield from _plain_tokens(block.written, ids)


def _plain_tokens(tokens: Sequence[Token], ids: bool) -> Iterator[str]:
    for (role, supervised), run in groupby(tokens, key=lambda token: (token.role, token.supervised)):
        start = f"  {'' if supervised else '-':<2}{role.label:<11}"
        for line in lines_of(list(run)):
            pieces = []
            for string, marked in groupby(line, key=lambda piece: piece.token.string):
                text = BORDER.join(
                    ("✗" if p.token.wrong else "") + visible(p.text) + (f"[{p.token.id}]" if ids else "")
                    for p in marked
                )
                pieces.append(f"«{text}»" if string else text)
            yield start + BORDER.join(pieces)
            start = " " * len(start)
