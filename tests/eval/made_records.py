"""Records as an evaluation writes them, made up: what reports are tested on."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from remedy.checksums import digest_of, write_json, write_table
from remedy.eval.records.schema import Record, label_columns
from remedy.eval.records.summary import ConditionSummary, summarise, write_summary

COMMON = {
    "format": "cwm",
    "string_encoding": "plain",
    "locals": "full",
    "spacing": 1.0,
    "answer_only": False,
    "forcing": "free",
}
NEUTRAL: dict[str, Any] = {"split": "test", "outcome": "ok", "python": "CPython 3.11", "isolation": "trusted"}
NEUTRAL |= dict.fromkeys(("source", "functions", "first_error_role", "wrong_action", "value_type", "operation"), "")
NEUTRAL |= dict.fromkeys(("answer", "true_answer"), "")
NEUTRAL |= {"held_out_pairs": 0}
NEUTRAL |= dict.fromkeys(("chance", "start_right"), math.nan)
NEUTRAL |= {"valid_format": True, "truncated": False, "first_error_in_string": False, "followed_another": False}
NEUTRAL |= {"written_tokens": 10, "read_tokens": 25, "frames": 4, "frames_right": 4}
NEUTRAL |= {"first_error_frame": -1, "first_error_token": -1}
NEUTRAL |= {"certain_tokens": 0, "masked_tokens": 0, "cut_mass": 0.0, "changed_tokens": 0}
NEUTRAL |= dict.fromkeys(("state_exact", "action_exact", "value_exact", "key_match", "key_value_match"), 1.0)
for _kind, _count in {"argument": 0, "unchanged": 1, "changed": 1}.items():
    NEUTRAL |= dict.fromkeys((f"{_kind}_states", f"{_kind}_states_right"), _count)
NEUTRAL |= dict.fromkeys(("lines_below", "lines_below_right"), 3)
NEUTRAL |= dict.fromkeys(("values_repeated", "values_repeated_right"), 0)
NEUTRAL |= {"states": 2, "actions": 4, "returns": 1, "respelled": 0, "tokens_context": 9}
for _role, _count in {"structure": 1, "event": 0, "action": 12, "query": 0, "state": 8, "value": 2}.items():
    NEUTRAL |= {f"out_of_{_role}": _count, f"tokens_{_role}": _count}


def made(
    right: Sequence[bool],
    run: str = "run",
    diagnostic: str = "permutation",
    labels: dict[str, Any] | None = None,
    **columns: Any,
) -> pd.DataFrame:
    """One condition's records, one for every outcome. A wrong one fails by a wrong state unless `columns` say otherwise."""
    labels = {**COMMON, **(labels or {})}
    count = len(right)
    rows = pd.DataFrame(
        {
            "run": run,
            "diagnostic": diagnostic,
            "condition": "__".join(f"{name}={value}" for name, value in labels.items()),
            "example": [f"{number:04}" for number in range(count)],
            "cluster": [f"{number:04}" for number in range(count)],
            "index": range(count),
            "right": list(right),
            "failure": ["" if one else "wrong state" for one in right],
            **NEUTRAL,
        }
    ).assign(**columns)
    assert set(rows) == set(Record.__annotations__)
    return rows.assign(**labels)


def together(
    *parts: pd.DataFrame, variants: dict[str, str] | None = None
) -> tuple[list[ConditionSummary], pd.DataFrame]:
    """The conditions, as an evaluation summarises them, and the records as a report reads them: with each run's variant."""
    known = [part.assign(variant=[(variants or {}).get(run, run) for run in part["run"]]) for part in parts]
    return [condition for part in known for condition in summarise(part)], pd.concat(known, ignore_index=True)


def write_evaluation(
    folder: Path,
    *parts: pd.DataFrame,
    variant: str = "",
    training: dict[str, Any] | None = None,
    weights: str = "",
    **request: Any,
) -> Path:
    """A folder as `remedy evaluate` leaves it. `request`: what it says beside the least."""
    run = str(parts[0]["run"].iloc[0])
    checkpoint = {
        "model_type": "remedy",
        "mixers": {"gru": None},
        "decoder": {},
        **dict.fromkeys(("flops_per_token", "flops_by_length", "state_floats", "state_by_length")),
        "num_hidden_layers": 1,
        "hidden_size": 2,
        "parameters": 7,
        "tokenizer": {"kind": "chars"},
        "tokenizer_fingerprint": "print",
        "weights": weights or f"weights of {run}",
    }
    (folder / "records").mkdir(parents=True)
    names = [str(part["condition"].iloc[0]) for part in parts]
    request = (
        {"trained_on": None, "evaluation": {}}
        | request
        | {
            "run": run,
            "checkpoint": checkpoint,
            "variant": variant,
            "training": training,
            "data": {"task": {"kind": "permutation"}, **request.get("data", {})},
            "conditions": names,
        }
    )
    write_json(folder / "evaluation.json", request)
    for name, part in zip(names, parts):
        assert label_columns(part)
        write_table(folder / "records" / f"{name}.parquet", pa.Table.from_pandas(part), digest_of(request))
    write_summary(folder / "summary.json", run, together(*parts)[0], digest_of(request))
    return folder
