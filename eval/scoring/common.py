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
from remedy.data_gen.window_examples import context_size, windows
from remedy.eval.decoding.cursor import Generated, ends_frame
from remedy.eval.decoding.forcings import ANSWERS, TEACHER_FORCED
from remedy.eval.decoding.memory import RememberedTokens
from remedy.eval.records.failures import TOO_LONG, UNTRACED, Failure
from remedy.eval.records.schema import PARTS, ConstraintEffect, ErrorDenominators, FrameCounts, Score
from remedy.eval.scoring.operations import causing_frame, operation_of
from remedy.models.tokenizer import Encoded, TraceTokenizer

T = TypeVar("T", str, int)


class FirstError(ErrorDenominators):
    """Fields of a score that locate the first error."""

    frames_right: int
    first_error_frame: int
    first_error_token: int
    first_error_role: str
    first_error_in_string: bool


class DecodedExample(NamedTuple):
    """Example with its true tokens and the model's output."""

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
        return bool(self.fed & ANSWERS)

    @property
    def wrote(self) -> frozenset[Role]:
        roles = self.truth.roles
        return frozenset(Role(role) for run in self.runs for role in set(roles[run.start : run.stop]))

    def in_full(self, frames: Sequence[ReadFrame | None]) -> list[ReadFrame | None]:
        """Return frames with every `..` replaced by the value shown before it.

        That is the fed value, or else the model's own. Frames are aligned with the true ones.
        """
        true = self.spelled()
        first = true[: len(true) - len(self.example.frames)]
        # Frames after the true end were fed nothing: then all are read by what the model wrote.
        past = true if Role.STATE in self.fed and len(frames) <= len(self.example.frames) else None
        return restore([*first, *frames], past)[len(first) :]

    def spelled(self) -> list[ReadFrame]:
        """Return the true frames as written, after the seeded one if any."""
        example, encoding = self.example, self.data.string_encoding
        frames = [frame.as_read(encoding) for frame in example.frames]
        seeded = example.trace.frames[:1] if example.frames and example.frames[0].number > 0 else []
        return [
            *(WrittenFrame(0, frame.event, frame.source, frame.locals, None).as_read(encoding) for frame in seeded),
            *frames,
        ]

    def written(self, runs: Sequence[Generated]) -> list[int]:
        """Return the sequence after the context, with these runs in place of true tokens."""
        return spliced(self.truth.ids, runs)[context_size(self.truth.roles) :]


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
    cause = frames[causing_frame(frames, number, role is Role.VALUE)]
    # A returning frame shows no state, so take that of the line which returns.
    state = cause.locals if cause.locals is not None else frames[causing_frame(frames, number, False)].locals
    return operation_of(example.trace.program, cause.source, state)


def count_frames(
    writes: Collection[Role], rights: Mapping[Role, Mapping[int, bool]], example: Example | None
) -> FrameCounts:
    """Count right states, actions and values of a trace, and of their kinds.

    `writes`: roles that the model writes. `rights`: by role and frame number. `example`: None if not decoded.
    """
    kinds_of_frames = kinds(example.trace, example.frames, example.reveal) if example else {}
    counts: dict[str, float | None] = {}
    for role, (share, count) in PARTS.items():
        right = rights.get(role, {})
        is_written = role in writes or (role is Role.ACTION and Role.EVENT in writes)
        numbers_by_kind = {name: kinds_of_frames.get(name, ()) for name in KINDS[role]}
        share_exact = sum(right.values()) / len(right) if right else None if example else 0.0
        counts |= {share: share_exact if is_written else None, count: len(right)}
        for name, numbers in numbers_by_kind.items():
            counts[name] = len(numbers)
            counts[f"{name}_right"] = sum(right[number] for number in numbers) if is_written else None
    return cast(FrameCounts, counts)


def share_right(decoded: DecodedExample, roles: Collection[Role], part: int, whole: int) -> float | None:
    """Return `part / whole`; None if the model wrote none of the roles."""
    return part / whole if whole and not decoded.wrote.isdisjoint(roles) else None


def error_denominators(
    decoded: DecodedExample, error: int | None = None, role: Role | None = None
) -> ErrorDenominators:
    """Count the denominators of first-error rates.

    `error`: position of the first error, if any. `role`: its role.
    """
    roles = decoded.truth.roles
    counts = Counter(
        roles[position]
        for run in decoded.runs
        for position in range(run.start, run.stop)
        if error is None or position <= error
    )
    if role is not None:  # an error counts itself, even if no true token of its role came before
        counts[role] = max(counts[role], 1)
    return _denominators(counts)


def _denominators(counts: Mapping[int, int]) -> ErrorDenominators:
    denominators = {f"out_of_{role.label}": counts.get(role, 0) for role in Role if role is not Role.CONTEXT}
    return cast(ErrorDenominators, denominators)


def constraint_effect(runs: Sequence[Generated]) -> ConstraintEffect:
    origins = [origin for run in runs for origin in run.origins]
    changed = [origin.changed for origin in origins]
    return {
        "certain_tokens": sum(origin.certain for origin in origins),
        "masked_tokens": sum(origin.choices > 0 for origin in origins),
        "cut_mass": sum(origin.cut for origin in origins),
        "changed_tokens": None if None in changed else sum(map(bool, changed)),
    }


def errorless(decoded: DecodedExample, frames: int, tokenizer: TraceTokenizer) -> Score:
    """Return a score without errors, still without answer, validity and matches."""
    return {
        **not_decoded(decoded.example, frozenset(), answer_fed=False),
        "written_tokens": sum(run.written_count for run in decoded.runs),
        "read_tokens": read_tokens(decoded, tokenizer),
        "frames": frames,
        "frames_right": frames,
        "failure": "",
        **constraint_effect(decoded.runs),
        **error_denominators(decoded),
    }


def first_error(decoded: DecodedExample, index: int, number: int, position: int, role: Role) -> FirstError:
    """Locate the first error.

    `index`: of the frame. `number`: the frame's in the trace. `position`: in the true sequence.
    """
    return {
        "frames_right": index,
        "first_error_frame": number,
        "first_error_token": position,
        "first_error_role": role.label,
        "first_error_in_string": bool(decoded.truth.strings[position]),
        **error_denominators(decoded, position, role),
    }


def followed_another(lines: Sequence[T], index: int, written: T) -> bool:
    """Return whether `written` follows another occurrence of the line before it.

    It stands in place of `lines[index]` of the true trace.
    """
    if not 0 < index < len(lines) or written == lines[index]:
        return False
    return any(before == lines[index - 1] and after == written for before, after in pairwise(lines))


def not_decoded(example: Example, writes: Collection[Role], answer_fed: bool) -> Score:
    """Return the score of an example whose trace is over the limit, or whose program could not run.

    `writes`: roles that the model would have written.
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
        **count_frames(writes, {}, None),
        "key_match": nothing(Role.QUERY, Role.STATE),
        "key_value_match": nothing(Role.STATE),
        "respelled": 0,
        **constraint_effect(()),
        **_denominators({}),
    }


def read_tokens(decoded: DecodedExample, tokenizer: TraceTokenizer) -> int:
    """Count the tokens that the plain loop reads with a cache.

    When a frame is forgotten, all tokens still seen are read again. Drafts are not counted.
    """
    truth, memory = decoded.truth, decoded.data.memory
    if decoded.parallel:
        return sum(window.size for window in windows(*truth[:3], memory, tokenizer.special_ids))
    count, uncounted = 0, True
    remembered = RememberedTokens(truth.ids[: context_size(truth.roles)], memory, tokenizer.special_ids)
    for token, closes in _tokens_read(decoded, tokenizer):
        seen, uncounted = remembered.size + 1, True
        if remembered.take(token, closes):
            count, uncounted = count + seen, False
    return count + remembered.size * uncounted


def _tokens_read(decoded: DecodedExample, tokenizer: TraceTokenizer) -> Iterator[tuple[int, bool]]:
    """Yield tokens from the context to the last written, and whether each ends a frame."""
    ids, frames = decoded.truth.ids, decoded.truth.frames
    exact = FORMATS[decoded.data.format].one_token
    frame_end = None if exact or decoded.structure_fed else tokenizer.special_ids[Special.FRAME_SEP]

    position = context_size(decoded.truth.roles)
    written = [run for run in decoded.runs if run.ids]
    for run in written:
        yield from ((ids[index], ends_frame(frames, index)) for index in range(position, run.start))
        for index, token in enumerate(run.ids, start=run.start):
            yield token, ends_frame(frames, index) if exact else token == frame_end
        position = run.stop
