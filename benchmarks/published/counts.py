"""Evidence of counts alone: the interventions, the S_5 diagnostic, teacher forcing. Each count has its source beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import optimize, stats

from benchmarks.published.collected import Benchmark
from benchmarks.published.reports import Failed
from benchmarks.published.tables import Table, per_cent
from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import examples
from remedy.data_gen.roles import Role
from remedy.eval.stats import clopper_pearson, compare
from remedy.eval.stats.clusters import quantile
from remedy.models.tokenizer import TraceTokenizer
from remedy.settings import build

COMMANDS = (8, 16, 32, 64, 128)
TRIED = 10
"""Programs of a cell. Nothing says so: every published rate is a multiple of 10 %, so it is 10 or a multiple of it."""
S5 = {"GPT-5": (10, 10, 8, 7, 1), "CWM": (10, 8, 4, 0, 0), "CWM + TF": (10, 10, 10, 9, 9)}
"""Right answers of TRIED, from the bars of `assets/images/gpt5_cwm_comparison_bar-1.png`."""
LEVEL = 0.05


def recovered(failed: Sequence[Failed], name: str) -> Table:
    """Recoveries by whether the report shows another program than before."""
    rows = []
    for label, group in {
        "another program is shown": [one for one in failed if not one.unchanged],
        "the same program, an output": [one for one in failed if one.unchanged and one.output],
        "the same program, no output": [one for one in failed if one.unchanged and not one.output],
    }.items():
        if group:
            won = sum(bool(one.recovered) for one in group)
            rows.append([label, len(group), won, per_cent([won / len(group), *clopper_pearson(won, len(group))])])
    won = sum(bool(one.recovered) for one in failed)
    rows.append(["all", len(failed), won, per_cent([won / len(failed), *clopper_pearson(won, len(failed))])])
    return Table(f"Recovered, {name}", ["the report", "failures", "recovered", "share"], rows)


def losses(benchmark: Benchmark) -> Table:
    """Count the executions, of those that were right and not run again, that could be lost before the gain is no evidence."""
    gained = np.array([bool(one.failed and one.failed.recovered) for one in benchmark.executions])
    right = np.array([one.failed is None for one in benchmark.executions], dtype=float)
    clusters = [one.truth.cluster for one in benchmark.executions]
    places = np.flatnonzero(right)
    random = np.random.default_rng(0).permutation(places)
    rows = []
    for lost in (0, 5, 10, 20, 25, 30, 35, 42):
        after = right + gained
        after[random[:lost]] = 0.0
        found = compare(right, after, clusters)
        exact = stats.binomtest(int(gained.sum()), int(gained.sum()) + lost).pvalue
        difference = per_cent([found.difference, *found.interval()])
        rows.append([lost, f"{lost / len(places):.1%}", difference, f"{found.p_of_runs:.3f}", f"{exact:.3f}"])
    header = ["lost of the right ones", "share", "gain", "p", "exact McNemar p"]
    return Table(f"Losses that nobody looked for, {benchmark.name}", header, rows)


def s5() -> Table:
    """Every cell with its exact interval, and CWM against the other two."""
    rows = []
    for name, counts in S5.items():
        cells = [per_cent([count / TRIED, *clopper_pearson(count, TRIED)], 0) for count in counts]
        rows.append([name, *cells])
    for other in ("GPT-5", "CWM + TF"):
        found = [_fisher(S5["CWM"][place], S5[other][place]) for place in range(len(COMMANDS))]
        rows.append([f"p, CWM against {other}", *(f"{p:.4f}" if p < 0.001 else f"{p:.3f}" for p in found)])
    return Table("S_5, right answers of ten", ["", *(f"N = {count}" for count in COMMANDS)], rows)


def _fisher(first: int, second: int) -> float:
    """Two-sided p of Fisher's exact test: programs of the two sides are not known to be the same."""
    return float(stats.fisher_exact([[first, TRIED - first], [second, TRIED - second]])[1])


def one_step() -> Table:
    """The hazard of one command that the rates amount to, by what was fed, and the rate at 128 commands that it would give."""
    rows = []
    for name, counts, steps in (
        ("teacher forcing, true states injected: an answer is one step", S5["CWM + TF"], (1,) * 5),
        ("teacher forcing, own states: an answer is N steps", S5["CWM + TF"], COMMANDS),
        ("free, commands and states its own", S5["CWM"], COMMANDS),
    ):
        hazard = hazard_of(counts, steps)
        cells = [per_cent([(1 - one) ** 128 for one in (hazard[0], hazard[2], hazard[1])], 1)]
        rows.append([name, per_cent(hazard, 3), *cells])
    header = ["reading", "wrong per command", "of programs of 128 commands, own states, right"]
    return Table("What a command costs", header, rows)


def hazard_of(right: Sequence[int], steps: Sequence[int], tried: int = TRIED) -> tuple[float, float, float]:
    """The constant hazard of a step, h, if an answer after n steps is right with probability (1 - h)^n: the most likely one, with the
    95 % interval of the likelihood ratio."""

    def loss(logit: float) -> float:
        keep = 1 / (1 + math.exp(logit))
        total = 0.0
        for count, number in zip(right, steps):
            share = keep**number
            total -= count * math.log(max(share, 1e-300)) + (tried - count) * math.log(max(1 - share, 1e-300))
        return total

    best = optimize.minimize_scalar(loss, bounds=(-20, 3), method="bounded")
    room = quantile(LEVEL, math.inf) ** 2 / 2

    def beyond(logit: float) -> float:
        return loss(logit) - float(best.fun) - room

    low = optimize.brentq(beyond, -25, best.x) if beyond(-25) > 0 else -math.inf
    high = optimize.brentq(beyond, best.x, 10)
    return tuple(1 / (1 + math.exp(-end)) if math.isfinite(end) else 0.0 for end in (best.x, low, high))  # type: ignore[return-value]


def size_to_decide(low: float = 0.9, high: float = 0.99, power: float = 0.8) -> int:
    """The smallest number of programs of which the exact two-sided 95 % interval leaves out `low` with probability `power`, if the
    rate is `high`."""
    for size in range(10, 2000):
        counts = np.arange(size + 1)
        excludes = np.array([clopper_pearson(int(count), size)[0] > low for count in counts])
        if stats.binom.pmf(counts[excludes], size, high).sum() >= power:
            return size
    raise ValueError("more than 2,000 programs")


def sizes() -> Table:
    """Compute the number of programs that would decide."""
    rows = [[f"{low:.0%} against {high:.0%}", size_to_decide(low, high)] for low, high in ((0.9, 0.99), (0.9, 0.95))]
    return Table("Programs that would tell two rates apart with a power of 80 %", ["rates", "programs"], rows)


def s5_tokens(commands: int, tokenizer: TraceTokenizer) -> list[str]:
    """Tokens of the program, of the true trace that a model writes, and of both, for so many full permutations of five variables:
    medians of ten programs."""
    task = {"kind": "permutation", "n": 5, "moves": "full", "length": commands, "answer": "print"}
    data = build(DataConfig, {"task": task, "format": "cwm_unseeded", "reveal": {"locals": "diff"}}, "S_5")
    made = [tokenizer.count_by_role(one.spans) for one in examples(data, "all", range(TRIED))]
    program = np.median([one[Role.CONTEXT] for one in made])
    trace = np.median([sum(one) - one[Role.CONTEXT] for one in made])
    return [f"{program:,.0f}", f"{trace:,.0f}", f"{program + trace:,.0f}"]
