"""View in a terminal, in colours or plain, or as an HTML page."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from itertools import chain, groupby

from rich.console import Console
from rich.style import Style
from rich.table import Table
from rich.text import Text

from remedy.data_gen.roles import Role
from remedy.eval.tables.colours import ROLE_COLOURS, mixed
from remedy.eval.view.model import MEANINGS, STEPS, Token, View, lines_of, visible
from remedy.messages import escaped

BORDER = "│"
INK = "#1b1b1b"
SHADES = (0.22, 0.38)
"""Share of a role's colour in the backgrounds of even and odd tokens, so that borders between tokens are visible."""
GREYS = ("#eeeeee", "#dddddd")
SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
STEP_STYLES = (Style(), Style(bold=True), Style(color="#9a4a00", bold=True), Style(color="#c00000", bold=True))
"""Styles for the classes of a token's probability."""
ERROR = Style(color="#ffffff", bgcolor="#b3261e", bold=True)
FAINT = Style(dim=True)
BAR, LABELS, WITH_BARS = 8, 12, 28
"""Widths of a probability bar, of labels, and of labels with bars."""
PAGE = 128
"""Characters in a line of a page."""


def show_view(view: View, console: Console, ids: bool = False) -> None:
    """Print the view, in colours if the console has them. Text is escaped."""
    body = _coloured(view, ids) if console.is_terminal and not console.no_color else _plain(view, ids)
    # Programs and model output are text: rich would take [tags] and :names: in them for its own.
    for item in chain(_head(view), body):
        console.print(item, markup=False, highlight=False, emoji=False, soft_wrap=not isinstance(item, Table))


def page(view: View, ids: bool = False) -> str:
    """Return the view as a self-contained HTML page with escaped text."""
    # The page must not depend on where it is made: a terminal, a pipe or a notebook.
    colours = {"color_system": "truecolor", "force_terminal": True, "force_jupyter": False, "no_color": False}
    console = Console(file=io.StringIO(), record=True, width=PAGE, **colours)  # type: ignore[arg-type]
    show_view(view, console, ids)
    return console.export_html()


def show_text(view: View, console: Console) -> None:
    """Print exactly the text that a model sees; on a terminal, coloured and escaped."""
    for token in view.tokens:
        text = token.text + view.separator
        style = Style(color=ROLE_COLOURS[token.role.label], dim=token.special, underline=token.string)
        if console.is_terminal:  # which would obey control characters; a file gets the exact text
            console.print(Text(escaped(text, "\n\t"), style), soft_wrap=True, end="")
        else:
            console.file.write(text)
    console.file.write("\n")


def token_style(token: Token, number: int) -> Style:
    if token.wrong:
        return ERROR + Style(underline=token.string)
    colour = ROLE_COLOURS[token.role.label]
    if token.supervised:
        ground, ink = mixed(colour, "#ffffff", SHADES[number % 2]), INK
    else:
        ground, ink = GREYS[number % 2], mixed(colour, "#808080", 0.5)
    return Style(color=ink, bgcolor=ground, underline=token.string) + STEP_STYLES[token.step or 0]


def _head(view: View) -> Iterator[Text]:
    yield Text(visible(view.title), style="bold")
    yield from (Text(f"{name}: {visible(fact)}") for name, fact in view.facts.items())
    share = sum(token.supervised for token in view.tokens) / max(1, len(view.tokens))
    yield Text(f"tokens: {len(view.tokens)}, {share:.0%} {view.asked}\n")


def _coloured(view: View, ids: bool) -> Iterator[Text | Table]:
    with_probabilities = any(token.step is not None for block in view.blocks for token in block.chosen)
    compared = any(block.written is not None for block in view.blocks)
    yield _legend(view)
    if with_probabilities:
        steps = [(f" {name} ", style) for name, style in zip(STEPS, STEP_STYLES)]
        yield Text.assemble(("\nthe model's own probability of a token: ", FAINT), *steps)
    yield Text()
    table = Table.grid(padding=(0, 1), pad_edge=False)
    table.add_column(width=WITH_BARS if with_probabilities else LABELS)
    for _ in range(1 + compared):
        table.add_column(overflow="fold", ratio=1)
    if compared:
        table.add_row("", Text("true", style="bold"), Text("written", style="bold"))
    for block in view.blocks:
        head = Text(f"{block.label:<{LABELS}}", style=ERROR if block.first_error else "")
        if (probability := block.probability) is not None:
            filled = 0 if math.isnan(probability) else round(BAR * probability)
            head.append(f" {'█' * filled}{'░' * (BAR - filled)} {probability:.2g}", FAINT)
        cells = [_tokens(tokens, ids) for tokens in (block.tokens, block.written) if tokens is not None]
        if block.note:
            cells[-1].append(f"\n{visible(block.note)}", style=FAINT)
        table.add_row(head, *cells)
    yield table


def _legend(view: View) -> Table:
    table = Table.grid(padding=(0, 2))
    for justify in ("left", "left", "right", "right", "right"):
        table.add_column(justify=justify)
    table.add_row(*(Text(word, style=FAINT) for word in ("role", "", "tokens", view.asked, "in strings")))
    for role, *counts in view.counts():
        style = token_style(Token(0, "", role, 0, supervised=counts[1] > 0), 0)
        table.add_row(Text.assemble((f" {role.label} ", style)), MEANINGS[role], *map(str, counts))
    grey = token_style(Token(0, "", Role.CONTEXT, 0, supervised=False), 0)
    table.add_row(Text.assemble((" grey ", grey)), f"not {view.asked}")
    table.add_row(Text.assemble(" ", ("underlined", "underline")), "string value")
    return table


def _tokens(tokens: Sequence[Token], ids: bool) -> Text:
    text = Text()
    for number, line in enumerate(lines_of(tokens)):
        text.append("\n" if number else "")
        for number_in_block, token, part in line:
            style = token_style(token, number_in_block)
            text.append(visible(part) or "·", style=style)
            if ids:
                text.append(str(token.id).translate(SUBSCRIPTS), style=style + Style(underline=False))
    return text


def _plain(view: View, ids: bool) -> Iterator[str]:
    yield f"{'role':<12}{'tokens':>8}{view.asked:>12}{'in strings':>12}"
    yield from (
        f"{role.label:<12}{tokens:>8}{supervised:>12}{strings:>12}"
        for role, tokens, supervised, strings in view.counts()
    )
    yield f"{BORDER} stands between tokens, « » around string values, ✗ before wrong tokens, - before what is not {view.asked}"
    for block in view.blocks:
        probability = "" if block.probability is None else f"probability {block.probability:.2g}"
        note = visible(", ".join(filter(None, [probability, block.note])))
        note = f"  ({note})" if note else ""
        yield f"\n{block.label}" + ("  <- first error" if block.first_error else "") + note * (block.written is None)
        yield from ["  true"] * (block.written is not None)
        yield from _plain_tokens(block.tokens, ids)
        if block.written is not None:
            yield f"  written{note}"
            yield from _plain_tokens(block.written, ids)


def _plain_tokens(tokens: Sequence[Token], ids: bool) -> Iterator[str]:
    for (role, supervised), run in groupby(tokens, key=lambda token: (token.role, token.supervised)):
        start = f"  {'' if supervised else '-':<2}{role.label:<11}"
        for line in lines_of(list(run)):
            pieces = []
            for string, marked in groupby(line, key=lambda piece: piece[1].string):
                text = BORDER.join(
                    ("✗" if token.wrong else "") + visible(part) + (f"[{token.id}]" if ids else "")
                    for _, token, part in marked
                )
                pieces.append(f"«{text}»" if string else text)
            yield start + BORDER.join(pieces)
            start = " " * len(start)
