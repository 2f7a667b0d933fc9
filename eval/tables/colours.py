"""Colours of roles, runs and verdicts in figures, terminals and pages."""

from __future__ import annotations

from remedy.eval.stats import VerdictWord

# Okabe & Ito's colours, told apart with any colour vision; then Tol's muted ones, for experiments of more recipes.
COLOURS = [
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F", "#000000"),
    *("#882255", "#999933", "#332288", "#44AA99", "#661100", "#AA4499", "#117733", "#DDCC77"),
]
ROLE_COLOURS = {
    "none": "#DDDDDD",
    "context": "#666666",
    "structure": "#CC79A7",
    "event": "#56B4E9",
    "action": "#D55E00",
    "query": "#E69F00",
    "state": "#0072B2",
    "value": "#009E73",
}
"""Colours by role; `none`: no error. Greys: not learnt."""


WORD_COLOURS = {
    VerdictWord.FIXED: "#00664a",
    VerdictWord.HELPED: "#1a7f37",
    VerdictWord.AS_GOOD: "#0b5cad",
    VerdictWord.WORSE: "#b3261e",
    VerdictWord.INCONCLUSIVE: "#6b5900",
}
"""Colours of verdicts, dark enough for text on white."""


def mixed(colour: str, other: str, share: float) -> str:
    """Mix two colours `#rrggbb`, `share` of the first."""
    pairs = [(int(colour[i : i + 2], 16), int(other[i : i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(share * a + (1 - share) * b):02x}" for a, b in pairs)
