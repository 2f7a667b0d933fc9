"""Freeze the conditions of evaluations as a benchmark's folder: examples, a card, tasks for lm-eval and inspect_ai, and the scorer."""

from __future__ import annotations

import json
import platform
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, StrictUndefined

from remedy.checksums import digest_of
from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import Example, examples
from remedy.data_gen.roles import Role, Span
from remedy.data_gen.traces.judge import spells_tokens
from remedy.eval.checkpoint import Subject
from remedy.eval.conditions import conditions_of
from remedy.eval.config import EvalConfig
from remedy.eval.diagnostics import Condition
from remedy.eval.scoring.frames import answer_places
from remedy.files import file_name, write_text
from remedy.messages import shown
from remedy.plugins import plugins_section
from remedy.settings import ConfigError, UserError, apply_changes, build, dump

SCORER = "cwm_scorer"
"""The package of the scorer in an exported folder."""
MODULES = (
    "remedy.data_gen.execution.program",
    "remedy.data_gen.roles",
    "remedy.data_gen.traces.frames",
    "remedy.data_gen.traces.judge",
    "remedy.data_gen.traces.parse",
    "remedy.data_gen.traces.repl",
    "remedy.data_gen.traces.spans",
    "remedy.data_gen.traces.string_encodings",
    "remedy.data_gen.traces.values",
    "remedy.eval.benchmark.scorer",
)
"""What the scorer is made of, copied with relative imports; registries, which settings need, are left out of it."""
_IMPORT = re.compile(r"^from remedy\.(?:\w+\.)*(\w+) import", re.MULTILINE)
SHOTS = 4
"""Training examples that show the form."""
QUESTIONS = {
    True: "What are the values of all variables at the end? Reply with one line of the form `{form}`, and nothing else.",
    False: "What does the function marked START_OF_TRACE return? Reply with the value alone, as Python's repr writes it.",
}
"""By whether the answer is a state."""


class Frozen(NamedTuple):
    """One configuration's examples. `left_out`: how many have no such answer, by the reason."""

    name: str
    config: EvalConfig
    data: DataConfig
    rows: list[dict[str, Any]]
    shots: list[dict[str, Any]]
    left_out: Counter[str]


def export_benchmark(configs: Mapping[str, EvalConfig], out: Path) -> Path:
    """Write the benchmark of evaluations, each under a name; returns the card's path.

    Raises:
        UserError: the folder is not empty, or a configuration does not spell out its data or has no text form.
    """
    if out.exists() and any(out.iterdir()):
        raise UserError(f"{out}: is not empty: choose a new folder")
    frozen = [freeze(file_name(name), config) for name, config in configs.items()]
    for one in frozen:
        _write_lines(out / "data" / f"{one.name}.jsonl", one.rows)
        if one.shots:
            _write_lines(out / "data" / "shots" / f"{one.name}.jsonl", one.shots)
        for form in ("trace", "answer"):
            _render("lm_eval_task.yaml", out / "lm_eval" / f"{one.name}_{form}.yaml", one=one, form=form)
        write_text(out / "evaluate" / f"{one.name}.yaml", dump(one.config))
    for name, folder in (("utils.py", "lm_eval"), ("inspect_tasks.py", "."), ("score.py", ".")):
        _render(name, out / folder / name)
    copy_scorer(out / SCORER)
    about = {"python": platform.python_version(), "version": version("cwm-remedy"), "plugins": plugins_section()}
    digests = {one.name: digest_of({"rows": one.rows}) for one in frozen}
    _render("README.md", out / "README.md", frozen=frozen, digests=digests, **about)
    return out / "README.md"


def freeze(name: str, config: EvalConfig) -> Frozen:
    """Make the examples of an evaluation's conditions.

    Raises:
        ConfigError: its `set` holds no data, or a condition's traces are not whole sessions in text.
    """
    if "task" not in config.set:
        raise ConfigError(f"{name}: set: needs the data configuration with its task: no checkpoint gives one here")
    data = build(DataConfig, apply_changes({}, config.set, "set"), f"{name}: set")
    found = Frozen(name, config, data, [], [], Counter())
    conditions = conditions_of(config, Subject(data))
    for condition in conditions:
        _refuse(name, condition)
        said = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in condition.own_labels.items())
        for example in examples(condition.data, condition.split, range(condition.examples)):
            reason = "" if example.outcome == "ok" else example.outcome
            if not reason and spells_tokens(example.spans):
                reason = "spells a token"
            elif not reason and len(answer_places(example)) > 1:
                reason = "raised"
            if reason:
                found.left_out[reason] += 1
                continue
            labels = {"id": f"{condition.slug}/{example.index}", "part": said, **condition.own_labels}
            found.rows.append({**labels, **row(example)})
    if data.task.count("train") is None:
        found.shots.extend(map(row, examples(conditions[0].data, "train", range(SHOTS))))
    return found


def row(example: Example) -> dict[str, Any]:
    """One example as text: prompts, true trace and true answer."""
    context = [span for span in example.spans if span.role is Role.CONTEXT]
    state = example.answer_in_state or bool(example.trace.setup)
    names = ",".join(f"{pair.split('=')[0]}=..." for pair in example.answer.split(",")) if state else ""
    return {
        "prompt": "".join(_texts(context, special=True)),
        "question": f"{''.join(_texts(context))}\n\n{QUESTIONS[state].format(form=names)}\n",
        "trace": "".join(_texts([span for span in example.spans if span.role is not Role.CONTEXT])),
        "answer": example.answer,
        "answer_frames": answer_places(example),
        "cluster": example.cluster,
    }


def _texts(spans: Sequence[Span], special: bool = False) -> Iterator[str]:
    """The texts of spans. `special`: special tokens too, spelled out, but the first, which tokenizers add."""
    for place, span in enumerate(spans):
        if isinstance(span.piece, str):
            yield span.piece
        elif special and place:
            yield span.piece.value


def _refuse(name: str, condition: Condition) -> None:
    data = condition.data
    wanted = {"format": "repl", "context": True, "memory": None, "string_encoding": "plain"}
    for key, value in wanted.items():
        if getattr(data, key) != value:
            raise ConfigError(
                f"{name}: {key} is {shown(getattr(data, key))}, and a benchmark in text needs {shown(value)}"
            )
    if condition.forcing != "free":
        raise ConfigError(f"{name}: forcing {condition.forcing}: other harnesses decode freely: write forcing: [free]")


def copy_scorer(folder: Path) -> None:
    """Copy the modules that judge a trace, so that they import each other and Python's own alone."""
    for module in MODULES:
        source = Path(str(import_module(module).__file__)).read_text(encoding="utf-8")
        path = folder / f"{module.rpartition('.')[2]}.py"
        copied = _IMPORT.sub(r"from .\1 import", source)
        write_text(path, f"# A copy of {module}; see README.md\n{copied}")
    _render("registry.py", folder / "registry.py")
    write_text(folder / "__init__.py", '"""The scorer of this benchmark, which needs Python alone."""\n')


def _write_lines(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, "".join(f"{json.dumps(one, ensure_ascii=False)}\n" for one in rows))


def _render(name: str, path: Path, **facts: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True, trim_blocks=True)  # text, no HTML
    template = (files("remedy.eval.benchmark") / f"{name}.j2").read_text(encoding="utf-8")
    write_text(path, environment.from_string(template).render(**facts, scorer=SCORER))
