"""Generations: the model's output for each record, beside the true tokens.

A record leads to its generation by `condition` (the file's name) and `index` (the row). Views need no tokenizer and run no program.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, TypedDict

import numpy as np
import pandas as pd
import pyarrow as pa

from remedy.checksums import read_table, write_table
from remedy.data_gen.roles import Role
from remedy.eval.decoding.cursor import Generated
from remedy.eval.records.forms import check_rows
from remedy.eval.records.schema import CURE
from remedy.models.tokenizer import Encoded, TraceTokenizer


class Generation(TypedDict):
    """Model output for one example; all lists are empty if it was not decoded."""

    index: int
    """The example's index in its split, as in its record."""
    text: str
    """Output of model and forcing after the context; special tokens under their names."""
    run_starts: list[int]
    run_stops: list[int]
    run_lengths: list[int]
    """Of each run of generated tokens: the true positions of the first token that it replaces and after the last one, and its
    number of tokens."""
    ids: list[int]
    texts: list[str]
    special: list[bool]
    """Generated tokens of all runs in order, their texts, and whether each is a special token."""
    logprobs: list[float]
    """Natural logarithm of each token's probability; 0 for certain tokens, null if unknown."""
    places: list[int]
    roles: list[str]
    """Index of each token's frame among the written ones, and its role."""
    certain: list[bool]
    cut: list[float]
    changed: list[bool | None]
    """Under a constraint: whether each token was certain and so was fed, the probability of all tokens not allowed in its place,
    and whether one of these was the likeliest (null if a server chose). Else empty."""
    true_ids: list[int]
    true_texts: list[str]
    true_special: list[bool]
    true_roles: list[str]
    true_frames: list[int]
    true_strings: list[bool]
    """The true sequence, context and trace: ids, texts, whether each is a special token, its role, its frame's number in the trace
    (-1 in the context), and whether it belongs to the text of a string value."""
    near_ties: int
    """Number of tokens whose two likeliest candidates were closer than rounding: other hardware, or another batch, may write
    another there."""


NUMBERS = [name for name, kind in Generation.__annotations__.items() if "list[float]" in str(kind)]
"""Columns of real numbers, in which null is read as NaN."""


class TokenPlace(NamedTuple):
    """Frame index of a generated token among the written frames, and its role."""

    frame: int
    role: Role


def generation(
    index: int,
    text: str,
    runs: Sequence[Generated],
    places: Sequence[TokenPlace],
    tokenizer: TraceTokenizer,
    truth: Encoded,
    near_ties: int = 0,
) -> Generation:
    """Return the row of one example. `places`: frame and role of each run's tokens."""
    written = [token for run in runs for token in run.ids]
    ids, roles, numbers, strings = truth
    return {
        "index": index,
        "text": text,
        "run_starts": [run.start for run in runs],
        "run_stops": [run.stop for run in runs],
        "run_lengths": [len(run.ids) for run in runs],
        "ids": written,
        "texts": token_texts(tokenizer, written),
        "special": [tokenizer.is_special(token) for token in written],
        "logprobs": [logprob for run in runs for logprob in run.logprobs],
        "places": [place.frame for place in places],
        "roles": [place.role.label for place in places],
        "certain": [origin.certain for run in runs for origin in run.origins],
        "cut": [origin.cut for run in runs for origin in run.origins],
        "changed": [origin.changed for run in runs for origin in run.origins],
        "true_ids": list(ids),
        "true_texts": token_texts(tokenizer, ids),
        "true_special": [tokenizer.is_special(token) for token in ids],
        "true_roles": [Role(role).label for role in roles],
        "true_frames": list(numbers),
        "true_strings": list(strings),
        "near_ties": near_ties,
    }


def token_texts(tokenizer: TraceTokenizer, ids: Sequence[int]) -> list[str]:
    """Return the text of every token; joined, they are the whole text.

    Special tokens appear under their names; spaces between symbols are left out. A character in several tokens is the
    text of the last one.
    """
    # Traces repeat themselves: most tokens stand beside the same ones as before.
    text_of = functools.cache(lambda *tokens: tokenizer.decode(tokens))
    texts: list[str] = []
    run: list[int] = []  # the last token with text, and those after it
    known = 0  # characters of the run's text already returned
    for token in ids:
        if tokenizer.is_special(token):
            if run:
                texts[-1] += text_of(*run)[known:]
            texts.append(text_of(token))
            run, known = [], 0
            continue
        run.append(token)
        text = text_of(*run)
        if text.endswith("\N{REPLACEMENT CHARACTER}"):
            texts.append("")
            continue
        new = text[known:]
        texts.append(new if tokenizer.backend.merges_text else new.strip(" ") or new)
        # The next token is decoded after this one, since some vocabularies drop a space at a text's start.
        run, known = [token], len(text_of(token))
    if run:
        texts[-1] += text_of(*run)[known:]
    return texts


def write_generations(path: Path, rows: Iterable[Generation], evaluation: str) -> None:
    """Write one condition's generations atomically. `evaluation`: its digest."""
    table = pd.DataFrame(list(rows), columns=list(Generation.__annotations__))
    write_table(path, pa.Table.from_pandas(table), evaluation)


def read_generations(path: Path, evaluation: str | None = None) -> pd.DataFrame:
    """Read one condition's generations, indexed by example, and check the file.

    Raises:
        DamagedFile: as `read_records`.
    """
    generations: pd.DataFrame = check_rows(path, CURE, read_table(path, CURE, evaluation), Generation).to_pandas()
    for name in {*NUMBERS} & {*generations.columns}:  # a list of nulls alone has no type in the file
        generations[name] = [np.array(values, dtype=float) for values in generations[name]]
    return generations.set_index("index", drop=False)
