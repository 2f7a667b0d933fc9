"""The text of single tokens, and text that is safe to show."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from remedy.models.tokenizer import TraceTokenizer

_SHOWN = {"\n": "↵", "\t": "⇥"}
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Unicode categories of what is not seen but may act: controls (ANSI escapes), direction marks, surrogates, separators."""


def visible(text: str) -> str:
    """The text with a sign for each newline and tab, and with every other control or format character as its escape.

    Programs and what models write are data: a terminal must not obey them.
    """
    return "".join(_SHOWN.get(c) or (_escape(c) if unicodedata.category(c) in _HIDDEN else c) for c in text)


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def token_texts(tokenizer: TraceTokenizer, ids: Sequence[int]) -> list[str]:
    """The text of every token; together they are the text of all, but for the spaces between symbols. Special tokens appear
    under their names.

    Where a character lies in several tokens, as its UTF-8 bytes, it is the text of the last of them and the others have none.
    A token is decoded together with the one before it, since some vocabularies drop a space at the start of a text.
    """
    texts: list[str] = []
    run: list[int] = []  # the last token that gave text, and those since
    known = 0  # how much of the run's text has been given
    for token in ids:
        if tokenizer.is_special(token):
            if run:
                texts[-1] += tokenizer.decode(run)[known:]
            texts.append(tokenizer.decode([token]))
            run, known = [], 0
            continue
        run.append(token)
        text = tokenizer.decode(run)
        if text.endswith("\N{REPLACEMENT CHARACTER}"):
            texts.append("")
            continue
        new = text[known:]
        texts.append(new if tokenizer.backend.merges_text else new.strip(" ") or new)
        run, known = [token], len(tokenizer.decode([token]))
    if run:
        texts[-1] += tokenizer.decode(run)[known:]
    return texts
