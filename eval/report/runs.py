"""The runs of a report: the model and training of each recipe, validation, trials of settings, and what training may have seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pandas as pd

from remedy.data_gen.context_window import Memory
from remedy.eval.records.summary import ConditionSummary
from remedy.eval.report.fairness import LEARNING_RATE, quantised, said, served, state
from remedy.eval.report.notes import NOTES
from remedy.eval.report.numbers import Loss
from remedy.eval.report.planned import Missing, SelectionRecord
from remedy.eval.report.reading import Evaluations, variants_of
from remedy.eval.tables.sections import RUNS, Rows, Section, folded
from remedy.settings import low_high

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEAST = 0.01
"""A smaller share of what is to be learnt than this is not worth a line."""
MOST = 10**12
"""The largest space of which a training can have a share."""
_TOLD_BY = {"permutation": ("n", "moves"), "composition": ("family",)}
"""Settings that must be those of training for what is to be learnt to be the same."""


def run_sections(found: Evaluations, trials: Sequence[SelectionRecord], missing: Sequence[Missing]) -> list[Section]:
    """The sections on runs. `missing`: the runs, and conditions of runs, that are not there."""
    sections = []
    if found.requests:
        rows, shared = runs_table(found)
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
    rows = seen_table(found)
    if len(rows) > 1:
        sections.append(Section("In training, at most", rows=rows, note=NOTES["seen"]))
    return [section._replace(group=RUNS) for section in sections]


def runs_table(found: Evaluations) -> tuple[Rows, str]:
    """A row for every recipe, with what its runs differ in, and a sentence on what all recipes share."""
    head = [
        "Recipe",
        "Model",
        "Parameters",
        "State",
        "Training",
        "Learning rate",
        "Seeds",
        "Tokenizer",
        "Data",
        "Examples",
    ]
    rows = [head]
    for request in found.requests:
        about: Mapping[str, Any] = request["checkpoint"]
        mixers = " + ".join(f"{mixer} ({values})" if values else mixer for mixer, values in about["mixers"].items())
        count = sum(condition["examples"] for condition in found.conditions if condition["run"] == request["run"])
        model = [
            mixers or about["model_type"],
            f"{about['num_hidden_layers']} layers, width {about['hidden_size']}",
            *(f"{name} {said(value)}" for name, value in about.get("decoder", {}).items()),
            quantised(request),
            served(request.get("backend")),
        ]
        rows.append(
            [
                request.get("variant") or request["run"],
                "\n".join(filter(None, model)),
                f"{about['parameters']:,}",
                state(about),
                *_training(request.get("training")),
                phrase(about["tokenizer"]),
                _data(request["data"]),
                f"{count:,}",
            ]
        )
    kept = [place for place in range(len(head)) if any(row[place] for row in rows[1:])]
    return folded([[row[place] for place in kept] for row in rows])


def _training(training: Mapping[str, Any] | None) -> list[str]:
    """Training, learning rate and seed, as cells."""
    if training is None:
        return ["", "", ""]
    if not training["steps"]:
        return ["not trained\n0 steps\n0 tokens", "", str(training["seed"])]
    mixers: Mapping[str, str] = (training.get("computed") or {}).get("mixers", {})
    lines = [
        f"{training['steps']:,} steps",
        f"{training['examples']:,} examples",
        f"{training['tokens']:,} tokens",
        f"{training['flops']:.2g} FLOPs",
        f"the best kept, of step {training['kept_step']:,}" if training["kept_step"] != training["steps"] else "",
        "stopped early" if training["stopped_early"] else "",
        _stages(training.get("curriculum", ())),
        *(f"{name}: {path}" for name, path in mixers.items() if " by " in path and "no CUDA device" not in path),
    ]
    rate = f"{training['learning_rate']:g}" + ("\nchosen" if LEARNING_RATE in training["chosen"] else "")
    seed, data_seed = training["seed"], training["data_seed"]
    return ["\n".join(filter(None, lines)), rate, str(seed) if seed == data_seed else f"{seed}, data {data_seed}"]


def _stages(curriculum: Sequence[Mapping[str, Any]]) -> str:
    """The stages of a curriculum: `200 steps of spacing 1; then 450 steps of spacing 4`."""
    found = []
    for stage in curriculum:
        changes = ", ".join(f"{key.rpartition('.')[2]} {said(value)}" for key, value in stage.get("set", {}).items())
        found.append(f"{stage['steps']:,} steps" + (f" of {changes}" if changes else ""))
    return f"in stages: {'; '.join(found)}" if found else ""


def _data(data: Mapping[str, Any]) -> str:
    memory = data.get("memory")
    lines = [
        phrase(data["task"]),
        phrase({"kind": "reveals", **data["reveal"]}) if "reveal" in data else "",
        f"memory {Memory.model_validate(memory)}" if memory is not None else "",
    ]
    return "\n".join(filter(None, lines))


def phrase(settings: Mapping[str, Any]) -> str:
    """Settings that have a kind, in words: `bpe: vocab_size 400`. Those that are empty are not said."""
    words = []
    for key, value in settings.items():
        if isinstance(value, list):
            ends = len(value) == 2 and all(isinstance(one, int) for one in value)
            value = (" to " if ends else ", ").join(map(str, value))
        if key != "kind" and value not in ("", None, False) and not isinstance(value, dict):
            words.append(key if value is True else f"{key} {value}")
    return f"{settings['kind']}: {'; '.join(words)}" if words else str(settings["kind"])


def _curve(request: Mapping[str, Any]) -> Sequence[Sequence[float]]:
    """Steps with their loss and exact match; none of runs that were trained elsewhere or without validation."""
    curve: Sequence[Sequence[float]] = (request.get("training") or {}).get("curve", [])
    return curve


def losses(requests: Sequence[Mapping[str, Any]]) -> dict[str, Loss]:
    """The validation loss of every run that has kept one, at the step whose weights were kept."""
    found = {}
    for request in requests:
        by_step = {step: loss for step, loss, *_ in _curve(request)}
        if by_step:
            kept = by_step.get(request["training"].get("kept_step"), list(by_step.values())[-1])
            of = phrase(request["checkpoint"]["tokenizer"]), request["training"].get("loss_roles")
            found[request["run"]] = Loss(kept, str(of))
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
            panel.plot(steps, ys, plotting.style(number), color=plotting.colour(number), label=names[number])
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


def seen_table(found: Evaluations) -> Rows:
    """The spaces of which training may have seen a share; of large ones nothing is said."""
    seen: dict[tuple[int, str], int] = {}
    for request in found.requests:
        examples = (request.get("training") or {}).get("examples", 0)
        for condition in found.conditions if examples else ():
            if condition["run"] == request["run"]:
                size, space = _space(condition, request, found.records)
                if space and examples >= LEAST * size:
                    seen[size, space] = max(seen.get((size, space), 0), examples)
    rows = [
        [space, f"{examples:,}", "all" if examples >= size else f"{100 * examples / size:.0f} %"]
        for (size, space), examples in sorted(seen.items(), key=lambda item: item[0][0])
    ]
    return [["To be learnt", "Training examples", "In training, at most"], *rows]


def _space(condition: ConditionSummary, request: Mapping[str, Any], records: pd.DataFrame) -> tuple[int, str]:
    """The size of the space to be learnt under a condition, and the space in words; none where training split by it, was of something
    else, or it is not known."""
    task, trained_on, kind = request["data"]["task"], request.get("trained_on") or {}, condition["diagnostic"]
    alike = kind == task["kind"] == trained_on.get("kind") and trained_on.get("split_by", "program") == "program"
    if kind in _TOLD_BY and alike and all(task.get(key) == trained_on.get(key) for key in _TOLD_BY[kind]):
        if kind == "permutation":
            return _commands(task, trained_on, condition["labels"])
        mine = records[(records["run"] == condition["run"]) & (records["condition"] == condition["condition"])]
        return _compositions(trained_on, condition, mine["functions"])
    return 0, ""


def _commands(task: Mapping[str, Any], trained_on: Mapping[str, Any], labels: Mapping[str, Any]) -> tuple[int, str]:
    from remedy.data_gen.tasks.permutation_programs import move_table, sequences

    moves, length = len(move_table(task["n"], task["moves"])), int(labels["length"])
    repertoire = labels.get("repertoire", task.get("repertoire"))
    several = None if repertoire is None else low_high(repertoire)[1]
    size = sequences(moves, length, several)
    if size > MOST or length in trained_on.get("held_out_lengths", ()):
        return 0, ""
    if several is None:
        return size, f"{length} commands: {moves}^{length} = {size:,} sequences"
    return size, f"{length} commands of at most {several} different ones: {size:,} sequences"


def _compositions(trained_on: Mapping[str, Any], condition: ConditionSummary, functions: pd.Series) -> tuple[int, str]:
    """Compositions of the functions that the condition's programs have, if all were trained on and several are composed."""
    from remedy.data_gen.tasks.families import FAMILIES

    depth, family = int(condition["labels"]["depth"]), str(condition["labels"]["family"])
    names = {name for composed in functions.unique() for name in composed.split()}
    trained = {*(trained_on["functions"] or FAMILIES[family].functions)} - {*trained_on.get("held_out_functions", ())}
    size = len(names) ** depth
    if depth < 2 or size > MOST or depth in trained_on.get("held_out_depths", ()) or not names <= trained:
        return 0, ""
    return size, f"{depth} functions: {len(names)}^{depth} = {size:,} compositions"
