"""Views of an evaluation's records, from its files alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from remedy.checksums import digest_of
from remedy.data_gen.roles import ROLES, Role
from remedy.data_gen.traces.render import FORMATS
from remedy.eval.decoding.forcings import TEACHER_FORCED, fed_by_name
from remedy.eval.records.folder import GENERATIONS, RECORDS, read_request, words_of
from remedy.eval.records.generations import read_generations
from remedy.eval.records.schema import read_records
from remedy.eval.view.model import Block, Run, Token, View, blocks_of, side_by_side
from remedy.messages import suggest
from remedy.settings import ConfigError

FACTS = ("failure", "wrong_action", "operation", "first_error_role", "outcome", "source", "answer", "true_answer")


class EvaluationFolder:
    """An evaluation's folder, to show its records.

    Raises:
        UserError: it holds none.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.request = read_request(folder)
        self.evaluation = digest_of(self.request)
        self.conditions: list[str] = self.request["conditions"]

    def find_condition(self, words: str) -> str:
        """Return the only condition whose labels or label values include every word.

        Raises:
            ConfigError: none has, or several have.
        """
        parts = {slug: words_of(slug) for slug in self.conditions}
        values = {slug: {slug, *own, *(part.partition("=")[2] for part in own)} for slug, own in parts.items()}
        matching = [slug for slug in parts if values[slug].issuperset(words.split())]
        if len(matching) == 1:
            return matching[0]
        if not matching:
            known = sorted({part for own in parts.values() for part in own})
            raise ConfigError(
                f"--condition {words!r}: no condition of {self.folder} has all of these words; {suggest(words, known)}"
            )
        names = "\n".join(f"  {' '.join(parts[slug])}" for slug in matching)
        raise ConfigError(
            f"--condition: {self.folder} has {len(matching)} conditions; give words that only one of them has:\n{names}"
        )

    def views(self, condition: str, indices: Sequence[int]) -> list[View]:
        """Return the views of a condition's records.

        Raises:
            UserError: there is no such record, or a file is damaged.
        """
        records = read_records(self.folder / RECORDS / f"{condition}.parquet", self.evaluation)
        records = records.set_index("index", drop=False)
        if missing := [index for index in indices if index not in records.index]:
            raise ConfigError(f"--index {missing[0]}: {condition} has {len(records)} records, numbered from 0")
        written = read_generations(self.folder / GENERATIONS / f"{condition}.parquet", self.evaluation)
        return [record_view(records.loc[index].to_dict(), written.loc[index].to_dict()) for index in indices]


def record_of_folder(folder: Path, index: int, words: str = "") -> View:
    """Return the view of one record.

    `words`: of a condition, as in `find_condition`; by default the first, with the others listed.

    Raises:
        UserError: there is no such condition or record.
    """
    evaluation = EvaluationFolder(folder)
    conditions = evaluation.conditions
    [view] = evaluation.views(evaluation.find_condition(words) if words else conditions[0], [index])
    if len(conditions) > 1 and not words:
        view.facts["condition"] = f"1 of {len(conditions)}; --condition chooses: {', '.join(conditions)}"
    return view


def record_view(record: Mapping[str, Any], written: Mapping[str, Any]) -> View:
    form = FORMATS.get(record["format"])
    # Under teacher forcing, as in one-token formats, each token stands in place of one true token.
    by_place = (form is not None and form.one_token) or fed_by_name(record["forcing"]) == TEACHER_FORCED
    title = f"Example {record['index']}, {record['condition'].replace('__', ', ')}"
    truth = _truth(written)
    numbers = list(dict.fromkeys(token.frame for token in truth if token.role is not Role.CONTEXT))
    blocks = side_by_side(truth, _runs(written, numbers), record["first_error_frame"], by_place)
    undefined = pd.isna(record["right"])
    facts = {"right": "undefined: states or values are fed" if undefined else "yes" if record["right"] else "no"}
    facts |= {name.replace("_", " "): str(record[name]) for name in FACTS if record[name] and record[name] != "ok"}
    return View(title, blocks, facts, "written")


def generation_blocks(written: Mapping[str, Any], first: int) -> tuple[Block, ...]:
    """Return the blocks of a generation without a truth. `first`: number of its first frame."""
    context = [token._replace(supervised=False) for token in _truth(written) if token.role is Role.CONTEXT]
    tokens = [token for run in _runs(written, [first]) for token in run.tokens]
    return blocks_of([*context, *tokens])


def _truth(written: Mapping[str, Any]) -> list[Token]:
    columns = ("ids", "texts", "roles", "frames", "strings", "special")
    return [
        Token(id, text, ROLES[role], frame, string, special=special)
        for id, text, role, frame, string, special in zip(*(written[f"true_{name}"] for name in columns))
    ]


def _runs(written: Mapping[str, Any], numbers: Sequence[int]) -> list[Run]:
    """Return a generation's runs; `numbers`: of the true frames, continued for others."""
    columns = [written[name] for name in ("ids", "texts", "roles", "places", "special", "logprobs")]
    certain, cut = (list(written[name]) or [0] * len(columns[0]) for name in ("certain", "cut"))
    # `places` count written frames, which may be more than the true ones.
    last = max(numbers, default=0)
    numbers = [*numbers, *range(last + 1, last + 2 + max(columns[3], default=0))]
    tokens = [
        Token(
            id,
            text,
            ROLES[role],
            numbers[frame_index],
            False,
            not is_certain,
            special,
            False,
            None if is_certain else logprob,
            mass,
        )
        for id, text, role, frame_index, special, logprob, is_certain, mass in zip(*columns, certain, cut, strict=True)
    ]
    ends = np.cumsum([0, *written["run_lengths"]])
    starts = zip(written["run_starts"], written["run_stops"], ends, ends[1:])
    return [Run(int(start), int(stop), tokens[first:last]) for start, stop, first, last in starts]
