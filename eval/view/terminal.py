"""A view in the terminal: colours where there are any, else the roles' names in a plain layout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.console import Console, RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

from remedy.data_gen.roles import Role
from remedy.eval.tables.colours import ROLE_COLOURS, mixed
from remedy.eval.view.model import MEANINGS, Block, Token, View, lines_of, step_of, visible

BORDER = "│"
INK = "#1b1b1b"
SHADES = (0.22, 0.38)
"""The share of a role's colour in the backgrounds of even and odd tokens, so that their borders are seen."""
GREYS = ("#eeeeee", "#dddddd")
SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
STEP_STYLES = (Style(), Style(bold=True), Style(color="#9a4a00", bold=True), Style(color="#c00000", bold=True))
"""Styles that the steps add to a token's colours (`model.step`)."""
ERROR = Style(color="#ffffff", bgcolor="#b3261e", bold=True)
FAINT = Style(dim=True)


def show_view(view: View, console: Console, ids: bool = False) -> None:
    """Print the view; without colours where the console has none."""
    coloured = console.is_terminal and not console.no_color
    content = _coloured(view, ids) if coloured else [Text(line) for line in _plain(view, ids)]
    for item in content:
        console.print(item, markup=False, highlight=False, emoji=False, soft_wrap=not coloured)


def _coloured(view: View, ids: bool) -> Iterator[RenderableType]:
    yield Text(visible(view.title), style="bold")
    yield Text(_facts(view), style=FAINT)
    yield ""
    yield _legend(view)
    yield Text(f"{_share(view)}\n")
    for part in view.parts:
        if part.heading:
            yield Text(f"\n{visible(part.heading)}", style="bold")
        compared = any(block.written is not None for block in part.blocks)
        table = Table.grid(padding=(0, 1), pad_edge=False)
        table.add_column(style="dim", no_wrap=True, justify="right")
        table.add_column(overflow="fold", ratio=1)
        if compared:
            table.add_column(overflow="fold", ratio=1)
            table.add_row("", Text("true", style="bold"), Text("written", style="bold"))
        for block in part.blocks:
            label = Text(block.label, style=ERROR) if block.first_error else Text(block.label)
            cells = [tokens_text(block.tokens, ids)]
            if compared:
                written = tokens_text(block.written or (), ids)
                if block.note:
                    written.append(f"  {visible(block.note)}", style=FAINT)
                cells.append(written)
            table.add_row(label, *cells)
        yield table


def tokens_text(tokens: Sequence[Token], ids: bool = False) -> Text:
    """Tokens in their colours."""
    text = Text()
    for number, line in enumerate(lines_of(tokens)):
        text.append("\n" if number else "")
        for piece in line:
            style = token_style(piece.token, piece.number)
            text.append(visible(piece.text) or "·", style=style)
            if ids:
                text.append(str(piece.token.id).translate(SUBSCRIPTS), style=style + Style(underline=False))
    return text


def token_style(token: Token, number: int) -> Style:
    """The token's colours: by its role if it is supervised, else grey; neighbours differ in shade, strings are underlined."""
    if token.wrong:
        return ERROR + Style(underline=token.string)
    colour = ROLE_COLOURS[token.role.label]
    if token.supervised:
        ground, ink = mixed(colour, "#ffffff", SHADES[number % 2]), INK
    else:
        ground, ink = GREYS[number % 2], mixed(colour, "#808080", 0.5)
    return Style(color=ink, bgcolor=ground, underline=token.string) + STEP_STYLES[step_of(token.logprob)]


def _legend(view: View) -> Table:
    table = Table.grid(padding=(0, 2))
    for justify in ("left", "left", "right", "right", "right"):
        table.add_column(justify=justify)
    table.add_row(*(Text(word, style=FAINT) for word in ("role", "", "tokens", view.asked, "in strings")))
    for count in view.counts():
        style = token_style(Token(0, "", count.role, 0, supervised=count.supervised > 0), 0)
        name, numbers = (
            Text.assemble((f" {count.role.label} ", style)),
            (count.tokens, count.supervised, count.strings),
        )
        table.add_row(name, MEANINGS[count.role], *map(str, numbers))
    grey = token_style(Token(0, "", Role.CONTEXT, 0, supervised=False), 0)
    table.add_row(Text.assemble((" grey ", grey)), f"not {view.asked}")
    table.add_row(Text.assemble(" ", ("underlined", "underline")), "string value")
    return table


def _facts(view: View) -> str:
    return " · ".join(f"{name}: {visible(fact)}" for name, fact in view.facts.items())


def _plain(view: View, ids: bool) -> Iterator[str]:
    yield visible(view.title)
    yield _facts(view)
    yield ""
    yield f"{'role':<12}{'tokens':>8}{view.asked:>12}{'in strings':>12}"
    for count in view.counts():
        yield f"{count.role.label:<12}{count.tokens:>8}{count.supervised:>12}{count.strings:>12}"
    yield _share(view)
    yield f"{BORDER} stands between tokens, « » around string values, ✗ before wrong tokens, - before what is not {view.asked}"
    for part in view.parts:
        if part.heading:
            yield f"\n{visible(part.heading)}"
        for block in part.blocks:
            yield from _plain_block(block, ids)


def _share(view: View) -> str:
    return f"{view.supervised_share():.0%} of {sum(count.tokens for count in view.counts())} tokens {view.asked}"


def _plain_block(block: Block, ids: bool) -> Iterator[str]:
    yield f"\n{block.label}" + ("  <- first error" if block.first_error else "")
    if block.written is None:
        yield from _plain_tokens(block.tokens, ids)
        return
    yield "  true"
    yield from _plain_tokens(block.tokens, ids)
    yield "  written" + (f"  ({visible(block.note)})" if block.note else "")
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
