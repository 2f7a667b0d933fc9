"""Folder of an evaluation: its files, and which evaluation it holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from remedy.checksums import DamagedFile, digest_of, foreign_table, read_json, write_json
from remedy.data_gen.memory import Memory
from remedy.data_gen.splits import text_hash
from remedy.files import clear_partials, file_name
from remedy.messages import shown
from remedy.models.model_manifest import Training
from remedy.settings import UserError

RECORDS = "records"
GENERATIONS = "generations"
SUMMARY = "summary.json"
REQUEST = "evaluation.json"
READING = "reading.json"
UNFINISHED = "unfinished"
"""Outputs of unfinished conditions: a folder for each, with a file per process."""
USUAL = {"rewrite": "none", "string_encoding": "plain", "spacing": "1", "answer_only": "False"}
"""Values of labels that a condition's name leaves out."""
LONGEST = 150
"""Longest name of a condition, in characters."""


class _Kind(TypedDict):
    kind: str


class Checkpoint(TypedDict):
    """Description of a checkpoint in reports. `weights` and `tokenizer_fingerprint` identify it."""

    model_type: str
    """Transformers' name of the architecture."""
    mixers: dict[str, str | None]
    """Sequence mixers of our decoder, each with the range of its eigenvalues, if it has one; empty for other models."""
    decoder: dict[str, Any]
    """Settings of our decoder that its mixers use and that are not as published; those that have fields here apart."""
    num_hidden_layers: int
    """Layers."""
    hidden_size: int
    """Width."""
    parameters: int
    """Number of parameters."""
    flops_per_token: float | None
    """Forward operations of a token, but for what grows with the sequence; null where the architecture is not known."""
    flops_by_length: float | None
    """Operations of a token for each token of the sequence, where attention sees all of them."""
    state_floats: int | None
    """Numbers carried from token to token for one sequence, whatever its length: recurrent states, keys and values of a window."""
    state_by_length: int | None
    """Numbers kept of each token of the sequence, where attention sees all of them."""
    weights: str
    """A digest of the weights; `-nf4` follows where they were read in 4 bits."""
    tokenizer: _Kind
    """Settings of the tokenizer."""
    tokenizer_fingerprint: str
    """Identifies the mapping from spans to ids."""


class _TrainedOn(TypedDict):
    held_out_functions: NotRequired[list[str]]
    held_out_depths: NotRequired[list[int]]


class _Data(TypedDict):
    task: _Kind
    reveal: NotRequired[dict[str, Any]]
    memory: NotRequired[Memory | None]


class _Stage(TypedDict):
    steps: int
    set: NotRequired[dict[str, Any]]


class _Training(Training):
    chosen: dict[str, Any]
    curriculum: NotRequired[list[_Stage]]


class _Server(TypedDict):
    server: str
    version: str
    longest: int | None
    batch_invariant: str


class Request(TypedDict):
    """Content of an evaluation's file that reports read."""

    run: str
    variant: str
    checkpoint: Checkpoint
    data: _Data
    training: _Training | None
    trained_on: _TrainedOn | None
    evaluation: dict[str, Any]
    conditions: Annotated[list[str], Field(min_length=1)]
    backend: NotRequired[_Server]
    quantization: NotRequired[str]
    new_tokens: NotRequired[int]


def condition_name(diagnostic: str, labels: Mapping[str, Any]) -> str:
    """Return a condition's name, also of its files: `permutation__horizon-8__forcing-free`."""
    texts = {key: f"{value:g}" if isinstance(value, float) else str(value) for key, value in labels.items()}
    parts = [f"{key}-{value}" for key, value in texts.items() if value != USUAL.get(key)]
    name = "__".join(map(file_name, [diagnostic, *parts]))
    return name if len(name) <= LONGEST else f"{diagnostic}__{text_hash(str(texts)):016x}"


def words_of(name: str) -> list[str]:
    """Return the words by which `--condition` chooses: `horizon=8 forcing=free`."""
    words = [part if "=" in part else part.replace("-", "=", 1) for part in name.split("__")]
    keys = {word.partition("=")[0] for word in words}
    return [*words, *(f"{key}={value}" for key, value in USUAL.items() if key not in keys)]


def claim(directory: Path, request: dict[str, Any]) -> str:
    """Make the folder this evaluation's; return the digest that its files carry.

    Raises:
        UserError: it belongs to another.
    """
    evaluation = digest_of(request)
    path = directory / REQUEST
    for folder in (directory / RECORDS, directory / GENERATIONS):
        clear_partials(folder)
        # A folder that lost its request may hold another evaluation's tables.
        if not path.exists() and (other := foreign_table(folder, evaluation)):
            raise UserError(f"{other}: belongs to another evaluation; choose another --out or delete it")
    if not path.exists():
        write_json(path, request)
    elif digest_of(stored := read_request(directory)) != evaluation:
        differing = ", ".join(_differing(stored, request))
        raise UserError(
            f"{directory}: holds another evaluation (it differs in {differing}); choose another --out or delete it"
        )
    return evaluation


def _differing(stored: dict[str, Any], request: dict[str, Any]) -> list[str]:
    keys = []
    for key in dict.fromkeys([*request, *stored]):
        stored_value, value = stored.get(key), request.get(key)
        if isinstance(stored_value, dict) and isinstance(value, dict):
            keys += [f"{key}.{inner}" for inner in _differing(stored_value, value)]
        elif digest_of({key: stored_value}) != digest_of({key: value}):
            keys.append(key)
    return keys


def read_request(folder: Path) -> dict[str, Any]:
    """Return the evaluation that a folder holds.

    Raises:
        UserError: it holds no evaluation, or its file is damaged.
    """
    if not (folder / REQUEST).exists():
        raise UserError(f"{folder}: holds no evaluation ({REQUEST} is missing)")
    return read_json(folder / REQUEST, "delete the file and evaluate again, which keeps the records that fit", Request)


def refuse_unprintable(name: Any, where: str) -> None:
    """Raise a UserError for a run's name or a label that cannot be shown."""
    if isinstance(name, str) and not name.isprintable():
        raise UserError(f"{where}: the name {shown(name)} holds characters that cannot be shown: give it another")


def keep_reading(directory: Path, report: Callable[[], Mapping[str, Any]]) -> None:
    """Keep how the model is run beside the results.

    `report` is called if the file is missing or damaged.
    """
    try:
        read_json(directory / READING, "it is written again")
    except DamagedFile:
        write_json(directory / READING, report())
