"""Composition programs: functions mean what the literature says; nested and flattened forms agree."""

import ast
import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remedy import rng
from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import example
from remedy.data_gen.execution.program import Program
from remedy.data_gen.execution.tracer import trace
from remedy.data_gen.splits import SPLITS, split_of, text_hash
from remedy.data_gen.tasks.composition import CompositionTask, compose, listed
from remedy.data_gen.tasks.families import FAMILIES, LETTERS, expression
from remedy.settings import ConfigError, build

MEANINGS = [
    ("deterministic_shuffle", ("abcd",), "adcb"),
    ("deterministic_shuffle", ("abcdef",), "afedcb"),
    ("repeat_str", ("ab", 3), "ababab"),
    ("remove_vowels", ("aBcEd",), "Bcd"),
    ("sort_chars", ("bAa",), "Aab"),
    ("reverse_words", ("one  two",), "two one"),
    ("add_prefix", ("b", "a"), "ab"),
    ("add_suffix", ("a", "b"), "ab"),
    ("interlace_str", ("abc", "12"), "a1b2c"),
    ("rotate_str", ("abcd", 5), "bcda"),
    ("mirror_str", ("abc",), "abccba"),
    ("alternate_case", ("abCD",), "aBcD"),
    ("shift_chars", ("xyZ1", 3), "abC1"),
    ("vowel_to_number", ("aEiOux",), "12345x"),
    ("insert_separator", ("abc", "-"), "a-b-c"),
    ("duplicate_every_char", ("ab",), "aabb"),
    ("fancy_brackets", ("ab",), "«a»«b»"),
    ("compress_repeats", ("aabba",), "aba"),
    ("recursive_reverse", ("abc",), "cba"),
    ("loop_concat", ("ab", 2), "abab"),
    ("while_rotate", ("abc", 2), "cab"),
    ("recursive_interlace", ("abc", "12"), "a1b2c"),
    ("loop_filter_nonalpha", ("a1b-",), "ab"),
    ("verify_even_length", ("abc",), "ab"),
    ("backchain_add_digit", ("abc", 2), "abc1"),
    ("backchain_add_digit", ("ab3", 2), "ab3"),
    ("backchain_palindrome", ("ab", 2), "abba"),
    ("backchain_palindrome", ("aba", 2), "aba"),
]
OF_SEQUENCES = [
    ("mirror", ("abc",), "abccba"),
    ("reverse", ((1, 2, 3),), (3, 2, 1)),
    ("rotate", ([1, 2, 3], 4), [2, 3, 1]),
    ("repeat", (("a", "b"), 2), ("a", "b", "a", "b")),
    ("interlace", ("abc", "12"), "a1b2c"),
    ("filter_out", ([1, 2, 1], [1]), [2]),
]


@pytest.mark.parametrize(("name", "arguments", "meaning"), MEANINGS + OF_SEQUENCES)
def test_functions_mean_what_the_literature_says(name: str, arguments: tuple[Any, ...], meaning: Any) -> None:
    space: dict[str, Any] = {}
    exec({**FAMILIES["strings"].sources, **FAMILIES["sequences_str"].sources}[name], space)
    assert space[name](*arguments) == meaning


def test_all_25_functions_and_7_further_domains_are_registered() -> None:
    assert len(FAMILIES["strings"].functions) == 25
    assert {name for name, _, _ in MEANINGS} == FAMILIES["strings"].functions.keys()
    zoo = [family for name, family in FAMILIES.items() if not name.startswith(("string", "sequences"))]
    assert len(zoo) == 7
    assert all(len(family.functions) >= 8 for family in zoo)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(list(FAMILIES)), st.integers(1, 8), st.integers(0, 10**9))
def test_nested_and_flattened_forms_are_total_and_agree(family: str, depth: int, index: int) -> None:
    answers, identities = [], set()
    for flatten in (False, True):
        config = CompositionTask(family=family, depth=depth, flatten=flatten)
        composed = compose(config, rng.Draws(rng.key(0, 0, index)))
        assert len(composed.functions) == depth
        result = trace(Program(composed.code)).result
        assert result is not None
        answers.append(result)
        identities.add(composed.identity)
    assert answers[0] == answers[1]
    assert len(identities) == 1
    kinds = {"strings": "str", "booleans": "bool", "bitwise": "int", "math": "int", "characters": "str"}
    kinds |= {"lists": "list", "sets": "set", "dicts": "dict", "sequences_str": "str", "sequences_list_str": "list"}
    kinds |= {"sequences_list_int": "list", "sequences_tuple": "tuple", "string_operations": "str"}
    assert answers[0].type == kinds[family]


@pytest.mark.parametrize(
    ("functions", "written"),
    [
        ("reverse concat", "'abc'[::-1] + 'x'"),
        ("concat reverse", "('abc' + 'x')[::-1]"),
        ("repeat replace remove", "('abc' * 2).replace('a', 'z').replace('a', '')"),
        ("drop_first drop_last upper", "'abc'[1:][:-1].upper()"),
    ],
)
def test_string_operations_are_written_as_expressions(functions: str, written: str) -> None:
    family, others = FAMILIES["string_operations"], {"concat": ["'x'"], "replace": ["'a'", "'z'"], "remove": ["'a'"]}
    nested = "'abc'"
    for name in functions.split():
        nested = expression(family.sources[name], [nested, *others.get(name, [])])
    assert nested == written


def parallel(**task: Any) -> CompositionTask:
    return CompositionTask(**{"parallel": 12, "split_by": "inputs", **task})


PARALLEL: list[dict[str, Any]] = [
    {"family": "string_operations", "input_length": (3, 5)},
    {"family": "string_operations", "alphabet": "0123456789", "input_length": (3, 4), "depth": (1, 3)},
    {"family": "strings", "depth": 2, "alphabet": "abc"},
    {"family": "lists"},
    {"family": "characters", "parallel": 2, "functions": ("char_upper", "char_next")},
]


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(PARALLEL), st.sampled_from([*SPLITS]), st.integers(0, 10**6), st.integers(0, 10**6))
def test_parallel_lines_are_independent_and_use_each_function_equally_often(
    given: dict[str, Any], split: str, seed: int, index: int
) -> None:
    task = parallel(**given)
    one, again = (task.draw(split, indices, seed, False)[-1] for indices in ([index], [index + 1, index]))
    assert one == again
    names = str(one.slices["functions"]).split()
    counts = [names.count(name) for name in task.function_names()]
    assert max(counts) - min(counts) <= 1
    *lines, last = ast.parse(one.program.code).body[-1].body  # type: ignore[attr-defined]
    assert (len(lines), ast.unparse(last)) == (task.parallel, "return t")
    for line in lines:
        assert [target.id for target in line.targets] == ["t"]
        assert "t" not in {node.id for node in ast.walk(line.value) if isinstance(node, ast.Name)}
    result = trace(one.program).result
    space: dict[str, Any] = {}
    exec(one.program.code, space)
    assert result is not None
    assert result.text == repr(space["main"]())


@pytest.mark.parametrize("given", PARALLEL)
def test_no_input_of_parallel_lines_is_in_two_splits(given: dict[str, Any]) -> None:
    task = parallel(**given)
    inputs: dict[str, set[str]] = {}
    for split in SPLITS:
        made = [compose(task, rng.Draws(rng.key(0, 0, index)), split, index) for index in range(20)]
        assert all(len({*one.inputs}) == len(one.inputs) >= task.parallel for one in made)
        inputs[split] = {text for one in made for text in one.inputs}
        assert {split_of(text_hash(text)) for text in inputs[split]} == {split}
        drawn = task.draw(split, range(20), 0, False)
        assert len({one.identity for one in drawn}) == 20 or given["family"] == "characters"
    if "concat" in task.function_names():  # its second word is an input too
        literals = {
            repr(node.value) for one in drawn for node in ast.walk(ast.parse(one.program.code)) if is_word(node)
        }
        assert not literals & (inputs["train"] | inputs["validation"])


def is_word(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) > 1


def test_single_compositions_can_be_split_by_their_inputs() -> None:
    task = CompositionTask(family="characters", functions=("char_upper", "char_next"), depth=2, split_by="inputs")
    parts = {split: {*(one.inputs for one in listed(task, split) or ())} for split in SPLITS}
    assert sorted(itertools.chain(*parts.values())) == sorted({(repr(letter),) for letter in LETTERS + LETTERS.upper()})
    for split, inputs in parts.items():
        drawn = {one.identity for one in task.draw(split, range(40), 0, False)}
        assert drawn <= {one.identity for one in listed(task, split) or () if one.inputs in inputs}


def test_functions_held_out_of_parallel_lines_are_in_no_training_program() -> None:
    task = parallel(family="string_operations", held_out_functions=("upper",))
    used = {
        split: {*str(one.slices["functions"]).split()} for split in SPLITS for one in task.draw(split, [3], 0, False)
    }
    assert [split for split in SPLITS if "upper" in used[split]] == ["validation", "test"]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"split_by": "program"}, "parallel 12: programs of several lines need split_by: inputs"),
        ({"flatten": True}, "task.flatten True does nothing in programs of 12 parallel lines"),
        ({"held_out_depths": [1]}, "held_out_depths .* does nothing in programs of 12 parallel lines"),
        ({"parallel": 0}, "parallel"),
    ],
)
def test_settings_that_parallel_lines_have_no_use_for_are_refused(given: dict[str, Any], says: str) -> None:
    task = {"kind": "composition", "parallel": 12, "split_by": "inputs", **given}
    with pytest.raises(ConfigError, match=says):
        build(DataConfig, {"task": task}, "f.yaml")


def test_too_few_inputs_for_parallel_lines_are_counted() -> None:
    says = "8 of the 100 different inputs of family string_operations are of the test split, too few for programs of 12 lines"
    with pytest.raises(ConfigError, match=says):
        parallel(family="string_operations", alphabet="0123456789", input_length=(2, 2)).draw("test", [0], 0, False)


SEQUENCES = ["sequences_str", "sequences_list_str", "sequences_list_int", "sequences_tuple"]


def as_text(value: Any) -> str:
    return "".join(LETTERS[item] if isinstance(item, int) else item for item in value)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 4), st.booleans(), st.integers(0, 10**6))
def test_isomorphic_types_have_the_same_frames_and_only_the_values_differ(
    depth: int, flatten: bool, index: int
) -> None:
    found = []
    for family in SEQUENCES:
        task = {"kind": "composition", "family": family, "depth": depth, "flatten": flatten}
        found.append(example(DataConfig.model_validate({"task": task}), "test", index))
    assert len({one.identity for one in found}) == 1
    first, *others = (one.trace.frames for one in found)
    # Where a line stands in its program: those of functions have one text, those of main hold the input.
    lines = [[one.trace.program.physical_lines().index(frame.source) for frame in one.trace.frames] for one in found]
    for frames in others:
        assert [frame.event for frame in frames] == [frame.event for frame in first]
        assert [list(frame.locals or {}) for frame in frames] == [list(frame.locals or {}) for frame in first]
    assert lines[1:] == lines[:1] * 3
    assert {as_text(ast.literal_eval(one.answer)) for one in found} == {ast.literal_eval(found[0].answer)}


@pytest.mark.parametrize(
    ("settings", "count"),
    [
        ({"functions": ["bool_not"]}, 2),
        ({"functions": ["bool_xor"]}, 4),
        ({"functions": ["bool_majority"]}, 8),
        ({"depth": 2}, 2 * 17**2),  # one function of one value, six of two, one of three
        ({"family": "characters", "functions": ["char_lower"]}, 52),
        ({"family": "math", "functions": ["math_absolute"]}, 199),
        ({"family": "bitwise", "functions": ["bits_reverse"]}, 256),
        ({"family": "strings"}, None),
        ({"family": "math", "depth": 3}, None),
    ],
)
def test_small_spaces_are_listed_and_every_program_is_there_once(settings: dict[str, Any], count: int | None) -> None:
    data = DataConfig.model_validate({"task": {"kind": "composition", "family": "booleans", **settings}})
    assert data.task.count("all") == count
    assert data.task.count("train") is None
    if count is None:
        return
    everything = [one.identity for one in data.task.draw("all", range(count), 0, False)]
    assert len(set(everything)) == count
    drawn = {one.identity for one in data.task.draw("train", range(40), 0, False)} if count > 8 else set()
    parts = {split: data.task.count(split) or 0 for split in ("validation", "test")}
    for split, size in parts.items():
        part = {one.identity for one in data.task.draw(split, range(size), 0, False)} if size else set()
        assert len(part) == size
        assert part <= set(everything)
        assert not part & drawn
    other = [one.identity for one in data.task.draw("all", range(count), 1, False)]
    assert sorted(other) == sorted(everything)
    assert other != everything or count < 4


def test_the_split_all_of_a_large_space_has_programs_of_every_split() -> None:
    data = DataConfig.model_validate({"task": {"kind": "composition"}})
    drawn = data.task.draw("all", range(60), 0, False)
    assert {split_of(text_hash(one.identity)) for one in drawn} == {"train", "validation", "test"}
    permutation = DataConfig.model_validate({"task": {"kind": "permutation"}})
    assert len({one.identity for one in permutation.task.draw("all", range(60), 0, True)}) == 60
