"""Common parts of both scorers: decoded examples, first errors, counts and costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar, cast

from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import Example
from remedy.data_gen.execution.program import Frame
from remedy.data_gen.roles import Role, Special
from remedy.data_gen.traces.frames import WrittenFrame
from remedy.data_gen.traces.kinds import KINDS, kinds
from remedy.data_gen.traces.parse import ReadFrame, restore
from remedy.data_gen.traces.render import FORMATS
from remedy.data_gen.window_examples import windows
from remedy.eval.decoding.cursor import Generated
from remedy.eval.decoding.forcings import ANSWERS, TEACHER_FORCED
from remedy.eval.decoding.memory import RememberedTokens
from remedy.eval.records.failures import TOO_LONG, UNTRACED, Failure
from remedy.eval.records.schema import PARTS, Constrained, Counted, OutOf, Score
from remedy.eval.scoring.operations import causing_frame, operation_of
from remedy.models.tokenizer import Encoded, TraceTokenizer

T = TypeVar("T", str, int)


class FirstError(OutOf):
    """Fields of a score that locate the first error."""

    frames_right: int
    first_error_frame: int
    first_error_token: int
    first_error_role: str
    first_error_in_string: bool


class DecodedExample(NamedTuple):
    """Example with its true tokens and the model's output.

    `fed`: roles that were fed.
    """

    example: Example
    truth: Encoded
    runs: Sequence[Generated]
    fed: frozenset[Role]
    data: DataConfig

    @property
    def structure_fed(self) -> bool:
        """Return whether separators were fed, so that frames stand alone."""
        return Role.STRUCTURE in self.fed

    @property
    def parallel(self) -> bool:
        """Return whether every token was predicted after true ones."""
        return self.fed == TEACHER_FORCED

    @property
    def answer_fed(self) -> bool:
        """Return whether the answer was fed."""
        return bool(self.fed & ANSWERS)

    @property
    def wrote(self) -> frozenset[Role]:
        """Return the roles that the model wrote or predicted."""
        roles = self.truth.roles
        return frozenset(Role(role) for run in self.runs for role in set(roles[run.start : run.stop]))

    def in_full(self, frames: Sequence[ReadFrame | None]) -> list[ReadFrame | None]:
        """Return frames with every `..` replaced by the value shown before it.

        That is the fed value, or else the model's own. Frames are aligned with the true ones.
        """
        true = self.spelled()
        first = true[: len(true) - len(self.example.frames)]
        past = true if self.answer_fed and len(frames) <= len(self.example.frames) else None
        return restore([*first, *frames], past)[len(first) :]

    def spelled(self) -> list[ReadFrame]:
        """Return the true frames as written, after the seeded one if any."""
        example, encoding = self.example, self.data.string_encoding
        frames = [frame.as_read(encoding) for frame in example.frames]
        given = example.trace.frames[:1] if example.frames and example.frames[0].number > 0 else []
        return [*(WrittenFrame(0, one.event, one.source, one.locals, None).as_read(encoding) for one in given), *frames]

    def written(self, runs: Sequence[Generated]) -> list[int]:
        """Return the sequence after the context, with these runs in place of true tokens."""
        return spliced(self.truth.ids, runs)[self.start :]

    @property
    def start(self) -> int:
        return next((at for at, role in enumerate(self.truth.roles) if role != Role.CONTEXT), len(self.truth.ids))


ANSWER_CHARACTERS = 500
"""Number of characters of an answer that a record keeps."""


def storable(text: str) -> str:
    """Return the text with lone surrogates escaped, which Parquet cannot store."""
    return text.encode("utf-8", "backslashreplace").decode()


def spliced(true_ids: Sequence[int], runs: Sequence[Generated]) -> list[int]:
    """Return the sequence with runs in place of true tokens."""
    ids: list[int] = []
    end = 0
    for run in runs:
        ids += [*map(int, true_ids[end : run.start]), *run.ids]
        end = run.stop
    return [*ids, *map(int, true_ids[end:])]


def operation_behind(example: Example, number: int, role: Role | None) -> str:
    """Return the operation whose line caused an error of this role in frame `number`."""
    frames: Sequence[Frame] = example.trace.frames
    at = frames[causing_frame(frames, number, role is Role.VALUE)]
    # A frame that returns shows no state: its line's own frame does.
    state = at.locals if at.locals is not None else frames[causing_frame(frames, number, False)].locals
    return operation_of(example.trace.program, at.source, state)


def counted(writes: Collection[Role], rights: Mapping[Role, Mapping[int, bool]], example: Example | None) -> Counted:
    """Count right states, actions and values of a trace, and of their kinds.

    `writes`: roles that the model writes. `rights`: by role and frame number. `example`: None if not decoded.
    """
    of_kind = kinds(example.trace, example.frames, example.reveal) if example else {}
    found: dict[str, float | None] = {}
    for role, (share, count) in PARTS.items():
        right = rights.get(role, {})
        own = role in writes or (role is Role.ACTION and Role.EVENT in writes)
        mine = {name: of_kind.get(name, ()) for name in KINDS[role]}
        exact = sum(right.values()) / len(right) if right else None if example else 0.0
        found |= {share: exact if own else None, count: len(right), **{name: len(of) for name, of in mine.items()}}
        found |= {f"{name}_right": sum(right[one] for one in of) if own else None for name, of in mine.items()}
    return cast(Counted, found)


def share_right(decoded: DecodedExample, roles: Collection[Role], part: int, whole: int) -> float | None:
    """Return `part / whole`; None if the model wrote none of the roles."""
    return part / whole if whole and not decoded.wrote.isdisjoint(roles) else None


def out_of(decoded: DecodedExample, error: int | None = None, role: Role | None = None) -> OutOf:
    """Count the denominators of first-error rates.

    `error`: position of the first error, if any. `role`: its role.
    """
    roles = decoded.truth.roles
    counts = Counter(
        roles[at] for run in decoded.runs for at in range(run.start, run.stop) if error is None or at <= error
    )
    if role is not None:
        counts[role] = max(counts[role], 1)
    return _out_of(counts)


def _out_of(counts: Mapping[int, int]) -> OutOf:
    found = {f"out_of_{role.label}": counts.get(role, 0) for role in Role if role is not Role.CONTEXT}
    return cast(OutOf, found)


def constrained(runs: Sequence[Generated]) -> Constrained:
    """Measure the effect of a constraint on the runs."""
    held = [one for run in runs for one in run.held]
    changed = [one.changed for one in held]
    return {
        "certain_tokens": sum(one.certain for one in held),
        "masked_tokens": sum(one.choices > 0 for one in held),
        "cut_mass": sum(one.cut for one in held),
        "changed_tokens": None if None in changed else sum(map(bool, changed)),
    }


def errorless(decoded: DecodedExample, frames: int, tokenizer: TraceTokenizer) -> Score:
    """Return a score without errors, still without answer, validity and matches."""
    return {
        **not_decoded(decoded.example, frozenset(), answer_fed=False),
        "written_tokens": sum(run.asked for run in decoded.runs),
        "read_tokens": read_tokens(decoded, tokenizer),
        "frames": frames,
        "frames_right": frames,
        "failure": "",
        **constrained(decoded.runs),
        **out_of(decoded),
    }


def first_error(decoded: DecodedExample, place: int, number: int, token: int, role: Role) -> FirstError:
    """Return the fields that locate the first error.

    `place`: index of the frame. `number`: its number in the trace. `token`: true position.
    """
    return {
        "frames_right": place,
        "first_error_frame": number,
        "first_error_token": token,
        "first_error_role": role.label,
        "first_error_in_string": bool(decoded.truth.strings[token]),
        **out_of(decoded, token, role),
    }


def followed_another(lines: Sequence[T], place: int, written: T) -> bool:
    """Return whether `written` follows another occurrence of the line before it.

    `written` stands in place of `lines[place]` of the true trace.
    """
    if not 0 < place < len(lines) or written == lines[place]:
        return False
    return any(before == lines[place - 1] and after == written for before, after in pairwise(lines))


def not_decoded(example: Example, writes: Collection[Role], answer_fed: bool) -> Score:
    """Return the score of an example that is not decoded.

    Its trace is over the limit, or its program could not run. `writes`: roles that the model would have written.
    """

    def nothing(*roles: Role) -> float | None:
        return None if set(roles).isdisjoint(writes) else 0.0

    return {
        "right": None if answer_fed else False,
        "valid_format": False,
        "truncated": True,
        "written_tokens": 0,
        "read_tokens": 0,
        "frames": 0,
        "frames_right": 0,
        "first_error_frame": -1,
        "first_error_token": -1,
        "first_error_role": "",
        "first_error_in_string": False,
        "failure": Failure.TRUNCATED if example.outcome in {"ok", *TOO_LONG} else UNTRACED,
        "followed_another": False,
        "wrong_action": "",
        "value_type": "",
        "operation": "",
        "answer": "",
        "true_answer": example.answer[:ANSWER_CHARACTERS],
        **counted(writes, {}, None),
        "key_match": nothing(Role.QUERY, Role.STATE),
        "key_value_match": nothing(Role.STATE),
        "respelled": 0,
        **constrained(()),
        **_out_of({}),
    }


def read_tokens(decoded: DecodedExample, tokenizer: TraceTokenizer) -> int:
    """Count the tokens that the plain loop reads with a cache.

    When a frame is forgotten, all tokens still seen are read again. Drafts are not counted.
    """
    truth, memory = decoded.truth, decoded.data.memory
    if decoded.parallel:
        return sum(window.size for window in windows(*truth[:3], memory, tokenizer.special_ids))
    read, begun = 0, True
    sight = RememberedTokens(truth.ids[: decoded.start], memory, tokenizer.special_ids)
    for token, closes in _tokens_read(decoded, tokenizer):
        seen, begun = sight.size + 1, True
        if sight.take(token, closes):
            read, begun = read + seen, False
    return read + sight.size * begun


def _tokens_read(decoded: DecodedExample, tokenizer: TraceTokenizer) -> Iterator[tuple[int, bool]]:
    """Yield tokens from the context to the last written, and whether each ends a frame."""
    ids, frames = decoded.truth.ids, decoded.truth.frames
    exact = FORMATS[decoded.data.format].one_token
    frame_end = None if exact or decoded.structure_fed else tokenizer.special_ids[Special.FRAME_SEP]

    def last(at: int) -> bool:
        return at + 1 < len(frames) and frames[at] != frames[at + 1]

    at = decoded.start
    written = [run for run in decoded.runs if run.ids]
    for run in written:
        yield from ((ids[place], last(place)) for place in range(at, run.start))
        for place, token in enumerate(run.ids, start=run.start):
            yield token, last(place) if exact else token == frame_end
        at = run.stop
