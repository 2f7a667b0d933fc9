"""The calibrator of one model: hazards from signals, and how far a trace is believed at a stated risk. It is stored as plain JSON.

While a trace is written: `Trust.load(path)`, `check` it against the model, and give `follow(...)` each frame as it is finished.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from remedy.checksums import read_json, write_json
from remedy.data_gen.context_window import ALL, Memory, memory_name
from remedy.eval.calibration.bound import Bound
from remedy.eval.calibration.hazard import Hazard
from remedy.eval.calibration.signals import UNTOLD, signals_of
from remedy.eval.decoding.forcings import CONSTRAINED
from remedy.eval.records.generations import FrameProbability
from remedy.eval.records.schema import LabelValue
from remedy.settings import UserError

CURE = "fit it again with `remedy calibrate`"
RISK = 0.05
"""The risk at which a trace is believed if no other is asked for."""
Identity = dict[str, LabelValue | None]
"""What a calibrator is of: `weights` and `tokenizer_fingerprint` of the model, its `memory` (null, a number of frames, or the name of
one with open calls), and the labels of how traces are written and decoded (`records.COMMON`)."""


def identity_of(request: Mapping[str, Any], labels: Mapping[str, LabelValue]) -> Identity:
    """What an evaluation's condition is of. `request`: the evaluation's; `labels`: those that all conditions have."""
    checkpoint, memory = request["checkpoint"], request["data"].get("memory")
    name = str(labels.get("memory") or memory_name(None if memory is None else Memory.model_validate(memory)))
    return {
        "weights": checkpoint["weights"],
        "tokenizer_fingerprint": checkpoint["tokenizer_fingerprint"],
        **labels,
        "memory": None if name == ALL else int(name) if name.isdecimal() else name,
    }


class Belief(NamedTuple):
    """What is thought of a trace up to a frame: the frame's hazard, the probability that all frames so far are right (0 from a
    contradiction of what was written before on: `paths`), and whether they are believed. The first two are the calibrator's
    estimates; what is guaranteed is told of `believed` alone (`bound`)."""

    hazard: float
    right: float
    believed: bool


class Follower:
    """Takes the frames of one trace in turn."""

    def __init__(self, trust: Trust, risk: float, threshold: float) -> None:
        self.trust = trust
        self.risk = risk
        self.threshold = threshold
        self.tokens = 0
        self.right = 1.0
        self.believed = True

    def take(self, frame: FrameProbability, contradicts: bool | None = None) -> Belief:
        """The next frame of which the model wrote tokens. `contradicts`: whether it stands against what was written before; None: it
        cannot be told.

        Raises:
            UserError: a signal that the calibrator needs cannot be told.
        """
        self.tokens += frame.tokens
        found = signals_of(frame, self.tokens, str(self.trust.identity["forcing"]) in CONSTRAINED, contradicts)
        values = [found[name] for name in self.trust.hazard.signals]
        if None in values:
            missing = [name for name, value in zip(self.trust.hazard.signals, values) if value is None]
            raise UserError(f"the calibrator needs {', '.join(missing)}, which cannot be told of this trace")
        hazard = float(self.trust.hazard.of(np.array([values], dtype=float))[0])
        self.right *= 0.0 if contradicts else 1 - hazard
        self.believed = self.believed and self.right > self.threshold
        return Belief(hazard, self.right, self.believed)


class Trust(NamedTuple):
    """A calibrator. `bound`: of P where the first error is; `by_number`: of how early it is (minus its place), which is what believing
    a fixed number of frames takes; `programs`: clusters that it was fitted on; `fitted`: on what, and how well, for people."""

    identity: Identity
    hazard: Hazard
    bound: Bound
    by_number: Bound
    programs: frozenset[str]
    fitted: Mapping[str, Any]

    def follow(self, risk: float = RISK) -> Follower:
        """Follows one trace. `risk`: how often, over traces, a believed frame may be wrong.

        Raises:
            UserError: the risk is none, or too small for the programs that the calibrator was fitted on.
        """
        if not 0 < risk < 1:
            raise UserError(f"risk {risk:g}: between 0 and 1")
        threshold = self.bound.threshold(risk)
        if math.isinf(threshold) and threshold > 0:
            raise UserError(
                f"risk {risk:g}: with {self.bound.clusters} programs to judge by nothing can be believed; it takes "
                f"{math.ceil(1 / risk - 1)}, or a risk of {1 / (self.bound.clusters + 1):.2g}"
            )
        return Follower(self, risk, threshold)

    def check(self, identity: Identity, name: str) -> None:
        """Whether the calibrator is of this model, whose traces are written and decoded so. `name`: what the line calls the model.

        Raises:
            UserError: it is not.
        """
        if differing := [key for key in self.identity if self.identity[key] != identity.get(key)]:
            said = ", ".join(f"{key} {self.identity[key]} and not {identity.get(key)}" for key in differing)
            raise UserError(f"the calibrator is not of {name} as it is used here: it is of {said}: {CURE}")

    def check_served(self) -> None:
        """Whether all that the calibrator needs is told by a server that holds its model to a constraint.

        Raises:
            UserError: it is not.
        """
        if missing := [name for name in self.hazard.signals if name in UNTOLD]:
            raise UserError(
                f"the calibrator needs {', '.join(missing)}, which a server does not tell of what it chose under a constraint: fit one "
                "on an evaluation by the server, or remove backend"
            )

    def save(self, path: Path) -> None:
        """Write it, the whole file or none of it.

        Raises:
            OSError: it cannot be written.
        """
        content = {
            "identity": self.identity,
            "hazard": self.hazard._asdict(),
            "bound": self.bound._asdict(),
            "by_number": self.by_number._asdict(),
            "programs": sorted(self.programs),
            "fitted": dict(self.fitted),
        }
        write_json(path, content)

    @classmethod
    def load(cls, path: Path) -> Trust:
        """A calibrator that `save` wrote.

        Raises:
            DamagedFile: it is missing or damaged.
            UserError: it is no calibrator, or of another version.
        """
        content = read_json(path, CURE)
        try:
            return cls(
                content["identity"],
                Hazard(**_tuples(content["hazard"])),
                Bound(**_tuples(content["bound"])),
                Bound(**_tuples(content["by_number"])),
                frozenset(content["programs"]),
                content["fitted"],
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{path}: is no calibrator of this version of remedy ({error}): {CURE}") from None


def _tuples(content: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, Sequence) else value for name, value in content.items()}
