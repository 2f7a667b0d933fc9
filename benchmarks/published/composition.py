"""Nested string functions: what single calls let one expect once luck in choosing them is taken out, and once traces are long."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import optimize

from benchmarks.published.tables import Table, per_cent
from benchmarks.published.truths import LIMIT, shown_in, written_tokens
from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import examples
from remedy.eval.diagnostics.composition_null import posterior
from remedy.eval.stats import rate
from remedy.models.tokenizer import TraceTokenizer
from remedy.settings import build

Lines = dict[str, dict[int, tuple[float, float, float]]]
"""By name and depth, an estimate and the ends of its interval."""
Floats = npt.NDArray[np.float64]
TRIED = 10
"""Programs of one function: every published rate is a multiple of 10 %; nothing says how many there were."""
ATOMIC = {
    **dict.fromkeys(("reverse_words", "add_suffix", "compress_repeats", "alternate_case", "insert_separator"), 10),
    **dict.fromkeys(("loop_concat", "while_rotate", "loop_filter_nonalpha"), 10),
    **dict.fromkeys(("add_prefix", "rotate_str", "vowel_to_number", "remove_vowels", "shift_chars"), 9),
    **dict.fromkeys(("backchain_add_digit", "repeat_str"), 9),
    **dict.fromkeys(("interlace_str", "verify_even_length"), 8),
    **dict.fromkeys(("sort_chars", "duplicate_every_char"), 7),
    "fancy_brackets": 5,
    "mirror_str": 4,
    "backchain_palindrome": 1,
    **dict.fromkeys(("deterministic_shuffle", "recursive_reverse", "recursive_interlace"), 0),
}
"""Right answers of TRIED by function, from the bars of `assets/images/atomic_all25_accuracy_report.png`."""
NESTED = {1: 90, 2: 75, 3: 58, 4: 39, 5: 25}
"""Right answers of 100 by depth: the post's Table 1; depth 1 from the bar of `composition_accuracy_with_flattening.png`."""
FLATTENED = {2: 78, 3: 63, 4: 43, 5: 28}
OF = 100
PROGRAMS = 100
"""Programs of the toolkit's own that are traced at each depth."""


def chosen() -> list[str]:
    """The functions that were composed: those with at least 90 % alone."""
    return [name for name, right in ATOMIC.items() if right >= 9]


def after_selection(tried: int = TRIED) -> Floats:
    """Draws of the mean accuracy of the chosen functions, (draws,), from their posterior given all functions."""
    right = np.array(list(ATOMIC.values()), dtype=float) * tried / TRIED
    drawn = posterior(right, np.full(len(right), float(tried)))
    places = [place for place, name in enumerate(ATOMIC) if name in chosen()]
    found: Floats = drawn[:, places].mean(axis=1)
    return found


def lines(traces: dict[int, Floats], worked: dict[int, Floats]) -> Lines:
    """Predict each depth from single calls, in five ways. `traces`: tokens of the toolkit's own programs; `worked`: characters of
    the values that have to be worked out in them."""
    atomic = float(np.mean([ATOMIC[name] / TRIED for name in chosen()]))
    drawn = after_selection()
    alone = rate([True] * NESTED[1] + [False] * (OF - NESTED[1]))
    names = ("published line", "after selection", "depth 1 itself", "one hazard a token", "one hazard a character")
    found: Lines = {name: {} for name in names}
    for name, exposed in zip(names[3:], (traces, worked)):
        hazards = [hazard_of_depth_one(exposed[1], share) for share in alone[:3]]
        for depth in NESTED:
            centre, low, high = (float(np.exp(-hazard * exposed[depth]).mean()) for hazard in hazards)
            found[name][depth] = (centre, low, high)
    for depth in NESTED:
        line = drawn**depth
        low, high = map(float, np.quantile(line, [0.025, 0.975]))
        found["published line"][depth] = (atomic**depth,) * 3
        found["after selection"][depth] = (float(line.mean()), low, high)
        found["depth 1 itself"][depth] = (alone.mean**depth, alone.low**depth, alone.high**depth)
    return found


def expected(found: Lines) -> Table:
    """By depth: what was published beside these lines."""
    rows = []
    for depth, right in NESTED.items():
        observed = rate([True] * right + [False] * (OF - right))
        flat = f"{FLATTENED[depth]} %" if depth in FLATTENED else ""
        rows.append([depth, per_cent(observed, 0), flat, *(per_cent(line[depth], 0) for line in found.values())])
    return Table("Composition", ["depth", "nested", "flattened", *found], rows)


def hazard_of_depth_one(exposed: Floats, share: float) -> float:
    """The hazard of a token (or character) with which programs of so many are right in this share."""
    return float(optimize.brentq(lambda hazard: float(np.exp(-hazard * exposed).mean()) - share, 0, 1))


def own_traces(tokenizer: TraceTokenizer) -> tuple[dict[int, Floats], dict[int, Floats], Table]:
    """Tokens, and characters of new values, of the toolkit's own programs by depth, from the chosen functions; and how they grow."""
    found: dict[int, Floats] = {}
    worked: dict[int, Floats] = {}
    rows = []
    for depth in NESTED:
        task = {"kind": "composition", "functions": chosen(), "depth": depth}
        data = build(DataConfig, {"task": task, "format": "cwm", "reveal": {"locals": "diff"}}, "composition")
        made = examples(data, "all", range(PROGRAMS))
        tokens = np.array([sum(written_tokens(one, tokenizer)) for one in made], dtype=float)
        values = [shown_in(one, tokenizer) for one in made]
        longest = [max(len(v.value.text) for v in one) for one in values]
        found[depth] = tokens
        worked[depth] = np.array([sum(len(v.value.text) for v in one if v.new) for one in values], dtype=float)
        frames = np.median([len(one.frames) for one in made])
        rows.append(
            [depth, f"{np.median(tokens):,.0f}", f"{np.quantile(tokens, 0.9):,.0f}", f"{frames:.0f}"]
            + [
                f"{np.median(longest):.0f}",
                f"{np.median(worked[depth]):.0f}",
                f"{(tokens > LIMIT).sum()} of {PROGRAMS}",
            ]
        )
    header = [
        "depth",
        "tokens, median",
        "90 %",
        "frames, median",
        "longest value, characters",
        "of new values",
        f"over {LIMIT:,}",
    ]
    return found, worked, Table("The toolkit's own programs of the chosen functions", header, rows)


def selection(depths: Sequence[int] = (1, 5)) -> Table:
    """Measure the effect of selection on the same programs, for as many programs of a function as there may have been."""
    rows = []
    for tried in (10, 20, 50):
        drawn = after_selection(tried)
        cells = []
        for depth in depths:
            line = drawn**depth
            cells.append(per_cent([float(line.mean()), *np.quantile(line, [0.025, 0.975])]))
        rows.append([tried, *cells])
    return Table(
        "The chosen functions after selection", ["programs of a function", *(f"depth {d}" for d in depths)], rows
    )
