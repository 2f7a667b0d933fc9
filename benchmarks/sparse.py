"""Tokens of sparse forms of traces: of one program, or shares of a file's programs that fit a limit. No model is needed.

python benchmarks/sparse.py examples/collatz.py                       one program: frames, and tokens by role
python benchmarks/sparse.py FILE.jsonl [--benchmark NAME]             many: shares that fit 8,192 and 32,768 tokens
Add --tokenizer llama3 for Llama-3's vocabulary (`make llama3`).
"""

from __future__ import annotations

import argparse
import statistics
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from remedy.data_gen.execution.pool import trace_all
from remedy.data_gen.execution.program import Program, Trace
from remedy.data_gen.execution.sandbox import TracerConfig
from remedy.data_gen.roles import Role
from remedy.data_gen.tasks.programs import ProgramsTask, load_cases
from remedy.data_gen.traces.budget import densest_reveal, describe
from remedy.data_gen.traces.loops import unfolded
from remedy.data_gen.traces.render import render
from remedy.data_gen.traces.reveal import RevealConfig
from remedy.models.tokenizer import TraceTokenizer, build_tokenizer
from remedy.models.tokenizer_backends import CharacterSettings, Llama3Settings

INF = float("inf")
SHOWN = {"locals": "diff", "frames": "shown"}
FORMS: list[dict[str, Any]] = [
    {},
    {"locals": "diff"},
    {"locals": "changes"},
    {"locals": "diff", "spacing": 4},
    {"locals": "diff", "spacing": INF},
    *({**SHOWN, "spacing": k} for k in (2, 4, 8, 16)),
    {"locals": "diff", "loops": 2},
    {"locals": "diff", "loops": 1},
    {**SHOWN, "spacing": 16, "loops": 2},
    {**SHOWN, "spacing": INF, "loops": 1},
]
LIMITS = (8192, 32768)
ROLES = [role for role in Role if role not in (Role.CONTEXT, Role.QUERY)]


def counts(trace: Trace, reveal: RevealConfig, tokenizer: TraceTokenizer) -> tuple[int, list[int]]:
    """Return the written frames after the first, and the tokens of each role."""
    written = render(trace, "cwm", reveal)
    return len(written.frames), tokenizer.count_by_role(written.spans)


def shows_loops(trace: Trace, reveal: RevealConfig) -> bool:
    """Say if there is a state after each loop that `loops: 1` writes; in `changes`, if anything has changed."""
    if reveal.loops is not None or reveal.spacing == 1:
        return True
    shown = {frame.number for frame in render(trace, "cwm", reveal).frames if frame.locals is not None}
    return unfolded(trace, 1).after <= shown


def chosen(trace: Trace, limit: int, tokenizer: TraceTokenizer) -> RevealConfig | None:
    return densest_reveal(trace, RevealConfig(max_tokens=limit), lambda way: sum(counts(trace, way, tokenizer)[1]))


def row(cells: Iterable[object]) -> None:
    print("| " + " | ".join(f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in cells) + " |")


def one(path: Path, tokenizer: TraceTokenizer) -> None:
    [outcome] = trace_all([Program(path.read_text(encoding="utf-8"), path.name)], TracerConfig())
    assert isinstance(outcome, Trace), outcome
    row(["form", "frames", "tokens", *(role.label for role in ROLES), "states after loops"])
    row(["---"] * (4 + len(ROLES)))
    for reveal in map(RevealConfig.model_validate, FORMS):
        frames, found = counts(outcome, reveal, tokenizer)
        total = sum(found) - found[Role.CONTEXT]
        row(
            [
                describe(reveal),
                frames,
                total,
                *(found[role] for role in ROLES),
                "yes" if shows_loops(outcome, reveal) else "no",
            ]
        )
    for limit in (1024, 2048, 4096, *LIMITS):
        reveal = chosen(outcome, limit, tokenizer)
        print(f"max_tokens {limit:,}: {describe(reveal) if reveal else 'none fits'}")


def many(task: ProgramsTask, tokenizer: TraceTokenizer) -> None:
    programs = [case.program for case in load_cases(task)]
    reveals = [*map(RevealConfig.model_validate, FORMS)]
    totals: list[list[int]] = [[] for _ in reveals]
    pooled: list[Counter[Role]] = [Counter() for _ in reveals]
    untraced: Counter[str] = Counter()
    fits: Counter[tuple[int, int]] = Counter()
    rungs: dict[int, Counter[str]] = {limit: Counter() for limit in LIMITS}
    for outcome in trace_all(programs, task.tracer):
        if not isinstance(outcome, Trace):
            untraced[outcome.kind] += 1
            continue
        for place, reveal in enumerate(reveals):
            found = counts(outcome, reveal, tokenizer)[1]
            totals[place].append(sum(found) - found[Role.CONTEXT])
            pooled[place].update({role: found[role] for role in ROLES})
            for limit in LIMITS:
                fits[place, limit] += sum(found) <= limit and shows_loops(outcome, reveal)
        for limit in LIMITS:
            reveal = chosen(outcome, limit, tokenizer)
            rungs[limit][describe(reveal) if reveal else "none fits"] += 1
    left_out = ", ".join(f"{kind} {count}" for kind, count in untraced.items())
    print(f"{task.name}: {len(programs)} programs, {len(totals[0])} traced whole (left out: {left_out or 'none'})")
    row(
        [
            "form",
            "median",
            "longest",
            "of lines",
            "of states",
            *(f"fit {limit:,} with a state after each loop" for limit in LIMITS),
        ]
    )
    row(["---"] * (5 + len(LIMITS)))
    for place, reveal in enumerate(reveals):
        sizes = totals[place]
        shares = (f"{pooled[place][role] / sum(sizes):.0%}" for role in (Role.ACTION, Role.STATE))
        fitting = (fits[place, limit] for limit in LIMITS)
        row([describe(reveal), f"{statistics.median(sizes):,.1f}", max(sizes), *shares, *fitting])
    for limit in LIMITS:
        print(f"max_tokens {limit:,}: " + "; ".join(f"{name}: {count}" for name, count in rungs[limit].most_common()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--benchmark")
    parser.add_argument("--tokenizer", choices=("chars", "llama3"), default="chars")
    given = parser.parse_args()
    tokenizer = build_tokenizer(Llama3Settings() if given.tokenizer == "llama3" else CharacterSettings())
    if given.path.suffix == ".py":
        one(given.path, tokenizer)
    else:
        many(ProgramsTask(path=str(given.path), benchmark=given.benchmark), tokenizer)


if __name__ == "__main__":
    main()
