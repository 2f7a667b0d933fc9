"""The runs of a report: the model and training of each recipe, validation while training, and trials of settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from remedy.data_gen.context_window import Memory
from remedy.eval.report.fairness import LEARNING_RATE, quantised, said, served, state
from remedy.eval.report.notes import NOTES
from remedy.eval.report.planned import Missing, SelectionRecord
from remedy.eval.report.reading import Evaluations, variants_of
from remedy.eval.tables.sections import RUNS, Rows, Section

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def run_sections(found: Evaluations, trials: Sequence[SelectionRecord], missing: Sequence[Missing]) -> list[Section]:
    """The sections on runs. `missing`: the runs, and conditions of runs, that are not there."""
    sections = []
    if found.requests:
        rows, shared = runs_table(found.requests)
        trained = any(request.get("training") for request in found.requests)
        note = " ".join(filter(None, [shared, NOTES["recipes"] if trained else ""]))
        sections.append(Section("Recipes", rows=rows, note=note))
    if missing:
        slugs = [[one.run, slug.replace("__", ", ")] for one in missing for slug in one.conditions or ("all",)]
        sections.append(Section("Missing", rows=[["Run", "Condition"], *slugs], note=NOTES["missing"]))
    curves = {one["run"]: curve for one in found.requests if len(curve := _curve(one)) > 1}
    if curves:
        draw = partial(curves_figure, curves, variants_of(found.requests))
        sections.append(Section("Validation while training", draw=draw, note=NOTES["curves"]))
    for record in trials:
        of = f": {record['group']}" if len(trials) > 1 else ""
        sections.append(Section(f"Settings tried{of}", rows=trials_table(record), note=NOTES["trials"]))
    return [section._replace(group=RUNS) for section in sections]


def runs_table(requests: Sequence[Mapping[str, Any]]) -> tuple[Rows, str]:
    """A row for every recipe with a column for everything that runs differ in, and a sentence on what all share."""
    recipes: dict[str, list[dict[str, Any]]] = {}
    for request in requests:
        recipes.setdefault(request.get("variant") or request["run"], []).append(_about(request))
    heads = list(dict.fromkeys(head for runs in recipes.values() for run in runs for head in run))
    cells = {head: [_together([run.get(head, "") for run in runs]) for runs in recipes.values()] for head in heads}
    shared = {head: mine[0] for head, mine in cells.items() if len(recipes) > 1 and len({*mine}) == 1}
    shown = [head for head in heads if head not in shared and any(cells[head])]
    rows = [[name, *(cells[head][at] for head in shown)] for at, name in enumerate(recipes)]
    note = "; ".join(f"{head.lower()} {value}" for head, value in shared.items() if value)
    return [["Recipe", *shown], *rows], f"All recipes: {note}." if note else ""


def _about(request: Mapping[str, Any]) -> dict[str, Any]:
    """A run's model, data and training by the heads of columns: numbers as they are, and texts."""
    about: Mapping[str, Any] = request["checkpoint"]
    training: Mapping[str, Any] = request.get("training") or {}
    mixers = " + ".join(f"{mixer} ({values})" if values else mixer for mixer, values in about["mixers"].items())
    decoder = (f"{name} {said(value)}" for name, value in about.get("decoder", {}).items())
    data, memory = request["data"], request["data"].get("memory")
    found = {
        "Model": mixers or about["model_type"],
        "Layers": about["num_hidden_layers"],
        "Width": about["hidden_size"],
        "Parameters": about["parameters"],
        "State": state(about),
        "Otherwise": "; ".join(filter(None, [*decoder, quantised(request), served(request.get("backend"))])),
        "Tokenizer": phrase(about["tokenizer"]),
        "Data": phrase(data["task"]),
        "Reveals": phrase({"kind": "", **data["reveal"]}) if "reveal" in data else "",
        "Memory": str(Memory.model_validate(memory)) if memory is not None else "",
    }
    if not training:
        return found
    if not training["steps"]:
        return {**found, "Steps": "0, not trained", "Seed": training["seed"]}
    computed: Mapping[str, str] = (training.get("computed") or {}).get("mixers", {})
    kernels = [f"{mixer}: {how}" for mixer, how in computed.items() if " by " in how and "no CUDA device" not in how]
    kept = f"of step {training['kept_step']:,}" if training["kept_step"] != training["steps"] else ""
    chosen = " (chosen)" if LEARNING_RATE in training["chosen"] else ""
    return {
        **found,
        "Steps": training["steps"],
        "Examples": training["examples"],
        "Tokens": training["tokens"],
        "FLOPs": f"{training['flops']:.2g}",
        "Learning rate": f"{training['learning_rate']:g}{chosen}",
        "Stages": _stages(training.get("curriculum", ())),
        "Best kept": ", ".join(filter(None, [kept, "stopped early" if training["stopped_early"] else ""])),
        "Kernels": "; ".join(kernels),
        "Seed": training["seed"],
        "Data seed": training["data_seed"] if training["data_seed"] != training["seed"] else "",
    }


def _together(values: Sequence[Any]) -> str:
    """Values of several runs in one cell: each once, and of many numbers the least and the largest."""
    different = list(dict.fromkeys(value for value in values if value != ""))
    if len(different) > 4 and all(isinstance(value, int) for value in different):
        return f"{min(different):,} to {max(different):,}"
    return ", ".join(f"{value:,}" if isinstance(value, int) else str(value) for value in different)


def _stages(curriculum: Sequence[Mapping[str, Any]]) -> str:
    """The stages of a curriculum: `200 steps of spacing 1; then 450 steps of spacing 4`."""
    found = []
    for stage in curriculum:
        changes = ", ".join(f"{key.rpartition('.')[2]} {said(value)}" for key, value in stage.get("set", {}).items())
        found.append(f"{stage['steps']:,} steps" + (f" of {changes}" if changes else ""))
    return "; then ".join(found)


def phrase(settings: Mapping[str, Any]) -> str:
    """Settings that have a kind, in words: `bpe: vocab_size 400`. Those that are empty are not said."""
    words = []
    for key, value in settings.items():
        if isinstance(value, list):
            ends = len(value) == 2 and all(isinstance(one, int) for one in value)
            value = (" to " if ends else ", ").join(map(str, value))
        if key != "kind" and value not in ("", None, False) and not isinstance(value, dict):
            words.append(key if value is True else f"{key} {value}")
    return ": ".join(filter(None, [str(settings["kind"]), "; ".join(words)]))


def _curve(request: Mapping[str, Any]) -> Sequence[Sequence[float]]:
    curve: Sequence[Sequence[float]] = (request.get("training") or {}).get("curve", [])
    return curve


def losses(requests: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The validation loss of every run that has kept one, at the step whose weights were kept."""
    found = {}
    for request in requests:
        by_step = {step: loss for step, loss, *_ in _curve(request)}
        if by_step:
            last = list(by_step.values())[-1]
            found[request["run"]] = by_step.get(request["training"].get("kept_step"), last)
    return found


def curves_figure(found: Mapping[str, Sequence[Sequence[float]]], variants: Mapping[str, str]) -> Figure:
    """Loss and exact match by step; a line for every run, in the colour of its recipe."""
    from remedy.eval.tables import plotting

    figure, panels = plotting.panels(2, shared=False)
    names = list(dict.fromkeys(variants[run] for run in found))
    for run, curve in found.items():
        number = names.index(variants[run])
        steps, *values = zip(*curve)
        for panel, ys in zip(panels, values):
            panel.plot(steps, ys, color=plotting.colour(number), label=names[number])
    panels[0].set(xlabel="training step", ylabel="validation loss of a token", ylim=(0, None))
    panels[1].set(xlabel="training step", ylabel="validation examples without an error")
    plotting.rates(panels[1])
    plotting.legend(figure, panels)
    return figure


def trials_table(record: SelectionRecord) -> Rows:
    """A row for every setting that a recipe tried."""
    metric, count = {"loss": "Loss", "exact_match": "Exact match"}[record["metric"]], len(record["seeds"])

    def shown(value: float | None) -> str:
        if value is None:
            return "no finite loss"
        return f"{value:.1%}" if record["metric"] == "exact_match" else f"{value:.4g}"

    rows = [["Recipe", "Tried", f"{metric} on validation ({count} seed{'s' if count > 1 else ''})", "Chosen"]]
    for variant, tried in record["variants"].items():
        for one in tried:
            values = [
                f"{key.removeprefix('train.')} {value:g}" if isinstance(value, float) else f"{key} {value}"
                for key, value in one["values"].items()
            ]
            figures = ", ".join(map(shown, one["figures"]))
            figures = figures if len(one["figures"]) == 1 else f"{shown(one['mean'])} ({figures})"
            rows.append([variant, ", ".join(values), figures, "chosen" if one["chosen"] else ""])
    return rows
