"""Settings of an evaluation: which diagnostics, over which conditions."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from remedy.data_gen.examples import DataConfig
from remedy.data_gen.registry import one_of
from remedy.data_gen.rewrites import Rewriting
from remedy.data_gen.roles import ROLES, Role
from remedy.data_gen.settings import Settings
from remedy.data_gen.splits import text_hash
from remedy.data_gen.tasks.families import FAMILIES
from remedy.data_gen.tasks.programs import ProgramsTask
from remedy.data_gen.traces.string_encodings import EncodingName
from remedy.eval.decoding import FORCINGS, FREE

Forcing = str | tuple[str, ...]


def fed_roles(forcing: Forcing) -> frozenset[Role]:
    """The roles a forcing feeds: a name of FORCINGS, or a list of role names."""
    if isinstance(forcing, str):
        return FORCINGS[forcing]
    return frozenset(ROLES[name] for name in forcing)


def forcing_name(forcing: Forcing) -> str:
    """How records and reports call a forcing."""
    return forcing if isinstance(forcing, str) else "+".join(forcing)


class _Diagnostic(Settings):
    forcing: tuple[Forcing, ...] = Field(default=("free",), min_length=1)
    examples: int = Field(default=100, ge=1)

    @field_validator("forcing")
    @classmethod
    def _known(cls, value: tuple[Forcing, ...]) -> tuple[Forcing, ...]:
        names = list(ROLES)
        for forcing in value:
            if isinstance(forcing, str) and forcing not in FORCINGS:
                raise ValueError(f"unknown forcing {forcing!r}; valid: {', '.join(FORCINGS)}, or a list of roles")
            if not isinstance(forcing, str) and not set(forcing) <= set(names):
                raise ValueError(f"a forcing lists roles among {', '.join(names)}")
            fed = fed_roles(forcing)
            if Role.CONTEXT not in fed or (fed != FREE and Role.STRUCTURE not in fed):
                raise ValueError(
                    "a forcing feeds context, and structure too unless it feeds nothing else: it marks where runs end"
                )
        return value


class PermutationDiagnostic(_Diagnostic):
    """Final-state accuracy by length, spacing and forcing. No `every`: the spacing the data is configured with."""

    kind: Literal["permutation"] = "permutation"
    lengths: tuple[int, ...] = Field(default=(8, 16, 32, 64, 128), min_length=1)
    every: tuple[float, ...] = ()


class CompositionDiagnostic(_Diagnostic):
    """Atomic accuracy per function (`examples` each), then accuracy by depth, nested and flattened."""

    kind: Literal["composition"] = "composition"
    families: tuple[Annotated[str, one_of(FAMILIES)], ...] = Field(default=("strings",), min_length=1)
    functions: tuple[str, ...] = ()
    depths: tuple[int, ...] = (2, 3, 4, 5)
    forms: tuple[Literal["nested", "flattened"], ...] = ("nested", "flattened")


class CodeDiagnostic(Settings):
    """Programs traced as code: `programs`, or those the data is configured with, as written and under each of `rewrites`.

    `forcing`: `free` (the model writes the whole trace), `action_forced` (its states carry on from true actions) and `direct` (it
    writes the returned value at once, without a trace). `examples`: the first so many programs; if not given all, or 100 of
    generated ones. `every`, `show`, `strings`: how traces are written, one condition each; by default as the data is configured.
    """

    kind: Literal["code"] = "code"
    programs: tuple[ProgramsTask, ...] = ()
    forcing: tuple[Literal["free", "action_forced", "direct"], ...] = Field(
        default=("free", "action_forced", "direct"), min_length=1
    )
    rewrites: tuple[Rewriting, ...] = Field(default=("none",), min_length=1)
    examples: int | None = Field(default=None, ge=1)
    every: tuple[float, ...] = ()
    show: tuple[Literal["full", "diff"], ...] = ()
    strings: tuple[EncodingName, ...] = ()


AnyDiagnostic = PermutationDiagnostic | CompositionDiagnostic | CodeDiagnostic


class EvalConfig(Settings):
    """`data`: overrides of the data configuration stored with the checkpoint, or all of it for a checkpoint without one.

    `budget`: most tokens a model may write freely before its trace counts as truncated. `split`: of generated data, and of the
    programs of `trained_on` (by default, those that the run's own configuration names); other programs are all evaluated.
    """

    diagnostics: tuple[Annotated[AnyDiagnostic, Field(discriminator="kind")], ...]
    data: dict[str, Any] = {}
    split: Literal["validation", "test"] = "test"
    trained_on: ProgramsTask | None = None
    batch_size: int = Field(default=100, ge=1)
    budget: int = Field(default=4096, ge=1)
    threads: int | None = Field(default=None, ge=1)


class Condition(Settings):
    """One cell of a diagnostic's grid: the data to decode, how, and the labels its records carry."""

    diagnostic: str
    data: DataConfig
    forcing: Forcing
    examples: int
    split: str
    labels: dict[str, int | float | str]

    @property
    def slug(self) -> str:
        """A file name that is this condition's alone."""
        parts = [self.diagnostic, *(f"{key}={value}" for key, value in self.labels.items())]
        name = "__".join(parts)
        short = name.replace("/", "-").replace(" ", "")
        return short if len(short.encode()) <= 200 else f"{self.diagnostic}__{text_hash(name):016x}"
