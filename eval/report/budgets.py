"""What each run is and what its training took; and whether the two sides of a comparison had the same of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from remedy.data_gen.context_window import Memory
from remedy.eval.report.reading import Evaluations
from remedy.eval.tables.sections import Rows

Request = Mapping[str, Any]
"""What an evaluation's folder says it holds: `checkpoint` and, of runs that were trained here, `training`."""
TOLERANCE = 0.05
"""Tokens and FLOPs that differ by less than this share are called equal: with random lengths no two seeds read the same number."""
SIZE_TOLERANCE = 0.1
"""Parameters and states that differ by less than this share are called equal: widths matched to a multiple of the heads miss by as
much. Of equal width, mixers differ by up to 60 %."""
LEARNING_RATE = "train.learning_rate"
NOTE = (
    "Training: what the run took in all. Tokens are those read, without padding; FLOPs are estimated from the weights in "
    "products and the mixers, three times a forward pass. State: numbers carried for one sequence, and those kept for each of "
    "its tokens. Model: settings that are not named are as published. A verdict names what its sides had unequal: steps, "
    f"examples and learning rates of any difference, tokens and FLOPs of {TOLERANCE:.0%}, parameters and states of "
    f"{SIZE_TOLERANCE:.0%}, and what ran the models."
)


def runs_table(found: Evaluations) -> Rows:
    """What every run's checkpoint is, what its training took, what it is evaluated on, and on how many examples it was scored."""
    head = ["Run", "Model", "Parameters", "State", "Training", "Learning rate", "Seed", "Tokenizer", "Data", "Examples"]
    rows = [head]
    for request in found.requests:
        about: Mapping[str, Any] = request["checkpoint"]
        mixers = " + ".join(f"{mixer} ({values})" if values else mixer for mixer, values in about["mixers"].items())
        count = sum(condition["examples"] for condition in found.conditions if condition["run"] == request["run"])
        rows.append(
            [
                request["run"],
                "\n".join(
                    filter(
                        None,
                        [
                            mixers or about["model_type"],
                            f"{about['num_hidden_layers']} layers, width {about['hidden_size']}",
                            *(f"{name} {said(value)}" for name, value in about.get("decoder", {}).items()),
                            _quantised(request),
                            _served(request.get("backend")),
                        ],
                    )
                ),
                f"{about['parameters']:,}",
                _state(about),
                *_training(request.get("training")),
                phrase(about["tokenizer"]),
                _data(request["data"]),
                f"{count:,}",
            ]
        )
    empty = [place for place in range(len(head)) if not any(row[place] for row in rows[1:])]
    return [[cell for place, cell in enumerate(row) if place not in empty] for row in rows]


def said(value: object) -> str:
    """A setting's value as configurations write it."""
    if isinstance(value, list | tuple):
        return ", ".join(map(said, value))
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _stages(curriculum: Sequence[Mapping[str, Any]]) -> str:
    """The stages of a curriculum: `200 steps of spacing 1; then 450 steps of spacing 4`."""
    found = []
    for stage in curriculum:
        changes = ", ".join(f"{key.rpartition('.')[2]} {said(value)}" for key, value in stage.get("set", {}).items())
        found.append(f"{stage['steps']:,} steps" + (f" of {changes}" if changes else ""))
    return f"in stages: {'; '.join(found)}" if found else ""


def _data(data: Mapping[str, Any]) -> str:
    memory = data.get("memory")
    reveal = {"kind": "reveals", **data.get("reveal", {})}
    lines = [
        phrase(data["task"]),
        phrase(reveal) if "reveal" in data else "",
        f"memory {Memory.model_validate(memory)}" if memory is not None else "",
    ]
    return "\n".join(filter(None, lines))


def _served(backend: Mapping[str, Any] | None) -> str:
    """Which server ran the model, and whether what it computed depends on its batch, as a line of a cell."""
    if backend is None:
        return ""
    invariant = {"on": "batch-invariant", "declared": "batch-invariant as declared", "off": "not batch-invariant"}
    words = invariant.get(backend["batch_invariant"], "batch invariance not known")
    return f"served by {backend['server']} {backend['version']}, {words}"


def _quantised(request: Request) -> str:
    """In how many bits weights are, where they are fewer, as a line of a cell."""
    return f"weights in 4 bits ({request['quantization'].upper()})" if "quantization" in request else ""


def _state(about: Mapping[str, Any]) -> str:
    fixed, growing = about.get("state_floats"), about.get("state_by_length")
    if fixed is None:
        return ""
    return " + ".join(
        filter(None, [f"{fixed:,}" if fixed or not growing else "", f"{growing:,} a token" if growing else ""])
    )


def _training(training: Mapping[str, Any] | None) -> list[str]:
    """Training, learning rate and seed, as cells."""
    if training is None:
        return ["", "", ""]
    if not training["steps"]:
        return ["not trained\n0 steps\n0 tokens", "", str(training["seed"])]
    lines = [
        f"{training['steps']:,} steps",
        f"{training['examples']:,} examples",
        f"{training['tokens']:,} tokens",
        f"{training['flops']:.2g} FLOPs",
        f"the best kept, of step {training['kept_step']:,}" if training["kept_step"] != training["steps"] else "",
        "stopped early" if training["stopped_early"] else "",
        _stages(training.get("curriculum", ())),
        *_kernels(training.get("computed")),
    ]
    rate = f"{training['learning_rate']:g}" + ("\nchosen" if LEARNING_RATE in training["chosen"] else "")
    seed, data_seed = training["seed"], training["data_seed"]
    return ["\n".join(filter(None, lines)), rate, str(seed) if seed == data_seed else f"{seed}, data {data_seed}"]


def as_it_is(request: Request) -> bool:
    """Whether a run is of somebody's model that was not trained here: no seed could have made it another. A decoder of ours without
    training is its random weights, which are of a seed."""
    training = request.get("training")
    return training is not None and not training["steps"] and not request["checkpoint"]["mixers"]


def _kernels(computed: Mapping[str, Any] | None) -> list[str]:
    """What computed each mixer, as lines, where there was a choice: on a GPU."""
    mixers: Mapping[str, str] = (computed or {}).get("mixers", {})
    return [f"{name}: {path}" for name, path in mixers.items() if " by " in path and "no CUDA device" not in path]


def unequal(baseline: Sequence[Request], treatment: Sequence[Request]) -> list[str]:
    """In what two variants, each with the requests of its runs, and their training were unequal: `steps 1,600 against 800`, of the
    treatment first. Empty where they were equal, or of neither side anything is known."""
    return (
        _unequal_training(baseline, treatment)
        + _unequal_sizes(baseline, treatment)
        + _unequal_readers(baseline, treatment)
    )


def _unequal_training(baseline: Sequence[Request], treatment: Sequence[Request]) -> list[str]:
    before, after = ([request.get("training") for request in side] for side in (baseline, treatment))
    learnt = [any(one and one["steps"] for one in side) for side in (before, after)]
    if learnt[0] != learnt[1]:
        return [f"only the {'treatment' if learnt[1] else 'baseline'} was trained here"]
    if not all(learnt) or not all([*before, *after]):
        return []
    found = []
    for key, name, tolerance, said in _BUDGETS:
        mean = [sum(one[key] for one in side if one) / len(side) for side in (after, before)]
        if abs(mean[0] - mean[1]) > tolerance * max(mean):
            found.append(f"{name} {said(mean[0])} against {said(mean[1])}")
    return found + _unequal_rates([one for one in before if one is not None], [one for one in after if one is not None])


def _unequal_sizes(baseline: Sequence[Request], treatment: Sequence[Request]) -> list[str]:
    """Parameters, and what is carried from token to token: of a fixed size, or growing with the text."""
    before, after = (
        [about for request in side if (about := request.get("checkpoint"))] for side in (baseline, treatment)
    )
    if not before or not after:
        return []
    found = []
    mean = [sum(one["parameters"] for one in side) / len(side) for side in (after, before)]
    if abs(mean[0] - mean[1]) > SIZE_TOLERANCE * max(mean):
        found.append(f"parameters {mean[0]:,.0f} against {mean[1]:,.0f}")
    if any(_apart(before[0].get(key), after[0].get(key)) for key in ("state_floats", "state_by_length")):
        states = [_state(side[0]) for side in (after, before)]
        found += [f"state {states[0]} against {states[1]}"] if all(states) else []
    return found


def _unequal_readers(baseline: Sequence[Request], treatment: Sequence[Request]) -> list[str]:
    """What ran the models, and in how many bits: another server, version or way of computing rounds otherwise."""
    found = []
    for usual, said in (
        ("no server", lambda request: _served(request.get("backend"))),
        ("weights as they are", _quantised),
    ):
        before, after = (sorted({said(request) or usual for request in side}) for side in (baseline, treatment))
        found += [f"{', '.join(after)} against {', '.join(before)}"] if before != after else []
    return found


def _apart(first: int | None, second: int | None) -> bool:
    """Whether two sizes differ by more than is called equal."""
    return abs((first or 0) - (second or 0)) > SIZE_TOLERANCE * max(first or 0, second or 0)


_BUDGETS: tuple[tuple[str, str, float, Callable[[float], str]], ...] = (
    ("steps", "steps", 0.0, "{:,.0f}".format),
    ("examples", "examples", 0.0, "{:,.0f}".format),
    ("tokens", "tokens", TOLERANCE, "{:.2g}".format),
    ("flops", "FLOPs", TOLERANCE, "{:.2g}".format),
)


def _unequal_rates(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> list[str]:
    """Learning rates are equal if both were chosen on validation, or neither and they are the same."""
    chosen = [any(LEARNING_RATE in one["chosen"] for one in side) for side in (before, after)]
    if all(chosen):
        return []
    if any(chosen):
        return [f"learning rate chosen on validation for the {'baseline' if chosen[0] else 'treatment'} alone"]
    rates = [sorted({one["learning_rate"] for one in side}) for side in (after, before)]
    if rates[0] == rates[1]:
        return []
    words = [", ".join(f"{rate:g}" for rate in side) for side in rates]
    return [f"learning rate {words[0]} against {words[1]}, neither chosen on validation here"]


def phrase(settings: dict[str, Any]) -> str:
    """Settings that have a kind, in words: `bpe: vocab_size 400`. Those that are empty are not said."""
    said = []
    for key, value in settings.items():
        if isinstance(value, list):
            value = " to ".join(map(str, value)) if _is_range(value) else ", ".join(map(str, value))
        if key != "kind" and value not in ("", None, False) and not isinstance(value, dict):
            said.append(key if value is True else f"{key} {value}")
    return f"{settings['kind']}: {'; '.join(said)}" if said else str(settings["kind"])


def _is_range(values: list[Any]) -> bool:
    return len(values) == 2 and all(isinstance(value, int) for value in values)
