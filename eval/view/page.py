"""A view as one HTML page that needs nothing else; every text in it is escaped."""

from __future__ import annotations

import jinja2

from remedy.eval.colours import ROLE_COLOURS, mixed
from remedy.eval.view.structure import MEANINGS, Piece, Token, View, lines_of
from remedy.eval.view.text import visible

SHADES = (0.2, 0.36)
"""How much of a role's colour the backgrounds of even and odd tokens have."""


def page(view: View, ids: bool = False) -> str:
    """The view as HTML. `ids`: below every token stands its id; pointing at a token shows it in any case."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("remedy.eval.view", "."), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["visible"] = visible
    colours = {
        name: {"line": colour, "shades": [mixed(colour, "#ffffff", share) for share in SHADES]}
        for name, colour in ROLE_COLOURS.items()
    }
    return environment.get_template("page.html.j2").render(
        view=view,
        counts=view.counts(),
        colours=colours,
        ids=ids,
        meanings=MEANINGS,
        lines=lines_of,
        classes=_classes,
        tip=_tip,
    )


def _classes(piece: Piece) -> str:
    token = piece.token
    marks = {
        "odd": piece.number % 2,
        "off": not token.supervised,
        "string": token.string,
        "special": token.special,
        "wrong": token.wrong,
    }
    return " ".join(["t", token.role.label, *(name for name, marked in marks.items() if marked)])


def _tip(token: Token) -> str:
    what = [token.role.label, *(["string"] if token.string else []), *(["wrong"] if token.wrong else [])]
    return f"{token.id} {token.text!r}: {', '.join(what)}"
