"""A view as one HTML page that needs nothing else; every text in it is escaped."""

from __future__ import annotations

import math
from functools import lru_cache

import jinja2

from remedy.eval.tables.colours import ROLE_COLOURS, mixed
from remedy.eval.view.model import MEANINGS, STEPS, Piece, Token, View, lines_of, visible

SHADES = (0.2, 0.36)
"""The share of a role's colour in the backgrounds of even and odd tokens."""
STEP_COLOURS = ("", "#f0d000", "#f08c00", "#d81b1b")
"""The mark above a token by the step of its probability, strings being marked below; nothing above the surest."""


def page(view: View, ids: bool = False) -> str:
    """The view as HTML. `ids`: below every token stands its id; pointing at a token shows it in any case."""
    colours = {
        name: {"line": colour, "shades": [mixed(colour, "#ffffff", share) for share in SHADES]}
        for name, colour in ROLE_COLOURS.items()
    }
    about = {"meanings": MEANINGS, "names": STEPS, "step_colours": STEP_COLOURS, "colours": colours}
    return _template().render(view=view, ids=ids, lines=lines_of, classes=_classes, tip=_tip, **about)


@lru_cache(maxsize=1)
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("remedy.eval.view", "."), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["visible"] = visible
    environment.tests["nan"] = math.isnan
    return environment.get_template("page.html.j2")


def _classes(piece: Piece) -> str:
    token = piece.token
    marks = {
        "odd": piece.number % 2,
        "off": not token.supervised,
        "string": token.string,
        "special": token.special,
        "wrong": token.wrong,
        f"d{token.step}": token.step is not None,
    }
    return " ".join(["t", token.role.label, *(name for name, marked in marks.items() if marked)])


def _tip(token: Token) -> str:
    what = [token.role.label, *(["string"] if token.string else []), *(["wrong"] if token.wrong else [])]
    if token.logprob is not None:
        what.append(f"probability {'unknown' if token.step is None else format(math.exp(token.logprob), '.3g')}")
    return f"{token.id} {token.text!r}: {', '.join(what)}"
