"""Models that look the truth up and err where they are told to: whatever a score says of them is known beforehand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from math import inf, isclose
from types import SimpleNamespace
from typing import Any, NamedTuple

import pandas as pd
import torch
from torch import Tensor, nn

from remedy.data_gen.config import DataConfig
from remedy.data_gen.roles import Role, Special
from remedy.data_gen.traces.render import FORMATS
from remedy.data_gen.window_examples import windows
from remedy.eval.config import EvalConfig
from remedy.eval.decoding.forcings import ANSWERS, fed_roles, feeds_answers, forcing_name
from remedy.eval.diagnostics import Condition
from remedy.eval.evaluate import run_condition
from remedy.eval.generators.speculative import LocalGenerator
from remedy.eval.records.schema import NULLABLE
from remedy.eval.records.summary import ConditionSummary, summarise
from remedy.eval.scoring.batch import written_roles
from remedy.models.encoding import encoded_examples
from remedy.models.reader import ModelReader
from remedy.models.tokenizer import Encoded, TraceTokenizer
from remedy.settings import build
from tests.tiny_models import tokenizer_for

ACTS = frozenset({Role.EVENT, Role.ACTION})


class Known(NamedTuple):
    """A sequence of a mock model: what it is told by, and how it goes on."""

    prompt: list[int]
    ids: list[int]


class Mock(nn.Module):
    """A causal language model that finds the longest prompt it knows, and goes on as known at the same place."""

    def __init__(self, known: Sequence[Known], vocabulary: int) -> None:
        super().__init__()
        self.config = SimpleNamespace(model_type="mock")
        self.embedding = nn.Embedding(vocabulary, 1)
        self.known = sorted(known, key=lambda one: len(one.prompt), reverse=True)

    def get_input_embeddings(self) -> nn.Embedding:
        return self.embedding

    def get_output_embeddings(self) -> None:
        return None

    def forward(self, input_ids: Tensor, logits_to_keep: int = 0) -> SimpleNamespace:
        vocabulary = self.embedding.num_embeddings
        following = torch.zeros_like(input_ids)
        for row, ids in enumerate(input_ids.tolist()):
            found = next((known for prompt, known in self.known if ids[: len(prompt)] == prompt), None)
            # Of what it does not know, something that depends on all of it, so that no state can be taken to be carried.
            after = [*found[1:], *[0] * len(ids)] if found is not None else list(accumulate(ids))
            following[row] = torch.tensor(after[: len(ids)]) % vocabulary
        following = following[:, -logits_to_keep:]
        logits = torch.zeros(*following.shape, vocabulary).scatter_(-1, following[..., None], 9.0)
        return SimpleNamespace(logits=logits, loss=None)


def sequences(
    truth: Encoded, ids: Sequence[int], condition: Condition, special_ids: Mapping[Special, int]
) -> Iterator[Known]:
    """What a model that writes `ids` in place of the true ones sees under a condition, and what it writes there: one sequence, or
    with a memory one for every window. Its own frames end where it says so."""
    fed, memory = fed_roles(condition.forcing), condition.data.memory
    frames, frame_end = list(truth.frames), special_ids.get(Special.FRAME_SEP)
    if Role.STRUCTURE not in fed and any(
        (one == frame_end) != (other == frame_end) for one, other in zip(truth.ids, ids)
    ):
        frames = [min(frame, 0) for frame in frames]  # it closes none
    read = [true if role in fed else own for true, role, own in zip(truth.ids, truth.roles, ids)]
    context = list(truth.roles).count(Role.CONTEXT)
    for given, start, stop in windows(read, truth.roles, frames, memory, special_ids):
        prompt = [read[at] for begin, end in given or ((0, context),) for at in range(begin, end)]
        yield Known(prompt, [*prompt, *ids[max(start, context) : stop]])


class Kind(NamedTuple):
    """A mock model: which roles it is wrong in under a forcing, in every frame or in one alone."""

    name: str
    wrong: Callable[[Any], frozenset[Role]]
    once: bool = False


KINDS = (
    Kind("right everywhere", lambda forcing: frozenset()),
    Kind("right only where it is fed", lambda forcing: frozenset(Role) - fed_roles(forcing) or frozenset(Role)),
    Kind("wrong in every state and value", lambda forcing: ANSWERS),
    Kind("wrong in every state", lambda forcing: frozenset({Role.STATE})),
    Kind("wrong in every action", lambda forcing: frozenset({Role.ACTION})),
    Kind("wrong in every event", lambda forcing: frozenset({Role.EVENT})),
    Kind("wrong in one action", lambda forcing: frozenset({Role.ACTION}), once=True),
)
FORCINGS: tuple[Any, ...] = (
    "free",
    "line_forced",
    "action_forced",
    "state_forced",
    "teacher_forced",
    ("context", "structure"),
    ("context", "structure", "action"),
    ("context", "structure", "state"),
    ("context", "structure", "value"),
    ("context", "structure", "state", "value", "query"),
    ("context", "structure", "event", "action", "query", "state"),
)
PERMUTATION = {"kind": "permutation", "n": 3, "moves": "swaps", "length": 3}
STRINGS = {"kind": "composition", "depth": 1, "functions": ["mirror_str"], "input_length": [2, 2]}
DIFF = {"reveal": {"locals": "diff"}}
RAISING = {"kind": "programs", "path": "tests/fixtures/raising.jsonl", "tracer": {"isolation": "trusted"}}
OPEN_CALLS = {"frames": 1, "open_calls": True}


class Case(NamedTuple):
    """A diagnostic's settings over data in a format."""

    diagnostic: dict[str, Any]
    data: dict[str, Any]


def permutation(format: str, data: Mapping[str, Any] | None = None, **task: Any) -> Case:
    diagnostic = {"kind": "permutation", "lengths": [3]}
    return Case(diagnostic, {"task": {**PERMUTATION, **task}, "format": format, **(data or {})})


def composition(format: str, depths: Sequence[int] = (), **task: Any) -> Case:
    return Case({"kind": "composition", "depths": list(depths)}, {"task": {**STRINGS, **task}, "format": format})


def programs(format: str, task: Mapping[str, Any], answer_only: bool = False) -> Case:
    return Case({"kind": "programs", "answer_only": [answer_only]}, {"task": task, "format": format})


def two_by_two(format: str) -> Case:
    return Case({"kind": "two_by_two"}, {"task": PERMUTATION, "format": format})


CASES = {
    **{
        f"permutation, {name}": permutation(name) for name in ("cwm", "repl", "symbolic", "cwm_numbered", "cwm_numbers")
    },
    "permutation, cwm, answer in the state": permutation("cwm", DIFF, answer="none"),
    "permutation, cwm_numbered, a memory of one frame": permutation("cwm_numbered", {"memory": 1}),
    "permutation, cwm_numbered, and open calls": permutation("cwm_numbered", {"memory": OPEN_CALLS}),
    "permutation, symbolic, a memory of two frames": permutation("symbolic", {"memory": 2}, distinct_values=True),
    "permutation, cwm_unseeded": permutation("cwm_unseeded", DIFF, answer="print"),
    "permutation, repl, marked lines": permutation("repl", {"reveal": {"spacing": inf, "at": 0.5}}),
    "permutation, symbolic, one in turn": permutation("symbolic", {"reveal": {"locals": "one_in_turn"}}),
    "composition, cwm": composition("cwm"),
    "composition, repl": composition("repl"),
    "composition, cwm, depth 2": composition("cwm", [2], functions=["add_prefix"]),
    "programs, cwm": programs("cwm", STRINGS),
    "programs, repl": programs("repl", STRINGS),
    "programs, symbolic": programs("symbolic", PERMUTATION),
    "programs, cwm, answer only": programs("cwm", STRINGS, answer_only=True),
    "programs, cwm, raising": programs("cwm", RAISING),
    **{f"two_by_two, {name}": two_by_two(name) for name in ("cwm", "repl", "symbolic")},
}


class Line(NamedTuple):
    """What a condition's summary says of a mock model, and what it must say: None where nothing is to be said."""

    case: str
    forcing: str
    kind: str
    said: dict[str, float | None]
    expected: dict[str, float | None]


def matrix(name: str, forcings: Sequence[Any] = FORCINGS, examples: int = 1) -> Iterator[Line]:
    """What a case's diagnostic says of every kind of mock model under the forcings that fit its data."""
    settings, given = CASES[name]
    data = build(DataConfig, given, name)
    tokenizer = tokenizer_for(data)
    fitting = [one for one in forcings if one != "line_forced" or FORMATS[data.format].events]
    if settings["kind"] != "two_by_two" and settings.get("answer_only") != [True]:
        settings = {**settings, "forcing": fitting}
    config = build(EvalConfig, {"diagnostics": [{**settings, "examples": examples}], "max_new_tokens": 2000}, name)
    for condition in config.diagnostics[0].conditions(data, "test"):
        batch = encoded_examples(condition.data, tokenizer, condition.split, range(condition.examples))
        truths = [truth for _, truth in batch]
        for kind in KINDS:
            if kind.name == "wrong in every event" and condition.forcing == "free" and data.reveal.locals == "diff":
                continue  # a diff says what has changed since a call, and where that is said wrongly, it says something else
            wrong = kind.wrong(condition.forcing)
            written = [mistaken(truth, wrong, kind.once, tokenizer) for truth in truths]
            ends = tokenizer.special_ids
            known = [one for pair in zip(truths, written) for one in sequences(*pair, condition, ends)]
            mock = Mock(known, tokenizer.vocab_size)
            rows, *_ = run_condition(LocalGenerator(ModelReader(mock), tokenizer), tokenizer, condition, config)
            (summary,) = summarise(pd.DataFrame(rows).assign(run="mock", **condition.labels).astype(NULLABLE))
            roles = {Role(role) for truth in truths for role in truth.roles}
            in_state = any(example.answer_in_state for example, _ in batch) or Role.VALUE not in roles
            empty = any(frame.locals == {} for example, _ in batch for frame in example.frames)
            rates = {what: summary["per_frame"].get(what) for what in ("states", "actions", "returns")}
            found = {"right": summary["right"], **rates}
            said = {what: None if one is None else one.mean for what, one in found.items()}
            must = expected(condition, kind, summary, roles, in_state, empty)
            yield Line(name, forcing_name(condition.forcing), kind.name, said, must)


def same(line: Line) -> bool:
    """Whether it says what it must."""
    pairs = zip(line.said.values(), line.expected.values(), strict=True)
    return all(one is other or (one is not None and other is not None and isclose(one, other)) for one, other in pairs)


def mistaken(truth: Encoded, wrong: frozenset[Role], once: bool, tokenizer: TraceTokenizer) -> list[int]:
    """The true sequence with a token of every frame's part of these roles replaced: the last of it that is a letter or a digit, or
    one that stands alone. `once`: of the second frame alone, or the only one. A wrong event is another event of its kind."""
    ids = list(truth.ids)
    events = {Special.CALL_SEP: Special.LINE_SEP, Special.LINE_SEP: Special.CALL_SEP}
    events |= {Special.RETURN_SEP: Special.EXCEPTION_SEP, Special.EXCEPTION_SEP: Special.RETURN_SEP}
    other = {tokenizer.special_ids[one]: tokenizer.special_ids[two] for one, two in events.items()}
    parts: dict[tuple[int, int], list[int]] = {}
    for at, (role, frame) in enumerate(zip(truth.roles, truth.frames)):
        if role != Role.CONTEXT and role in wrong:
            parts.setdefault((frame, role), []).append(at)
    chosen = (sorted(parts)[1:2] or sorted(parts)) if once else sorted(parts)
    for key in chosen:
        places = parts[key]
        at = next((at for at in reversed(places) if tokenizer.decode([ids[at]]).isalnum()), places[-1])
        ids[at] = other[ids[at]] if ids[at] in other else _plain(ids[at], tokenizer)
    return ids


def _plain(true: int, tokenizer: TraceTokenizer) -> int:
    """Another token that is not special, and a letter or digit if it has to be text."""
    rest = [one for one in [*range(true + 1, tokenizer.vocab_size), *range(true)] if not tokenizer.is_special(one)]
    return next((one for one in rest if (text := tokenizer.decode([one])).isalnum() and text.isascii()), rest[0])


def expected(
    condition: Condition, kind: Kind, summary: ConditionSummary, roles: set[Role], in_state: bool, empty: bool
) -> dict[str, float | None]:
    """What a score must be, from which roles the model writes, is wrong in, and the answer is read from."""
    writes = written_roles(condition) & roles
    wrong = kind.wrong(condition.forcing) & writes

    def share(part: frozenset[Role]) -> float | None:
        if not part & writes:
            return None
        if lost or not part & wrong:
            return 0.0 if lost else 1.0
        return 1 - summary["examples"] / summary["per_frame"]["actions"].size if kind.once else 0.0

    # Wrong everywhere is wrong in separators too, and a wrong state of no variables is none: what is then written freely cannot be
    # read. An exception in place of a return is another answer, and its value not the returned one.
    free = condition.forcing == "free"
    lost = free and (Role.STRUCTURE in wrong or (Role.STATE in wrong and empty))
    told = frozenset({Role.EVENT}) if free else frozenset()
    read = frozenset({Role.STATE if in_state else Role.VALUE})
    right = None if feeds_answers(condition.forcing) else 0.0 if (read | told) & wrong or lost else 1.0
    returned = frozenset({Role.VALUE})
    returns = 0.0 if told & wrong and returned & writes else share(returned)
    return {"right": right, "states": share(frozenset({Role.STATE})), "actions": share(ACTS), "returns": returns}
