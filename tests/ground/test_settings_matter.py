"""No setting of the data does nothing without a word: wherever a field cannot matter, another value than its default is refused."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import examples
from remedy.data_gen.roles import Special
from remedy.data_gen.tasks.families import FAMILIES
from remedy.launch.reference import places
from remedy.settings import ConfigError, Settings, build

CODE = """def f(n):
    s = g(n)
    return s.upper() + s[1:]
def g(n):
    s = ''
    while n:
        s += 'ab'
        n -= 1
    return s
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("own") / "own.jsonl"
    rows = [{"id": f"p{n}", "code": CODE.replace("ab", "ab" * n), "input": "4"} for n in range(1, 12)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def configurations(own: Path) -> Iterator[dict[str, Any]]:
    """Every kind of task, every family of them in one format, sparse traces, and traces against answers alone."""
    permutation = {"kind": "permutation", "n": 3, "length": [2, 9]}
    strings, *others = (
        {"kind": "composition", "family": family, "depth": [1, 3]} for family in ("strings", "math", "dicts")
    )
    programs = {"kind": "programs", "path": str(own), "tracer": {"isolation": "trusted"}}
    yield from ({"task": permutation, "format": form} for form in ("cwm", "repl", "symbolic"))
    yield from ({"task": programs, "format": form} for form in ("cwm", "cwm_numbered", "repl"))
    yield from ({"task": task, "format": form} for task, form in zip((strings, *others), ("cwm", "symbolic", "repl")))
    yield {"task": {"kind": "composition", "family": "string_operations", "parallel": 4, "split_by": "inputs"}}
    yield {"task": {"kind": "composition", "depth": [1, 3]}, "string_encoding": "spaced"}
    yield {"task": {"kind": "loops", "lines": [26, 64]}}
    yield {"task": permutation, "reveal": {"spacing": 4}}
    yield from ({"task": task, "reveal": {"answer_only": True}} for task in (permutation, strings, programs))


OTHERS: dict[str, list[Any]] = {
    "format": ["repl", "cwm"],
    "context": [False],
    "first_line": [7, [5, 90]],
    "string_encoding": ["indexed"],
    "encode_source": [True],
    "seed": [5],
    "reveal.spacing": [3.0],
    "reveal.at": [0.5],
    "reveal.locals": ["diff", "changes", "one_in_turn", "one_at_random"],
    "reveal.call_depth": [0],
    "reveal.frames": ["shown"],
    "reveal.loops": [1],
    "reveal.answer_only": [True],
    "reveal.max_tokens": [250, 40],
    "task.n": [4],
    "task.moves": ["swaps"],
    "task.length": [12],
    "task.lines": [40],
    "task.modulus": [101],
    "task.repertoire": [2],
    "task.distinct_values": [True],
    "task.answer": ["print", "none"],
    "task.split_by": ["commands", "functions", "function", "program", "inputs"],
    "task.shares": [{"train": 0.4, "validation": 0.4, "test": 0.2}],
    "task.held_out_lengths": [[3, 4, 5, 6]],
    "task.held_out_lines": [[[26, 48]]],
    "task.held_out_pairs": [
        2,
        [["verify_even_length", "compress_repeats"]],
        [["math_clamp", "math_add"]],
        [["dict_rotate_values", "dict_put"]],
    ],
    "task.family": ["lists"],
    "task.functions": [["mirror_str"], ["math_double"], ["dict_double"]],
    "task.depth": [4, 2],
    "task.flatten": [True],
    "task.parallel": [3],
    "task.input_length": [[9, 9]],
    "task.alphabet": ["xyz"],
    "task.held_out_functions": [
        ["mirror_str", "rotate_str", "add_prefix", "sort_chars"],
        ["math_double", "math_add", "math_negate"],
        ["dict_double", "dict_sort", "dict_put"],
    ],
    "task.held_out_depths": [[2]],
    "task.rewrites": [["temporaries"]],
    "task.held_out_programs": [["p1", "p2", "p3", "p4", "p5", "p6"]],
    "task.tracer.max_frames": [2],
    "task.tracer.max_value_characters": [2],
    "task.tracer.timeout_seconds": [1.0],
    "task.tracer.memory_megabytes": [100],
}
"""Other values of every field. One that does not fit a configuration is refused there."""
LIMITS = ("task.tracer.timeout_seconds", "task.tracer.memory_megabytes")
"""Refused here, where programs run in this process; what they do is tested with the sandbox."""
ELSEWHERE = {
    "task.kind": "chooses the class",
    "task.benchmark": "needs the benchmark's file: tests of the benchmarks",
    "task.path": "chooses the programs: tests of the programs task",
    "task.input": "as task.path",
    "task.test_pairs": "chooses test programs: tests of held-out pairs",
    "task.tracer.python": "needs another interpreter: tests of the sandbox",
    "task.tracer.isolation": "tests of the sandbox",
    "task.tracer.unreadable": "needs a class whose repr raises: tests of given programs",
    "task.tracer.objects": "needs a class without a repr: tests of the tracer",
    "memory": "chooses what is seen of an example, not what is written: tests of the windows",
    "memory.frames": "as memory",
    "memory.open_calls": "as memory",
    **dict.fromkeys(
        ("task.shares.train", "task.shares.validation", "task.shares.test"), "parts of a whole: with task.shares"
    ),
    "task.tracer": "a section",
    "task": "a section",
    "reveal": "a section",
}


def observed(data: DataConfig) -> str:
    """What a configuration gives: the spans of some examples and their outcomes."""
    found = []
    counted = data.task.count("train")
    for example in examples(
        data,
        "train",
        range(12 if counted is None else counted),
        count=lambda spans: sum(len(str(span.piece)) for span in spans) // 4,
    ):
        pieces = [(s.role, s.piece.value if isinstance(s.piece, Special) else s.piece) for s in example.spans]
        found.append((pieces, example.outcome))
    return repr(found)


def fields() -> list[str]:
    """The dotted key of every field of the data."""
    found = {key for settings, prefix, _ in places(DataConfig) for key in _keys(settings, prefix)}
    return sorted(found)


def _keys(settings: type[Settings], prefix: str) -> list[str]:
    return [f"{prefix}.{name}" if prefix else name for name in settings.model_fields]


def test_every_field_is_walked() -> None:
    assert set(fields()) == set(OTHERS) | set(ELSEWHERE)


@pytest.mark.parametrize("key", OTHERS)
def test_a_field_changes_the_examples_or_is_refused(key: str, own: Path) -> None:
    changed = 0
    for given in configurations(own):
        data = build(DataConfig, given)
        if not _has(data, key):
            continue
        base = observed(data)
        effects = []
        for value in OTHERS[key]:
            try:
                other = data.changed({key: value})
            except ConfigError:
                continue
            if other != data:
                effects.append(observed(other) != base)
        assert not effects or any(effects), (key, given)
        changed += any(effects)
    assert changed or key in LIMITS


def _has(data: DataConfig, key: str) -> bool:
    holder: Any = data
    for part in key.split("."):
        if not hasattr(holder, part):
            return False
        holder = getattr(holder, part)
    return True


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"task": {"kind": "composition", "family": "math", "alphabet": "ab"}}, "task.alphabet ab does nothing for"),
        ({"task": {"kind": "permutation"}, "reveal": {"answer_only": True}, "memory": 2}, "memory 2 does nothing with"),
        (
            {"task": {"kind": "composition"}, "encode_source": True},
            "encode_source True does nothing with string_encoding",
        ),
        ({"task": {"kind": "programs", "path": "x"}, "seed": 3}, "seed 3 does nothing for task programs"),
    ],
)
def test_what_does_nothing_is_named_with_the_reason(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as error:
        build(DataConfig, given, "f.yaml")
    null = ", or say memory=null where a base sets it" if "memory" in given else ""  # whose default is null
    assert str(error.value).endswith(f"remove it{null}")


@pytest.mark.parametrize("family", FAMILIES)
def test_families_say_rightly_whether_they_have_strings(family: str) -> None:
    data = build(DataConfig, {"task": {"kind": "composition", "family": family, "depth": 2}})
    spans = [span for one in examples(data, "train", range(30)) for span in one.spans]
    marked = any(span.string for span in spans if span.role.label in ("state", "value"))
    assert marked == FAMILIES[family].has_strings
