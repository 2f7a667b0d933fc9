"""Statistics of right-or-wrong outcomes: rates, differences and verdicts."""

from remedy.eval.stats.differences import Difference, compare
from remedy.eval.stats.exact import boschloo, clopper_pearson, power_of_solved
from remedy.eval.stats.rates import Estimate, compound, mean, pooled, rate
from remedy.eval.stats.seeds import BAR, RecipeRate, over_seeds
from remedy.eval.stats.words import (
    MARGIN,
    Evidence,
    Question,
    VerdictWord,
    compute_evidence,
    levels,
    word,
    word_of_runs,
)

__all__ = [
    "BAR",
    "MARGIN",
    "Difference",
    "Estimate",
    "Evidence",
    "Question",
    "RecipeRate",
    "VerdictWord",
    "boschloo",
    "clopper_pearson",
    "compare",
    "compound",
    "compute_evidence",
    "levels",
    "mean",
    "over_seeds",
    "pooled",
    "power_of_solved",
    "rate",
    "word",
    "word_of_runs",
]
