"""Report sections on runs: models, training, validation, trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from remedy.data_gen.memory import Memory
from remedy.eval.report.fairness import LEARNING_RATE, quantisation_text, server_text, state_size
from remedy.eval.report.notes import NOTES
from remedy.eval.report.planned import MissingRun, SelectionRecord
from remedy.eval.report.reading import Evaluations, variants_of
from remedy.eval.tables.sections import RUNS, Rows, Section, joined, text
from remedy.messages import plural

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def run_sections(
    evaluations: Evaluations, trials: Sequence[SelectionRecord], missing: Sequence[MissingRun]
) -> list[Section]:
    sections = []
    training = {request["run"]: request.get("training") or {} for request in evaluations.requests}
    if evaluations.requests:
        rows, shared = runs_table(evaluations.requests)
        note = joined(" ", shared, NOTES["recipes"] if any(training.values()) else "")
        sections.append(Section("Recipes", rows=rows, note=note))
    if missing:
        slugs = [[run.run, slug.replace("__", ", ")] for run in missing for slug in run.conditions or ("all",)]
        sections.append(Section("Missing", rows=[["Run", "Condition"], *slugs], note=NOTES["missing"]))
    if curves := {run: curve for run, account in training.items() if len(curve := account.get("curve", ())) > 1}:
        draw = partial(curves_figure, curves, variants_of(evaluations.requests))
        sections.append(Section("Validation while training", draw=draw, note=NOTES["curves"]))
    for record in trials:
        suffix = f": {record['group']}" if len(trials) > 1 else ""
        sections.append(Section(f"Settings tried{suffix}", rows=trials_table(record), note=NOTES["trials"]))
    return [section._replace(group=RUNS) for section in sections]


def runs_table(requests: Sequence[Mapping[str, Any]]) -> tuple[Rows, str]:
    """Tabulate recipes; return also a sentence on what all share."""
    recipes: dict[str, list[dict[str, Any]]] = {}
    for request in requests:
        recipes.setdefault(request.get("variant") or request["run"], []).append(_columns_of(request))
    heads = list(dict.fromkeys(head for runs in recipes.values() for run in runs for head in run))
    cells = {head: [_together([run.get(head, "") for run in runs]) for runs in recipes.values()] for head in heads}
    shared = {head: column[0] for head, column in cells.items() if len(recipes) > 1 and len({*column}) == 1}
    differing = [head for head in heads if head not in shared and any(cells[head])]
    rows = [[name, *(cells[head][number] for head in differing)] for number, name in enumerate(recipes)]
    note = "; ".join(f"{head.lower()} {value}" for head, value in shared.items() if value)
    return [["Recipe", *differing], *rows], f"All recipes: {note}." if note else ""


def _columns_of(request: Mapping[str, Any]) -> dict[str, Any]:
    checkpoint: Mapping[str, Any] = request["checkpoint"]
    training: Mapping[str, Any] = request.get("training") or {}
    mixers = " + ".join(f"{mixer} ({values})" if values else mixer for mixer, values in checkpoint["mixers"].items())
    decoder = (f"{name} {text(value)}" for name, value in checkpoint.get("decoder", {}).items())
    data, memory = request["data"], request["data"].get("memory")
    columns = {
        "Model": mixers or checkpoint["model_type"],
        "Layers": checkpoint["num_hidden_layers"],
        "Width": checkpoint["hidden_size"],
        "Parameters": checkpoint["parameters"],
        "State": state_size(checkpoint),
        "Otherwise": joined("; ", *decoder, quantisation_text(request), server_text(request.get("backend"))),
        "Tokenizer": phrase(checkpoint["tokenizer"]),
        "Data": phrase(data["task"]),
        "Reveals": phrase({"kind": "", **_telling(data["reveal"])}) if "reveal" in data else "",
        "Memory": str(Memory.model_validate(memory)) if memory is not None else "",
    }
    if not training:
        return columns
    if not training["steps"]:
        return {**columns, "Steps": "0, not trained", "Seed": training["seed"]}
    step_kept = f"of step {training['kept_step']:,}" if training["kept_step"] != training["steps"] else ""
    chosen = " (chosen)" if LEARNING_RATE in training["chosen"] else ""
    return {
        **columns,
        "Steps": training["steps"],
        "Examples": training["examples"],
        "Tokens": training["tokens"],
        "FLOPs": f"{training['flops']:.2g}",
        "Learning rate": f"{training['learning_rate']:g}{chosen}",
        "Stages": _stages(training.get("curriculum", ())),
        "Best kept": joined(", ", step_kept, "stopped early" if training["stopped_early"] else ""),
        "Seed": training["seed"],
        "Data seed": training["data_seed"] if training["data_seed"] != training["seed"] else "",
    }


def _together(values: Sequence[Any]) -> str:
    different = list(dict.fromkeys(value for value in values if value != ""))
    # Up to four numbers are listed; more, such as those of many seeds, become a range.
    if len(different) > 4 and all(isinstance(value, int) for value in different):
        return f"{min(different):,} to {max(different):,}"
    return ", ".join(f"{value:,}" if isinstance(value, int) else str(value) for value in different)


def _stages(curriculum: Sequence[Mapping[str, Any]]) -> str:
    """Write a curriculum: `200 steps of spacing 1; then 450 steps of spacing 4`."""
    stages = []
    for stage in curriculum:
        changes = [f"{key.rpartition('.')[2]} {text(value)}" for key, value in stage.get("set", {}).items()]
        stages.append(joined(" of ", f"{stage['steps']:,} steps", ", ".join(changes)))
    return "; then ".join(stages)


def _telling(reveal: Mapping[str, Any]) -> dict[str, Any]:
    """Drop `frames: all`, a key that older settings lack."""
    return {name: value for name, value in reveal.items() if (name, value) != ("frames", "all")}


def phrase(settings: Mapping[str, Any]) -> str:
    """Write settings that are not empty: `bpe: vocab_size 400`."""
    words = []
    for key, value in settings.items():
        if isinstance(value, list):
            is_range = len(value) == 2 and all(isinstance(each, int) for each in value)
            value = (" to " if is_range else ", ").join(map(str, value))
        if key != "kind" and value not in ("", None, False) and not isinstance(value, dict):
            words.append(key if value is True else f"{key} {value}")
    return joined(": ", str(settings["kind"]), "; ".join(words))


def curves_figure(curves: Mapping[str, Sequence[Sequence[float]]], variants: Mapping[str, str]) -> Figure:
    from remedy.eval.tables import plotting

    figure, panels = plotting.panels(2, shared=False)
    names = list(dict.fromkeys(variants[run] for run in curves))
    for run, curve in curves.items():
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
    metric, count = {"loss": "Loss", "exact_match": "Exact match"}[record["metric"]], len(record["seeds"])

    def shown(value: float | None) -> str:
        if value is None:
            return "no finite loss"
        return f"{value:.1%}" if record["metric"] == "exact_match" else f"{value:.4g}"

    rows = [["Recipe", "Tried", f"{metric} on validation ({plural(count, 'seed')})", "Chosen"]]
    for variant, tried in record["variants"].items():
        for trial in tried:
            values = ", ".join(f"{key.removeprefix('train.')} {text(value)}" for key, value in trial["values"].items())
            figures = ", ".join(map(shown, trial["figures"]))
            figures = figures if count == 1 else f"{shown(trial['mean'])} ({figures})"
            rows.append([variant, values, figures, "chosen" if trial["chosen"] else ""])
    return rows
