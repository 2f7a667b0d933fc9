"""What both scorers share: spliced sequences, the operation behind an error, and the score of what is not decoded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from remedy.data_gen.examples import DataConfig, Example
from remedy.data_gen.execution.program import Frame
from remedy.data_gen.roles import Role
from remedy.eval.decoding import Generated
from remedy.eval.failures import TOO_LONG, UNTRACED, Failure
from remedy.eval.records import Score
from remedy.eval.scoring.operations import Operations, causing_frame
from remedy.models.tokenizer import Encoded


class Decoded(NamedTuple):
    """An example, its true tokens, and what a model wrote in their place when the roles `fed` were fed."""

    example: Example
    truth: Encoded
    runs: Sequence[Generated]
    fed: frozenset[Role]
    data: DataConfig

    @property
    def structure_fed(self) -> bool:
        """Whether the borders of frames were given, so that each frame stands alone."""
        return Role.STRUCTURE in self.fed

    def written(self, runs: Sequence[Generated]) -> list[int]:
        """What follows the context, with runs in the place of true tokens."""
        start = next((at for at, role in enumerate(self.truth.roles) if role != Role.CONTEXT), len(self.truth.ids))
        return spliced(self.truth.ids, runs)[start:]


ANSWER_CHARACTERS = 500
"""How much of an answer a record keeps."""


def storable(text: str) -> str:
    """The text without lone surrogates, which a model can write (as JSON's `\\ud800`) but no file of records can hold."""
    return text.encode("utf-8", "backslashreplace").decode()


def spliced(true_ids: Sequence[int], runs: Sequence[Generated]) -> list[int]:
    """The sequence that the model and the forcing made together."""
    ids: list[int] = []
    end = 0
    for run in runs:
        ids += [*map(int, true_ids[end : run.start]), *run.ids]
        end = run.stop
    return [*ids, *map(int, true_ids[end:])]


def operation_behind(example: Example, number: int, role: Role | None) -> str:
    """What the line does that brought about an error of this role in frame `number`."""
    frames: Sequence[Frame] = example.trace.frames
    at = frames[causing_frame(frames, number, role is Role.VALUE)]
    # A frame that returns shows no state: its line's own frame does.
    state = at.locals if at.locals is not None else frames[causing_frame(frames, number, False)].locals
    return Operations(example.trace.program).of(at.source, state)


def share(part: int, whole: int) -> float:
    """A share; of nothing, 1."""
    return part / whole if whole else 1.0


def not_decoded(example: Example) -> Score:
    """The score of an example that is not decoded: its true trace is over the limit, or its program could not be run."""
    return {
        "right": False,
        "valid_format": False,
        "truncated": True,
        "written_tokens": 0,
        "frames": 0,
        "frames_right": 0,
        "first_error_frame": -1,
        "first_error_token": -1,
        "first_error_role": "",
        "first_error_in_string": False,
        "failure": Failure.TRUNCATED if example.outcome in {"ok", *TOO_LONG} else UNTRACED,
        "value_type": "",
        "operation": "",
        "answer": "",
        "true_answer": example.answer[:ANSWER_CHARACTERS],
        "state_exact": 0.0,
        "action_exact": 0.0,
        "key_match": 0.0,
        "key_value_match": 0.0,
        "states": 0,
        "actions": 0,
    }
