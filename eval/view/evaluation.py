"""The record of an evaluation, opened: what the model wrote beside what is true."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from remedy.checksums import digest_of
from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import Example
from remedy.data_gen.splits import text_hash
from remedy.data_gen.traces.render import FORMATS
from remedy.eval.checkpoint import Subject
from remedy.eval.conditions import conditions_of
from remedy.eval.config import EvalConfig
from remedy.eval.decoding.cursor import Generated
from remedy.eval.decoding.forcings import TEACHER_FORCED, fed_roles
from remedy.eval.decoding.protocol import Held
from remedy.eval.diagnostics import Condition
from remedy.eval.records.folder import GENERATIONS, RECORDS, REQUEST, read_request, words_of
from remedy.eval.records.generations import read_generations
from remedy.eval.records.schema import read_records
from remedy.eval.view.comparison import Comparison, frame_at
from remedy.eval.view.structure import Block, Part, View, tokens_of
from remedy.eval.view.text import token_texts, visible
from remedy.messages import suggest
from remedy.models.encoding import encoded_examples
from remedy.models.tokenizer import Encoded, TraceTokenizer
from remedy.models.tokenizer import load as load_tokenizer
from remedy.settings import ConfigError, UserError, build

AGAINST = "the states written before lead elsewhere, or the program cannot come here"
"""What is said of a frame that contradicts what was written before it."""


def record_view(folder: Path, index: int, words: str = "") -> View:
    """One record. `words`: parts of the condition's name, with spaces between them, that no other condition has.

    Raises:
        UserError: the folder holds no such condition or record, or the data are no longer those that were evaluated.
    """
    opened = Opened(folder)
    [view] = opened.views(opened.named(words), [index])
    return view


class Opened:
    """An evaluation's folder whose records are looked at.

    Raises:
        UserError: it holds none, or one of another version.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.request = read_request(folder)
        self.evaluation = digest_of(self.request)
        self.conditions = {condition.slug: condition for condition in _conditions(folder, self.request)}

    @cached_property
    def tokenizer(self) -> TraceTokenizer:
        """The one that was evaluated.

        Raises:
            UserError: it is not there.
        """
        tokenizer = load_tokenizer(self.folder)
        if tokenizer.fingerprint != self.request["checkpoint"]["tokenizer_fingerprint"]:
            raise UserError(
                f"{self.folder}: its tokenizer is not the one that was evaluated: evaluate again, which writes it anew"
            )
        return tokenizer

    def named(self, words: str) -> str:
        """The condition that has these words in its name, as no other has."""
        return _condition(self.folder, self.conditions, words)

    def records(self, condition: str) -> pd.DataFrame:
        """A condition's records, by index."""
        found = read_records(self.folder / RECORDS / f"{condition}.parquet", self.evaluation)
        return found.set_index("index", drop=False)

    def generations(self, condition: str) -> pd.DataFrame:
        """What the model wrote under a condition, by index."""
        return read_generations(self.folder / GENERATIONS / f"{condition}.parquet", self.evaluation)

    def views(self, condition: str, indices: Sequence[int], kept: pd.DataFrame | None = None) -> list[View]:
        """Records of a condition, their programs made again. `kept`: its generations, if they are read already.

        Raises:
            UserError: there is no such record, a file is damaged, or the data are no longer those that were evaluated.
        """
        records = self.records(condition)
        if missing := [index for index in indices if index not in records.index]:
            raise ConfigError(f"--index {missing[0]}: {condition} has {len(records)} records, numbered from 0")
        about = self.conditions[condition]
        found = encoded_examples(about.data, self.tokenizer, about.split, indices)
        for example, _ in found:
            if f"{text_hash(example.identity):016x}" != records.loc[example.index]["example"]:
                raise UserError(
                    f"{self.folder}: the data have changed: example {example.index} is another program than was evaluated"
                )
        written = self.generations(condition) if kept is None else kept
        return [
            _view(example, encoded, about, records.loc[index].to_dict(), written.loc[index].to_dict(), self.tokenizer)
            for index, (example, encoded) in zip(indices, found)
        ]


def _view(
    example: Example,
    encoded: Encoded,
    condition: Condition,
    record: Mapping[str, Any],
    written: Mapping[str, Any],
    tokenizer: TraceTokenizer,
) -> View:
    form = FORMATS[condition.data.format]
    by_place = form.one_token or fed_roles(condition.forcing) == TEACHER_FORCED
    reader = None if by_place else form.reader(condition.data.reveal.answer_only)
    truth = tokens_of(tokenizer, encoded, [True] * len(encoded.ids))
    end = len(example.trace.frames)
    numbers = [*(frame.number for frame in example.frames), end]
    said = {block.frame: block for block in _said(written, numbers, tokenizer)}
    blocks = []
    for block in Comparison(tokenizer, reader).blocks(truth, _runs(written), {end: "end"}):
        missing = len(block.tokens) - len(block.written or ()) if by_place and block.frame >= 0 else 0
        of = said.get(block.frame, block)
        note = ", ".join(filter(None, [of.note, f"{missing} tokens not written" if missing else ""]))
        error = 0 <= block.frame == record["first_error_frame"]
        blocks.append(replace(block, note=note, first_error=error, probability=of.probability, marks=of.marks))
    title = f"Example {record['index']}, {', '.join(condition.slug.split('__'))}"
    return View(title, (Part("", tuple(blocks)),), _facts(record), "written")


def _condition(folder: Path, conditions: Mapping[str, Condition], words: str) -> str:
    asked = set(words.split())
    whole = [slug for slug in conditions if asked <= {slug, *words_of(slug)}]
    found = whole or [slug for slug in conditions if all(word in " ".join(words_of(slug)) for word in asked)]
    if len(found) == 1:
        return found[0]
    if not found:
        parts = {part for slug in conditions for part in words_of(slug)}
        raise ConfigError(f"--condition {words!r}: no condition of {folder} has it; {suggest(words, sorted(parts))}")
    names = "\n".join(f"  {' '.join(words_of(slug))}" for slug in found)
    raise ConfigError(
        f"--condition: {folder} has {len(found)} conditions; give words that only one of them has:\n{names}"
    )


def _conditions(folder: Path, request: Mapping[str, Any]) -> list[Condition]:
    """All that were evaluated. The request is what was written, or its digest would say so: where it no longer validates the
    settings are another version's."""
    try:
        data = build(DataConfig, request["data"])
        trained_on = request["trained_on"] and build(DataConfig, {**request["data"], "task": request["trained_on"]})
        settings = build(EvalConfig, request["evaluation"])
    except (ConfigError, KeyError) as error:
        why = str(error).splitlines()[0] if isinstance(error, ConfigError) else f"it has no {error}"
        raise UserError(
            f"{folder / REQUEST}: is of another version of remedy, whose settings this one does not read ({why}); "
            "evaluate again to look at records"
        ) from None
    return conditions_of(settings, Subject(data, trained_on.task if trained_on else None))


def _runs(written: Mapping[str, Any]) -> list[Generated]:
    """The runs of a generation."""
    ids, logprobs = [int(token) for token in written["ids"]], [float(one) for one in written["logprobs"]]
    held = [Held(bool(one), cut=float(cut)) for one, cut in zip(written["certain"], written["cut"])]
    runs, at = [], 0
    for start, stop, length in zip(written["run_starts"], written["run_stops"], written["run_lengths"]):
        here = slice(at, at + length)
        runs.append(Generated(int(start), int(stop), ids[here], logprobs[here], True, tuple(held[here])))
        at += length
    return runs


def _said(written: Mapping[str, Any], numbers: list[int], tokenizer: TraceTokenizer) -> Iterator[Block]:
    """What is said of each frame that the model wrote tokens of, by its number: its probability and that of its least likely token;
    what a constraint cut; and whether it goes against what was written before."""
    texts = token_texts(tokenizer, [int(token) for token in written["ids"]])
    against = set() if written["contradictions"] is None else {int(place) for place in written["contradictions"]}
    text_of = {one[:2]: one[2] for one in reversed([*zip(written["places"], written["logprobs"], texts)])}
    columns = (written[f"frame_{name}"] for name in ("places", "logprob_sum", "logprob_min", "cut"))
    for place, whole, least, cut in zip(*columns):
        if known := not math.isnan(whole):
            text = visible(text_of[place, least]) or "·"
            note = f"p {math.exp(whole):.2g}, least likely token {math.exp(least):.2g} {text}"
        else:
            note = "p unknown: a server chose"
        note += f", cut {cut:.2g}" if cut > 0 else ""
        marks = (AGAINST,) if int(place) in against else ()
        yield Block(
            frame_at(numbers, int(place)),
            "",
            (),
            note=note,
            probability=math.exp(whole) if known else None,
            marks=marks,
        )


def _facts(record: Mapping[str, Any]) -> dict[str, str]:
    undefined = pd.isna(record["right"])
    facts = {"right": "undefined: states or values are fed" if undefined else "yes" if record["right"] else "no"}
    for name in (
        "failure",
        "wrong_action",
        "operation",
        "first_error_role",
        "outcome",
        "source",
        "answer",
        "true_answer",
    ):
        if record[name] and record[name] != "ok":
            facts[name.replace("_", " ")] = str(record[name])
    return facts
