"""The record of an evaluation, opened from its files alone: what the model wrote beside what is true."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from remedy.checksums import digest_of
from remedy.data_gen.roles import ROLES
from remedy.data_gen.traces.render import FORMATS
from remedy.eval.decoding.forcings import FORCINGS, TEACHER_FORCED
from remedy.eval.records.folder import GENERATIONS, RECORDS, read_request, words_of
from remedy.eval.records.generations import read_generations
from remedy.eval.records.schema import read_records
from remedy.eval.view.model import Block, Part, Run, Token, View, beside, frame_at, visible
from remedy.messages import suggest
from remedy.settings import ConfigError, UserError

AGAINST = "the states written before lead elsewhere, or the program cannot come here"
"""The mark of a frame that contradicts what was written before it."""
FACTS = ("failure", "wrong_action", "operation", "first_error_role", "outcome", "source", "answer", "true_answer")


class Opened:
    """An evaluation's folder whose records are looked at.

    Raises:
        UserError: it holds none.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.request = read_request(folder)
        self.evaluation = digest_of(self.request)
        self.conditions: list[str] = self.request["conditions"]

    def named(self, words: str) -> str:
        """The condition that has these words in its name, as no other has.

        Raises:
            ConfigError: none has, or several have.
        """
        asked, parts = words.split(), {slug: words_of(slug) for slug in self.conditions}
        found = [slug for slug, mine in parts.items() if set(asked) <= {slug, *mine}] or [
            slug for slug, mine in parts.items() if all(word in " ".join(mine) for word in asked)
        ]
        if len(found) == 1:
            return found[0]
        if not found:
            known = sorted({part for mine in parts.values() for part in mine})
            raise ConfigError(f"--condition {words!r}: no condition of {self.folder} has it; {suggest(words, known)}")
        names = "\n".join(f"  {' '.join(parts[slug])}" for slug in found)
        raise ConfigError(
            f"--condition: {self.folder} has {len(found)} conditions; give words that only one of them has:\n{names}"
        )

    def generations(self, condition: str) -> pd.DataFrame:
        """The generations of a condition, by index.

        Raises:
            UserError: they are damaged, or hold no true sequences.
        """
        path = self.folder / GENERATIONS / f"{condition}.parquet"
        found = read_generations(path, self.evaluation)
        if "true_ids" not in found:
            raise UserError(f"{path}: holds no true sequences: evaluate again to look at records")
        return found

    def views(self, condition: str, indices: Sequence[int], kept: pd.DataFrame | None = None) -> list[View]:
        """Records of a condition. `kept`: its generations, if they are read already.

        Raises:
            UserError: there is no such record, or a file is damaged.
        """
        path = self.folder / RECORDS / f"{condition}.parquet"
        records = read_records(path, self.evaluation).set_index("index", drop=False)
        if missing := [index for index in indices if index not in records.index]:
            raise ConfigError(f"--index {missing[0]}: {condition} has {len(records)} records, numbered from 0")
        written = self.generations(condition) if kept is None else kept
        return [_view(records.loc[index].to_dict(), written.loc[index].to_dict()) for index in indices]


def record_view(folder: Path, index: int, words: str = "") -> View:
    """One record. `words`: parts of the condition's name, with spaces between them, that no other condition has.

    Raises:
        UserError: the folder holds no such condition or record, or no true sequences.
    """
    opened = Opened(folder)
    return opened.views(opened.named(words), [index])[0]


def _view(record: Mapping[str, Any], written: Mapping[str, Any]) -> View:
    form = FORMATS.get(record["format"])
    by_place = (form is not None and form.one_token) or FORCINGS.get(record["forcing"]) == TEACHER_FORCED
    truth = _tokens(written, "true_", written["true_roles"], written["true_frames"], strings=written["true_strings"])
    numbers = list(dict.fromkeys(token.frame for token in truth if token.role.label != "context"))
    end = {numbers[-1]: "end"} if numbers and truth[-1].special else {}
    runs = _runs(written, numbers)
    said = {block.frame: block for block in _said(written, numbers)} if numbers else {}
    blocks = []
    for block in beside(truth, runs, end, by_place):
        missing = len(block.tokens) - len(block.written or ()) if runs and by_place and block.frame >= 0 else 0
        of = said.get(block.frame, block)
        note = ", ".join(filter(None, [of.note, f"{missing} tokens not written" if missing else ""]))
        error = 0 <= block.frame == record["first_error_frame"]
        blocks.append(replace(block, note=note, first_error=error, probability=of.probability, marks=of.marks))
    title = f"Example {record['index']}, {record['condition'].replace('__', ', ')}"
    return View(title, (Part("", tuple(blocks)),), _facts(record), "written")


def _tokens(
    row: Mapping[str, Any], prefix: str, roles: Sequence[str], frames: Sequence[int], **columns: Sequence[Any]
) -> list[Token]:
    """Tokens from the columns of a generation."""
    ids, texts, special = (row[f"{prefix}{name}"] for name in ("ids", "texts", "special"))
    nothing = [False] * len(ids)
    strings, sure = columns.get("strings", nothing), columns.get("certain", [])
    sure = sure if len(sure) else nothing
    logprobs = columns.get("logprobs", [math.nan] * len(ids))
    return [
        Token(
            int(token),
            str(text),
            ROLES[role],
            int(frame),
            bool(string),
            not certain,
            bool(is_special),
            logprob=None if math.isnan(logprob) or certain else float(logprob),
        )
        for token, text, role, frame, string, certain, is_special, logprob in zip(
            ids, texts, roles, frames, strings, sure, special, logprobs, strict=True
        )
    ]


def _runs(written: Mapping[str, Any], numbers: Sequence[int]) -> list[Run]:
    frames = [frame_at(numbers, int(place)) for place in written["places"]]
    tokens = _tokens(written, "", written["roles"], frames, logprobs=written["logprobs"], certain=written["certain"])
    runs, at = [], 0
    for start, stop, length in zip(written["run_starts"], written["run_stops"], written["run_lengths"]):
        runs.append(Run(int(start), int(stop), tokens[at : at + length]))
        at += length
    return runs


def _said(written: Mapping[str, Any], numbers: Sequence[int]) -> Iterator[Block]:
    """The notes on each frame that the model wrote tokens of: its probability and that of its least likely token, what a constraint
    cut, and whether it contradicts what was written before."""
    against = set() if written["contradictions"] is None else {int(place) for place in written["contradictions"]}
    columns = zip(written["places"], written["logprobs"], written["texts"])
    text_of = {(place, logprob): text for place, logprob, text in reversed([*columns])}
    for place, whole, least, cut in zip(
        *(written[f"frame_{name}"] for name in ("places", "logprob_sum", "logprob_min", "cut"))
    ):
        if known := not math.isnan(whole):
            text = visible(text_of[place, least]) or "·"
            note = f"p {math.exp(whole):.2g}, least likely token {math.exp(least):.2g} {text}"
        else:
            note = "p unknown: a server chose"
        note += f", cut {cut:.2g}" if cut > 0 else ""
        marks = (AGAINST,) if int(place) in against else ()
        probability = math.exp(whole) if known else None
        yield Block(frame_at(numbers, int(place)), "", (), note=note, probability=probability, marks=marks)


def _facts(record: Mapping[str, Any]) -> dict[str, str]:
    undefined = pd.isna(record["right"])
    facts = {"right": "undefined: states or values are fed" if undefined else "yes" if record["right"] else "no"}
    named = {name: str(record[name]) for name in FACTS if record[name] and record[name] != "ok"}
    return facts | {name.replace("_", " "): text for name, text in named.items()}
