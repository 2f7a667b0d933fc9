"""The `code` diagnostic: does a model trace real programs, with its own actions, with true ones, or by answering at once?"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from remedy.data_gen.examples import DataConfig, Example, Task
from remedy.data_gen.execution.pool import environment
from remedy.data_gen.execution.program import Frame
from remedy.data_gen.execution.sandbox import TracerConfig
from remedy.data_gen.rewrites import rewrites_of
from remedy.data_gen.roles import Role
from remedy.data_gen.settings import ConfigError, build
from remedy.data_gen.tasks.composition import CompositionTask
from remedy.data_gen.tasks.programs import ProgramsTask, split_cases
from remedy.data_gen.traces.parse import ReadFrame, ReadTrace
from remedy.data_gen.traces.render import FORMATS
from remedy.data_gen.traces.reveal import kept_frames
from remedy.data_gen.traces.string_encodings import decode_value
from remedy.data_gen.traces.values import same_value
from remedy.eval.config import CodeDiagnostic, Condition, EvalConfig, fed_roles
from remedy.eval.decoding import FREE, Written, decode
from remedy.eval.diagnostics.frame_scorer import TOO_LONG, UNTRACED, departure, failure_class
from remedy.eval.diagnostics.operations import Operations, departing_frame
from remedy.models.tokenizer import Encoded, TraceTokenizer

GENERATED = 100
"""Generated programs that are evaluated if no number is given: they never end."""
SHOWN_CHARACTERS = 500
"""How much of an answer a record keeps."""


def conditions(settings: CodeDiagnostic, data: DataConfig, config: EvalConfig) -> list[Condition]:
    """Every set of programs, by rewrite, by how traces are written, by forcing."""
    sources: Sequence[Task] = settings.programs or (data.task,)
    if data.format != "cwm":
        raise ConfigError(f"the code diagnostic reads traces in the cwm format, not {data.format}: set data.format=cwm")
    found = []
    for source in sources:
        split, count = _extent(source, settings, config)
        everies, shows, encodings = (
            settings.every or (data.reveal.spacing,),
            settings.show or (data.reveal.locals,),
            settings.strings or (data.string_encoding,),
        )
        for grid in itertools.product(settings.rewrites, everies, shows, encodings, settings.forcing):
            labels: dict[str, Any] = dict(zip(("rewrite", "spacing", "locals", "strings", "forcing"), grid))
            found.append(
                Condition(
                    diagnostic="code",
                    data=_as_labelled(data, source, labels),
                    forcing="free" if labels["forcing"] == "direct" else labels["forcing"],
                    examples=count,
                    split=split,
                    labels={"benchmark": _name(source), **labels},
                )
            )
    return found


def _extent(source: Task, settings: CodeDiagnostic, config: EvalConfig) -> tuple[str, int]:
    """The split and the number of examples of a source. Programs that the checkpoint was not trained on are all evaluated."""
    if not isinstance(source, ProgramsTask):
        if settings.rewrites != ("none",):
            raise ConfigError(
                f"the code diagnostic rewrites `programs` only, not the {source.kind} task: remove `rewrites`"
            )
        return config.split, settings.examples or GENERATED
    trained = config.trained_on is not None and _name(config.trained_on) == _name(source)
    split = config.split if trained else "all"
    count = len(split_cases(source, split))
    if count == 0:
        raise ConfigError(f"the code diagnostic: {_name(source)} has no program of the {split} split")
    return split, min(count, settings.examples or count)


def _as_labelled(data: DataConfig, source: Task, labels: dict[str, Any]) -> DataConfig:
    changed = data.model_dump() | {"string_encoding": labels["strings"], "task": source.model_dump()}
    if isinstance(source, ProgramsTask):
        changed["task"]["rewrites"] = rewrites_of(labels["rewrite"])
    if labels["forcing"] == "direct":
        changed["reveal"] = {"answer_only": True, "max_tokens": data.reveal.max_tokens}
    else:
        changed["reveal"] |= {"spacing": labels["spacing"], "locals": labels["locals"], "answer_only": False}
    return build(DataConfig, changed, "diagnostic code")


def _name(source: Task) -> str:
    if isinstance(source, ProgramsTask):
        return source.benchmark or str(source.path)
    return f"{source.kind} ({source.family})" if isinstance(source, CompositionTask) else source.kind


def judge_batch(
    model: Any,
    tokenizer: TraceTokenizer,
    batch: Sequence[Example],
    truths: Sequence[Encoded],
    condition: Condition,
    config: EvalConfig,
) -> list[dict[str, Any]]:
    """Decode the programs whose true trace may be written in the budget, and judge every one."""
    fits = [
        e.outcome == "ok" and len(t.ids) - t.roles.count(Role.CONTEXT) <= config.budget for e, t in zip(batch, truths)
    ]
    chosen = [truth for truth, fit in zip(truths, fits) if fit]
    fed = fed_roles(condition.forcing)
    runs = iter(decode(model, tokenizer, chosen, fed, budget=config.budget) if chosen else [])
    task = condition.data.task
    # Generated programs run in this process.
    tracer = task.tracer if isinstance(task, ProgramsTask) else TracerConfig(isolation="trusted")
    python, isolation = environment(tracer)
    about = {"python": python, "isolation": isolation}
    return [
        about | (judge(example, truth, next(runs), condition, tokenizer) if fit else _truncated(example))
        for example, truth, fit in zip(batch, truths, fits)
    ]


def judge(
    example: Example, truth: Encoded, runs: Sequence[Written], condition: Condition, tokenizer: TraceTokenizer
) -> dict[str, Any]:
    """One example's record: is the answer right, what was right on the way, and where and why did it first depart?"""
    start = next(place for place, role in enumerate(truth.roles) if role != Role.CONTEXT)
    true, read = (
        FORMATS["cwm"].read(tokenizer.pieces(ids[start:]), condition.data.reveal.answer_only)
        for ids in (truth.ids, spliced(truth.ids, runs))
    )
    numbers = kept_frames(example.trace.frames, condition.data.reveal)[1:]
    originals = [example.trace.frames[number] for number in numbers]
    strings = condition.data.string_encoding
    said = _answer(read)
    right = said is not None and read.valid and same_value(_plain(said, strings), _plain(_answer(true) or "", strings))
    free = fed_roles(condition.forcing) == FREE
    ran_out = free and not runs[-1].complete
    found = departure(true.frames, originals, read)
    record = {
        "outcome": example.outcome,
        "final_right": right,
        "valid_format": read.valid,
        "truncated": ran_out,
        "written_tokens": sum(len(run.ids) for run in runs),
        "frames_right": len(true.frames) if found is None else found.place,
        "departure_frame": -1 if found is None else numbers[min(found.place, len(numbers) - 1)],
        "departure_role": "" if found is None else _ROLES.get(found.what, "structure"),
        "failure": "" if right else failure_class(found, False, ran_out),
        "value_type": found.value_type if found is not None and not right else "",
        "operation": "",
        "answer": (said or "")[:SHOWN_CHARACTERS],
        "true_answer": example.answer[:SHOWN_CHARACTERS],
        **_matches(true.frames, read.frames),
    }
    if not right and found is not None and originals:
        record["operation"] = _operation(
            example, numbers[min(found.place, len(numbers) - 1)], found.what == "wrong return"
        )
    return record


_ROLES = {"wrong action": "action", "wrong state": "state", "wrong return": "value"}


def spliced(true_ids: Sequence[int], runs: Sequence[Written]) -> list[int]:
    """The sequence that the model and the forcing made together."""
    ids: list[int] = []
    end = 0
    for run in runs:
        ids += [*true_ids[end : run.start], *run.ids]
        end = run.stop
    return ids + list(true_ids[end:])


def _answer(trace: ReadTrace) -> str | None:
    return trace.frames[-1].value if trace.frames else None


def _plain(value: str, strings: str) -> str:
    return decode_value(value, strings) if strings != "plain" else value


def _operation(example: Example, number: int, at_value: bool) -> str:
    frames: Sequence[Frame] = example.trace.frames
    at = frames[departing_frame(frames, number, at_value)]
    # A frame that returns shows no state: its line's own frame does.
    state = at.locals if at.locals is not None else frames[departing_frame(frames, number, False)].locals
    return Operations(example.trace.program).of(at.source, state)


def _matches(true: Sequence[ReadFrame], found: Sequence[ReadFrame]) -> dict[str, float]:
    """Shares of one trace's frames: exact states, exact actions, variables named, variables with their values.

    Frames are compared at their place in the trace; a missing one matches nothing. A share of no frames is 1.
    """
    states = actions = exact = named = valued = variables = 0
    for place, frame in enumerate(true):
        other = found[place] if place < len(found) else None
        actions += other is not None and other.event is frame.event and other.source == frame.source
        if frame.locals is None:
            continue
        states += 1
        shown = (other.locals if other is not None else None) or {}
        exact += (
            other is not None and other.locals is not None and list(other.locals.items()) == list(frame.locals.items())
        )
        variables += len(frame.locals)
        named += sum(name in shown for name in frame.locals)
        valued += sum(shown.get(name) == value for name, value in frame.locals.items())

    def share(part: int, whole: int) -> float:
        return part / whole if whole else 1.0

    return {
        "state_exact": share(exact, states),
        "action_exact": share(actions, len(true)),
        "key_match": share(named, variables),
        "key_value_match": share(valued, variables),
        "states": states,
        "actions": len(true),
    }


def _truncated(example: Example) -> dict[str, Any]:
    """The record of a program that is not decoded: its true trace is over the budget, or it could not be run."""
    return {
        "outcome": example.outcome,
        "final_right": False,
        "valid_format": False,
        "truncated": True,
        "written_tokens": 0,
        "frames_right": 0,
        "departure_frame": -1,
        "departure_role": "",
        "failure": "truncated" if example.outcome in {"ok", *TOO_LONG} else UNTRACED,
        "value_type": "",
        "operation": "",
        "answer": "",
        "true_answer": example.answer[:SHOWN_CHARACTERS],
        "state_exact": 0.0,
        "action_exact": 0.0,
        "key_match": 0.0,
        "key_value_match": 0.0,
        "states": 0,
        "actions": 0,
    }
