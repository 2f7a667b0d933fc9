"""The published figures of "Debugging code world models" (arXiv 2602.07672), read again from what was published with them.

python -m benchmarks.published CLONE OUT [--cruxeval FILE] [--humaneval FILE]

CLONE: a clone of github.com/Babak70/code-world-models-blog; its outputs are data and are never run. Needs `make llama3`. The
benchmarks come from the Hugging Face hub unless their files are given; their programs run in the toolkit's sandbox. Two minutes.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from benchmarks.published import composition, counts, failures, strings
from benchmarks.published.collected import ACTS, OUTCOMES, Benchmark, Execution, collect
from benchmarks.published.tables import Table, markdown
from benchmarks.published.truths import cases_of, data_of
from remedy.eval.stats import rate
from remedy.eval.tables import plotting
from remedy.models.tokenizer import TraceTokenizer, build_tokenizer
from remedy.models.tokenizer_backends import TOKENIZERS

SHORT = dict(
    zip(
        OUTCOMES,
        (
            *("right, of another call that was asked for", "right, spelled otherwise", "trace right, answer missing"),
            *("trace right, answer copied wrongly", "no output", "right until cut", "then cut", "", "not judged"),
        ),
    )
)
"""What the figure calls an outcome; of those with a wrong frame, what follows the kind of the first wrong thing."""
SHADES = {
    **dict(zip(list(SHORT.values())[:6], ("#009E73", "#44AA99", "#56B4E9", "#0072B2", "#999999", "#E69F00"))),
    "wrong action, then cut": "#CC79A7",
    "wrong action": "#332288",
    "wrong value, then cut": "#661100",
    "wrong value": "#D55E00",
    "not judged": "#DDDDDD",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clone", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--cruxeval")
    parser.add_argument("--humaneval")
    given = parser.parse_args()
    tokenizer = build_tokenizer(TOKENIZERS["llama3"].model_validate({"kind": "llama3"}))
    paths = {"cruxeval": given.cruxeval, "humaneval": given.humaneval}
    benchmarks = [collect(given.clone, name, path, tokenizer) for name, path in paths.items()]
    cuts = {
        name: strings.cut_uses(list(cases_of(data_of(name, path)).values()), tokenizer) for name, path in paths.items()
    }
    found = [*of_failures(benchmarks), *of_strings(benchmarks, cuts), *of_counts(benchmarks)]
    *grown, growth = composition.own_traces(tokenizer)
    lines = composition.lines(*grown)
    found += [growth, composition.expected(lines), composition.selection(), s5_tokens(tokenizer)]
    given.out.mkdir(parents=True, exist_ok=True)
    text = "# Tables\n\nWritten by `python -m benchmarks.published`.\n\n" + "\n".join(map(markdown, found))
    (given.out / "tables.md").write_text(text, encoding="utf-8")
    draw(benchmarks, lines, given.out)


def of_failures(benchmarks: Sequence[Benchmark]) -> list[Table]:
    made = (failures.bookkeeping, failures.whose, failures.accuracies, failures.budget, failures.truncated)
    return [make(benchmarks) for make in (*made, failures.roles, failures.actions, failures.clusters)]


def of_strings(benchmarks: Sequence[Benchmark], cuts: dict[str, dict[str, list[bool]]]) -> list[Table]:
    rates = [strings.base_rates(benchmarks, new) for new in (False, True)]
    return [*rates, strings.within_strata(benchmarks), strings.executions_within_strata(benchmarks, cuts)]


def of_counts(benchmarks: Sequence[Benchmark]) -> list[Table]:
    found = [counts.recovered(one.report.failed, one.name) for one in benchmarks]
    found.append(counts.losses(benchmarks[0]))
    return [*found, counts.s5(), counts.one_step(), counts.sizes()]


def s5_tokens(tokenizer: TraceTokenizer) -> Table:
    """Tokens of S_5 programs and of their true traces."""
    rows = [[number, *counts.s5_tokens(number, tokenizer)] for number in counts.COMMANDS]
    return Table("S_5, tokens", ["commands", "program", "true trace", "together"], rows)


def stacked_shares(counts: Mapping[str, Mapping[str, int]], colours: Mapping[str, str], what: str) -> Figure:
    """One horizontal bar for every name in `counts`, of the shares of its parts, in the order of `colours`."""
    names = list(counts)
    figure = Figure(figsize=(plotting.WIDTH, 0.36 * len(names) + 1.2))
    axis = figure.subplots()
    left = [0.0] * len(names)
    for part, colour in colours.items():
        shares = [counts[name].get(part, 0) / max(1, sum(counts[name].values())) for name in names]
        if any(shares):
            axis.barh(names, shares, left=left, height=0.75, color=colour, label=part)
            left = [start + share for start, share in zip(left, shares)]
    axis.set(xlabel=what, xlim=(0, 1), ylim=(len(names) - 0.5, -0.5))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:.0%}"))
    axis.grid(axis="y", visible=False)
    plotting.legend(figure, [axis])
    return figure


def draw(benchmarks: Sequence[Benchmark], lines: composition.Lines, out: Path) -> None:
    """Both figures."""
    bars = {
        f"{one.name} ({len(one.failed)})": Counter(_became(execution) for _, execution in one.failed)
        for one in benchmarks
    }
    _save(stacked_shares(bars, SHADES, "of the published failures"), out, "failures")
    figure = Figure(figsize=(7.5, 4.6))
    panel = figure.subplots()
    observed = {d: rate([True] * r + [False] * (composition.OF - r))[:3] for d, r in composition.NESTED.items()}
    shown = {"observed, nested": observed, **lines}
    for number, (name, points) in enumerate(shown.items()):
        plotting.line(panel, points, name, number, "-" if not number else "--", band=number > 0)
    plotting.rates(panel)
    plotting.numbers(panel, list(observed))
    panel.set(xlabel="depth", ylabel="right answers")
    plotting.legend(figure, [panel])
    _save(figure, out, "composition")


def _became(execution: Execution) -> str:
    """Name the outcome of a failed execution as the figure does."""
    short = SHORT[execution.outcome]
    if not execution.erred or execution.judged is None:
        return short
    kind = "wrong action" if execution.judged.role in {role.label for role in ACTS} else "wrong value"
    return f"{kind}, {short}" if short else kind


def _save(figure: Figure, out: Path, name: str) -> None:
    figure.savefig(out / f"{name}.png", bbox_inches="tight", dpi=150)


if __name__ == "__main__":
    main()
