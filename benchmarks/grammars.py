"""How large the grammars of programs' traces are, how long they take, and whether true traces are in them: the table of RESULTS.md.

python benchmarks/grammars.py CRUXEVAL HUMANEVAL HUMANEVAL_CASES [VOCABULARY]     JSONL files, as in tests/conftest.py

It needs llguidance and the Llama-3 vocabulary (`make llama3`, or its file).
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import llguidance
from llguidance._tokenizer import TokenizerWrapper

from remedy.data_gen.control_flow import ControlFlow, ControlFlowError
from remedy.data_gen.execution.program import Program, ProgramError, Trace
from remedy.data_gen.execution.tracer import TraceLimits, trace
from remedy.data_gen.roles import Role
from remedy.data_gen.traces.render import render
from remedy.data_gen.traces.reveal import RevealConfig
from remedy.eval.control_flow import TraceGrammar
from remedy.eval.grammar import LarkGrammar
from remedy.models.tokenizer import TraceTokenizer, build_tokenizer
from remedy.models.tokenizer_backends.llama3 import Llama3Settings

MOST = 2_000
"""Frames of a trace that is looked at."""
MASKED = 3_000
"""Tokens of a trace at which masks are timed."""


class Vocabulary:
    """The tokens of a tokenizer as llguidance takes them."""

    bos_token_id = None

    def __init__(self, tokenizer: TraceTokenizer) -> None:
        self.eos_token_id = tokenizer.eos_id
        self.special_token_ids = list(tokenizer.special_ids.values())
        self.tokens = [b"\xff<|%d|>" % token for token in range(tokenizer.vocab_size)]

    def __call__(self, text: bytes) -> list[int]:
        raise NotImplementedError("traces are given as token ids: nothing is tokenised here")


def timed(work: Callable[[], Any], times: list[float]) -> Any:
    begin = time.perf_counter()
    found = work()
    times.append(time.perf_counter() - begin)
    return found


def traced(program: Program) -> Trace | None:
    try:
        found = trace(program, TraceLimits(MOST + 1))
    except ProgramError:
        return None
    return found if len(found.frames) <= MOST and not found.raised else None


def row(name: str, programs: Iterable[Program], tokenizer: TraceTokenizer, known: Any) -> str:
    export, compiled, masks, rules, sizes = ([] for _ in range(5))  # type: list[list[float]]
    traces = accepted = refused = 0
    for program in programs:
        found = traced(program)
        if found is None:
            continue
        traces += 1
        place = TraceGrammar(ControlFlow(program), tokenizer).start("caught")
        try:
            text = timed(lambda place=place: LarkGrammar(place.grammar).after(place), export)
        except ControlFlowError:
            refused += 1
            continue
        matcher = timed(
            lambda text=text: llguidance.LLMatcher(known, llguidance.grammar_from("grammar", text)), compiled
        )
        rules.append(text.count("\n"))
        sizes.append(len(text))
        encoded = tokenizer.encode(render(found, "cwm", RevealConfig(locals="diff")).spans)
        ids = [token for token, role in zip(encoded.ids, encoded.roles) if role != Role.CONTEXT]
        for token in ids[:MASKED]:
            timed(matcher.compute_bitmask, masks)
            if not matcher.consume_token(token):
                break
        else:
            accepted += matcher.consume_tokens(ids[MASKED:]) and matcher.is_stopped()
    return (
        f"| {name} | {accepted} of {traces} | {refused} | {middle(rules):.0f}, {max(rules):.0f} | {middle(sizes) / 1e3:.1f} | "
        f"{1e3 * middle(export):.1f}, {1e3 * max(export):.0f} | {1e3 * middle(compiled):.1f}, {1e3 * max(compiled):.0f} | "
        f"{1e6 * middle(masks):.0f}, {1e6 * sorted(masks)[len(masks) * 99 // 100]:.0f} |"
    )


def middle(values: Sequence[float]) -> float:
    return statistics.median(values)


def read(path: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def main(cruxeval: str, humaneval: str, cases: str, vocabulary: str | None = None) -> None:
    tokenizer = build_tokenizer(Llama3Settings(path=vocabulary))
    known = llguidance.LLTokenizer(TokenizerWrapper(Vocabulary(tokenizer)))
    print("| programs | true traces accepted | refused | rules | kB | export, ms | compile, ms | mask, us |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    functions = [Program.from_call(one["code"], one["input"], one["id"]) for one in read(cruxeval)]
    print(row("CruxEval", functions, tokenizer, known), flush=True)
    problems = {one["task_id"]: one["prompt"] + one["canonical_solution"] for one in read(humaneval)}
    calls = [
        Program.from_call(problems[one["task_id"]], one["input"], one["id"], one["entry_point"]) for one in read(cases)
    ]
    print(row("HumanEval", calls, tokenizer, known), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
