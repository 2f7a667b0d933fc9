"""The runs of a report: the model and training of each recipe, validation, and trials of settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from remedy.data_gen.context_window import Memory
from remedy.eval.report.fairness import LEARNING_RATE, quantised, said, served, state
from remedy.eval.report.notes import NOTES
from remedy.eval.report.numbers import Loss
from remedy.eval.report.planned import Missing, SelectionRecord
from remedy.eval.report.reading import Evaluations, variants_of
from remedy.eval.tables.sections import RUNS, Rows, Section, folded

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
