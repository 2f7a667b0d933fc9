"""The text of single tokens, and text that is safe to show."""

from __future__ import annotations

from collections.abc import Sequence

from remedy.messages import escaped
from remedy.models.tokenizer import TraceTokenizer

_SHOWN = str.maketrans({"\n": "↵", "\t": "⇥"})


def visible(text: str) -> str:
    """The text with a sign for each newline and tab, and with every other control or format character as its escape."""
    return escaped(text.translate(_SHOWN))


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
