"""The record of an evaluation, opened: what the model wrote beside what is true."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from remedy.data_gen.examples import DataConfig
from remedy.data_gen.messages import suggest
from remedy.data_gen.sealed import digest_of
from remedy.data_gen.settings import ConfigError, UserError, build
from remedy.data_gen.splits import text_hash
from remedy.data_gen.traces.render import FORMATS
from remedy.eval.checkpoint import Subject
from remedy.eval.config import EvalConfig
from remedy.eval.decoding import TEACHER_FORCED, Generated, fed_roles
from remedy.eval.diagnostics import Condition
from remedy.eval.evaluate import conditions_of
from remedy.eval.folder import GENERATIONS, RECORDS, REQUEST, read_request
from remedy.eval.generations import read_generations
from remedy.eval.records import read_records
from remedy.eval.view.comparison import Comparison, frame_at
from remedy.eval.view.structure import Part, View, tokens_of
from remedy.models.encoding import encoded_examples
from remedy.models.tokenizer import load as load_tokenizer


def record_view(folder: Path, index: int, words: str = "") -> View:
    """One record. `words`: parts of the condition's name, with spaces between them, that no other condition has.

    Raises:
        UserError: the folder holds no such condition or record, or the data are no longer those that were evaluated.
    """
    request = read_request(folder)
    condition = _condition(folder, request, words)
    evaluation = digest_of(request)
    records = read_records(folder / RECORDS / f"{condition.slug}.parquet", evaluation).set_index("index", drop=False)
    if index not in records.index:
        raise ConfigError(f"--index {index}: {condition.slug} has {len(records)} records, numbered from 0")
    record = records.loc[index].to_dict()
    tokenizer = load_tokenizer(folder)
    if tokenizer.fingerprint != request["checkpoint"]["tokenizer_fingerprint"]:
        raise UserError(
            f"{folder}: its tokenizer is not the one that was evaluated: evaluate again, which writes it anew"
        )
    [(example, encoded)] = encoded_examples(condition.data, tokenizer, condition.split, [index])
    if f"{text_hash(example.identity):016x}" != record["example"]:
        raise UserError(f"{folder}: the data have changed: example {index} is another program than was evaluated")
    kept = read_generations(folder / GENERATIONS / f"{condition.slug}.parquet", evaluation)
    written = kept.loc[index].to_dict()
    form = FORMATS[condition.data.format]
    by_place = form.one_token or fed_roles(condition.forcing) == TEACHER_FORCED
    reader = None if by_place else form.reader(condition.data.reveal.answer_only)
    truth = tokens_of(tokenizer, encoded, [True] * len(encoded.ids))
    end = len(example.trace.frames)
    notes = _notes(written, [*(frame.number for frame in example.frames), end])
    blocks = []
    for block in Comparison(tokenizer, reader).blocks(truth, _runs(written), {end: "end"}):
        missing = len(block.tokens) - len(block.written or ()) if by_place and block.frame >= 0 else 0
        said = [notes.get(block.frame, ""), f"{missing} tokens not written" if missing else ""]
        note = ", ".join(filter(None, said))
        blocks.append(replace(block, note=note, first_error=0 <= block.frame == record["first_error_frame"]))
    return View(
        f"Example {index}, {condition.slug.replace('__', ', ')}", (Part("", tuple(blocks)),), _facts(record), "written"
    )


def _condition(folder: Path, request: Mapping[str, Any], words: str) -> Condition:
    conditions = {c.slug: c for c in _conditions(folder, request)}
    asked = words.split()
    whole = [slug for slug in conditions if set(asked) <= {slug, *slug.split("__")}]
    found = whole or [slug for slug in conditions if all(word in slug for word in asked)]
    if len(found) == 1:
        return conditions[found[0]]
    if not found:
        parts = {part for slug in conditions for part in slug.split("__")}
        raise ConfigError(f"--condition {words!r}: no condition of {folder} has it; {suggest(words, sorted(parts))}")
    names = "\n".join(f"  {slug.replace('__', ' ')}" for slug in found)
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
    """The runs of a generation, without how each token came about."""
    ids, runs, at = [int(token) for token in written["ids"]], [], 0
    for start, stop, length in zip(written["run_starts"], written["run_stops"], written["run_lengths"]):
        runs.append(Generated(int(start), int(stop), ids[at : at + length], [], True))
        at += length
    return runs


def _notes(written: Mapping[str, Any], numbers: list[int]) -> dict[int, str]:
    """By a frame's number: the probability of what the model wrote of it, and of its least likely token; and what a constraint cut."""
    columns = (written[f"frame_{name}"] for name in ("places", "logprob_sum", "logprob_min", "cut"))
    return {
        frame_at(numbers, int(place)): f"p {math.exp(whole):.2g}, least likely token {math.exp(least):.2g}"
        + (f", cut {cut:.2g}" if cut > 0 else "")
        for place, whole, least, cut in zip(*columns)
    }


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
