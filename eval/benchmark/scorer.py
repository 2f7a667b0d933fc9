"""Scorer of an exported benchmark, without dependencies.

python -m cwm_benchmark NAME OUTPUTS.jsonl [--answers]

A line of OUTPUTS.jsonl is `{"id": ..., "written": ...}`. Outputs are parsed as data, never run.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Any

from remedy.data_gen.roles import Special
from remedy.data_gen.traces.comparison import TraceScore, compare_traces, same_text
from remedy.data_gen.traces.repl import Repl

Row = Mapping[str, Any]


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]


def score_trace(written: str, row: Row) -> TraceScore:
    # Harnesses strip the last newline and the end of text.
    ended = written if written.endswith("\n") else f"{written}\n"
    return compare_traces(
        [ended, Special.END_OF_TEXT], [row["trace"], Special.END_OF_TEXT], Repl(), row["answer_frames"]
    )


def score_answer(written: str, row: Row) -> bool:
    """Say if a reply's first line is the true answer."""
    line = next((line.strip() for line in written.splitlines() if line.strip()), "")
    return same_text(line, row["answer"])


def wilson(right: int, count: int, confidence: float = 0.95) -> tuple[float, float]:
    """Compute Wilson's interval of a rate of independent examples."""
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share, scale = right / count, 1 + z * z / count
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / scale
    centre = (share + z * z / (2 * count)) / scale
    return max(0.0, centre - half), min(1.0, centre + half)


def lines(rows: Sequence[Row], outputs: Mapping[str, str], answers: bool) -> list[str]:
    """Write the results of each part; examples without an output count as wrong."""
    results = []
    for part in dict.fromkeys(row["part"] for row in rows):
        of_part = [row for row in rows if row["part"] == part]
        pairs = [(outputs.get(row["id"], ""), row) for row in of_part]
        scores = [] if answers else [score_trace(*pair) for pair in pairs]
        right = sum(score_answer(*pair) for pair in pairs) if answers else sum(score.right for score in scores)
        low, high = wilson(right, len(of_part))
        result = f"{part}: right {right} of {len(of_part)}, {right / len(of_part):.1%} (95 %: {low:.1%} to {high:.1%})"
        if scores:
            wrong = Counter(score.first_wrong.label for score in scores if score.first_wrong is not None)
            first = ", ".join(f"{role} {count}" for role, count in wrong.most_common()) or "none"
            result += f"; right before the first wrong frame {sum(s.prefix for s in scores) / len(scores):.1%}; first wrong: {first}"
        results.append(result)
    missing = sum(row["id"] not in outputs for row in rows)
    return results + ([f"{missing} of {len(rows)} examples have no output and count as wrong"] if missing else [])


def main(data: Path) -> None:
    """Score a file of outputs; `data`: the benchmark's folder."""
    parser = argparse.ArgumentParser("cwm_benchmark", description="Score what a model wrote of this benchmark.")
    parser.add_argument("name", choices=sorted(path.stem for path in data.glob("*.jsonl")))
    parser.add_argument("outputs", type=Path, help='JSON lines with "id" and "written"')
    parser.add_argument(
        "--answers", action="store_true", help="replies to `question`, in place of traces after `prompt`"
    )
    arguments = parser.parse_args()
    try:
        written = read(arguments.outputs)
        outputs = {str(line["id"]): line["written"] for line in written}
        if unwritten := next((key for key, text in outputs.items() if not isinstance(text, str)), None):
            raise TypeError(f"what was written for {unwritten!r} is no text: leave out what has no output")
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        parser.error(f'{arguments.outputs}: cannot be read as JSON lines with "id" and "written": {error}')
    if len(outputs) < len(written):
        parser.error(f"{arguments.outputs}: an example is there twice: give one output of each")
    rows = read(data / f"{arguments.name}.jsonl")
    if unknown := sorted(outputs.keys() - {row["id"] for row in rows}):
        parser.error(f"{arguments.outputs}: {arguments.name} has no example {unknown[0]!r}")
    print("\n".join(lines(rows, outputs, arguments.answers)))
