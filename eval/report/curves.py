"""How validation went while runs were trained: whether they had come to an end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from matplotlib.figure import Figure

from remedy.eval.tables import plotting
from remedy.eval.tables.colours import COLOURS
from remedy.eval.tables.sections import Section

NOTE = (
    "Held-out examples while training, each token after true ones: the loss of a token, and the share of examples without a wrong one. "
    "A line is one run, a colour one recipe. Losses of other tokenizers or other roles are of other tokens. A line that still falls at "
    "its end is of a training that had not come to one: what it shows is what so many steps give."
)


def curve_section(requests: Sequence[Mapping[str, Any]], variants: Mapping[str, str]) -> list[Section]:
    """Validation by step, of the runs that validated more than once; nothing without. `variants`: of every run."""
    found = {request["run"]: curve for request in requests if len(curve := _curve(request)) > 1}
    return [Section("Validation while training", draw=partial(curves, found, variants), note=NOTE)] if found else []


def curves(found: Mapping[str, Sequence[Sequence[float]]], variants: Mapping[str, str]) -> Figure:
    """Loss and exact match by step; a line for every run, in the colour of its variant."""
    figure = Figure(figsize=(9, 3.6))
    losses, matches = figure.subplots(1, 2)
    names = list(dict.fromkeys(variants[run] for run in found))
    for run, curve in found.items():
        number = names.index(variants[run])
        steps, loss, match = zip(*curve)
        style = {"color": COLOURS[number % len(COLOURS)], "label": names[number]}
        losses.plot(steps, loss, plotting.LINES[number // len(COLOURS) % len(plotting.LINES)], **style)
        matches.plot(steps, match, plotting.LINES[number // len(COLOURS) % len(plotting.LINES)], **style)
    losses.set(xlabel="step", ylabel="loss of a token", ylim=(0, None))
    matches.set(xlabel="step", ylabel="examples without a wrong token")
    plotting.rates(matches)
    plotting.legend(figure, [losses, matches])
    return figure


def _curve(request: Mapping[str, Any]) -> Sequence[Sequence[float]]:
    """Steps with their loss and exact match; none of runs that were trained elsewhere, without validation, or before it was kept."""
    curve: Sequence[Sequence[float]] = (request.get("training") or {}).get("curve", [])
    return curve
