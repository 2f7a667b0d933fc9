"""`remedy push`: a finished model with its card, or a data set with its own, to a hub; or to a folder that shows what would be."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
import yaml

from remedy.checksums import digest_of, read_json, write_json
from remedy.data_gen.shards import MANIFEST, WriteConfig, plan, read_manifest, read_shard
from remedy.files import write_text
from remedy.launch.console import MaybePath, MaybePaths, MaybeText, target
from remedy.messages import one_line, shown
from remedy.models.card import CARD, NOT_EVALUATED, is_hub_name, name_problem, without_paths, write_card
from remedy.models.model_manifest import (
    ADAPTER_FILE,
    CONFIG_FILE,
    SEAL,
    check_model,
    file_digest,
    listed,
    recorded_weights,
)
from remedy.models.tokenizer import FILE as TOKENIZER
from remedy.settings import UserError, build, load_stored

MODEL, DATA = "model", "dataset"
STALE = {MODEL: ["*.safetensors", "*.safetensors.index.json"], DATA: ["data/*.parquet"]}
"""What of an earlier push would be read together with this one, and is deleted where this one has it not."""
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")
_PLACE = r'path\w*"?\s*:\s*"?(?:/[^/\s"]+|~|[A-Za-z]:)[\\/][^\s",}]*'
"""A key that names a path, with an absolute one."""
_HOMES = r'(?<![\w.-])/(?:home|Users)/[^/\s"]+/'
"""Homes of people, perhaps on the machine that trained."""


class Staged(NamedTuple):
    """Folder to push, whose unchanged files are links; the kind of its repository; what was changed, in sentences; and whether its card
    names a licence."""

    folder: Path
    kind: str
    said: list[str]
    licensed: bool


def push(
    folder: Annotated[Path, typer.Argument(help="a finished run's model, or a data set of `remedy generate`")],
    repo: Annotated[str, typer.Argument(metavar="USER/NAME", help="the repository on the hub")],
    dry_run: Annotated[MaybePath, target("write what would be pushed to this new folder, and ask nobody")] = None,
    results: Annotated[
        MaybePaths,
        typer.Option(
            metavar="<path>", help="an evaluation of this very model, for its card; may be given several times"
        ),
    ] = None,
    license: Annotated[MaybeText, typer.Option(help="the hub's identifier, such as mit or apache-2.0")] = None,
    private: Annotated[bool, typer.Option("--private", help="a repository that is not public")] = False,
    revision: Annotated[MaybeText, typer.Option(help="a branch, made if there is none (default: main)")] = None,
) -> None:
    """Push a model or a data set with its card to the Hugging Face hub, or show with --dry-run what would be pushed.

    The token is that of `hf auth login` or HF_TOKEN; HF_ENDPOINT names another hub.
    """
    _check_words(repo, license)
    if dry_run is not None and dry_run.exists() and (not dry_run.is_dir() or any(dry_run.iterdir())):
        raise UserError(f"--dry-run {dry_run}: is not empty: choose a new folder")
    with tempfile.TemporaryDirectory(prefix="remedy-push-") as temporary:
        staged = stage(folder, Path(temporary), results or [], license)
        for path in _files(staged.folder):
            print(f"{path.stat().st_size:>15,}  {path.relative_to(staged.folder).as_posix()}")
        print("".join(f"{one}\n" for one in staged.said), end="")
        if not (staged.licensed or private):
            said = "no licence is named, so that nobody may use what is public: give --license, or --private"
            if dry_run is None:
                raise UserError(said)
            print(said)
        if dry_run is not None:
            shutil.copytree(staged.folder, dry_run, dirs_exist_ok=True)
            place = f"{'private ' if private else ''}{staged.kind} repository {repo}{f', branch {revision}' if revision else ''}"
            print(f"nothing was pushed: {dry_run} holds what would be in the {place}")
        else:
            print(f"pushed: {upload(staged, repo, private, revision)}")


def stage(folder: Path, out: Path, results: list[Path], license: str | None) -> Staged:
    """Put what is pushed of a folder into an empty one: only what its seal or manifest names, and its card.

    Raises:
        UserError: it is neither a finished model nor a whole data set, results are another model's, or what is pushed names a place on
            this machine that cannot be taken out.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}: there is no such folder")
    if (folder / MANIFEST).exists():
        if results:
            raise UserError("--results does nothing for a data set: remove it")
        kind, said = DATA, _stage_data(folder, out)
    elif (folder / SEAL).exists() or (folder / CONFIG_FILE).exists():
        kind, said = MODEL, _stage_model(folder, out)
    else:
        inner = f": give {folder / 'model'}" if (folder / "model" / SEAL).exists() else ""
        raise UserError(
            f"{folder}: is neither a finished run's folder ({SEAL}) nor a data set of `remedy generate` ({MANIFEST}){inner}"
        )
    licensed = _finish_card(out / CARD, folder, results, license)
    _refuse_places(folder, out)
    return Staged(out, kind, said, licensed)


def _stage_model(folder: Path, out: Path) -> list[str]:
    """Returns what was changed, in sentences."""
    check_model(folder)
    files: dict[str, Any] = read_json(folder / SEAL, "train again with --resume")["files"]
    for name in [*files, CARD]:
        _take(folder, name, out)
    if (out / ADAPTER_FILE).exists():
        base = json.loads((out / ADAPTER_FILE).read_text(encoding="utf-8")).get("base_model_name_or_path") or ""
        if not is_hub_name(base):
            raise UserError(
                f"{folder}: holds adapters of {base}, a folder of this machine, without which nobody can load them: push what `remedy "
                f"merge {folder} --out MERGED` writes, or train with the hub's name of that model"
            )
    if not (out / CARD).exists():
        from remedy.train.config import RunConfig  # takes seconds

        load_stored(RunConfig, folder / CONFIG_FILE)  # says what is wrong with one of somebody else
        write_card(out)
    settings = out / "config.json"
    own = settings.exists() and "tokenizer_fingerprint" in settings.read_text(encoding="utf-8")
    # A decoder of ours knows its tokenizer by what is written of it, which stays.
    changed = [path for path in (out / CONFIG_FILE, *([] if own else [out / TOKENIZER])) if _redact(path)]
    write_json(out / SEAL, {"files": {**files, **listed(out, changed, file_digest)}})
    names = " and ".join(path.name for path in changed)
    return [f"of absolute paths in {names} the last part alone is pushed"] if changed else []


def _redact(path: Path) -> bool:
    """Take places on this machine out of settings; says if there were any."""
    content = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else None
    if content == (plain := without_paths(content)):
        return False
    as_json = path.suffix == ".json"
    write_text(path, json.dumps(plain) if as_json else yaml.safe_dump(plain, sort_keys=False, allow_unicode=True))
    return True


def _stage_data(folder: Path, out: Path) -> list[str]:
    manifest = read_manifest(folder)
    held = {key: manifest.get(key) for key in WriteConfig.model_fields}
    for shard in plan(build(WriteConfig, held, str(folder / MANIFEST))):
        read_shard(folder / "data" / shard.name, digest_of(manifest))
        _take(folder, f"data/{shard.name}", out)
    if not (folder / CARD).exists():
        raise UserError(f"{folder}: has no {CARD}: give `remedy generate` again, which writes it with the last shard")
    for name in (MANIFEST, CARD, TOKENIZER, *_TOKENIZER_FILES):
        _take(folder, name, out)
    return []


def _refuse_places(folder: Path, out: Path) -> None:
    here = "|".join(
        re.escape(f"{place}/") for place in {Path.home(), Path.cwd(), folder.absolute().parent} - {Path("/")}
    )
    for path in _files(out):
        if path.suffix not in (".md", ".yaml", ".json") or path.name in _TOKENIZER_FILES:
            continue
        if found := re.search(f"{here}|{_HOMES}|{_PLACE}", path.read_text(encoding="utf-8", errors="replace")):
            raise UserError(
                f"{folder / path.name}: names a place on this machine ({one_line(found[0], 100)}): make it anew with the hub's name "
                "or a relative path, or take it out of your own words"
            )


def _take(folder: Path, name: str, out: Path) -> None:
    """Link to a file of the folder, if there is one.

    Raises:
        UserError: it is elsewhere.
    """
    path = folder / name
    if path.resolve() != folder.resolve() / name or Path(name).is_absolute():
        raise UserError(f"{path}: leads to another place, which may hold anything: put the file itself there")
    if path.is_file():
        (out / name).parent.mkdir(exist_ok=True)
        (out / name).symlink_to(path.absolute())


def _finish_card(path: Path, folder: Path, results: list[Path], license: str | None) -> bool:
    """Add results and a licence to a card, and return whether it names a licence. All else in it stays as its author left it.

    Raises:
        UserError: its metadata is not the hub's, or results are another model's.
    """
    from huggingface_hub import ModelCard
    from huggingface_hub.repocard import RepoCard

    try:
        card = (ModelCard if results else RepoCard)(path.read_text(encoding="utf-8"))
    except (ValueError, yaml.YAMLError) as error:
        raise UserError(
            f"{folder / CARD}: its metadata cannot be read ({one_line(str(error), 200)}): mend it"
        ) from None
    if license:
        card.data["license"] = license
    if results:
        from remedy.eval.report.card import results_of  # takes seconds

        found = results_of(results, _weights(folder))
        card.data["model_name"], card.data["eval_results"] = folder.resolve().name, found.metadata
        parts = (
            card.text.partition(NOT_EVALUATED)
            if NOT_EVALUATED in card.text
            else (f"{card.text}\n## Evaluations\n\n", "", "\n")
        )
        card.text = f"{parts[0]}{found.text}{parts[2]}"
    if license or results:
        write_text(path, str(card))
    return bool(card.data.get("license"))


def _weights(folder: Path) -> str:
    """The digest that evaluations of a model keep: of adapters only the whole model tells it."""
    if recorded := recorded_weights(folder):
        return recorded
    from remedy.eval.checkpoint import describe
    from remedy.models.loading import load_checkpoint

    return describe(*load_checkpoint(str(folder)))["weights"]


def upload(staged: Staged, repo: str, private: bool, revision: str | None) -> str:
    """Push a staged folder; returns the commit's address.

    Raises:
        UserError: there is no token, the hub refuses or cannot be reached, or the name is taken by what it must not be.
    """
    from huggingface_hub import HfApi

    api, kind = HfApi(), staged.kind
    other = DATA if kind == MODEL else MODEL
    try:
        api.whoami()
        if api.repo_exists(repo, repo_type=other):
            raise UserError(f"{repo}: is a {other} repository already, and this is a {kind}: choose another name")
        api.create_repo(repo, repo_type=kind, private=private or None, exist_ok=True)
        if private and not api.repo_info(repo, repo_type=kind).private:
            raise UserError(f"{repo}: is public already: choose another name, or remove --private")
        if revision:
            api.create_branch(repo, branch=revision, repo_type=kind, exist_ok=True)
        done = api.upload_folder(
            repo_id=repo,
            folder_path=staged.folder,
            repo_type=kind,
            revision=revision,
            commit_message="Push with cwm-remedy",
            delete_patterns=STALE[kind],
        )
    except UserError:
        raise
    except Exception as error:  # of the client, or of whichever transport it uses; what it says names the cure
        said = one_line(str(error), 400) or type(error).__name__
        raise UserError(
            f"{repo}: not pushed to {api.endpoint}: {said} (the same command, given again, goes on)"
        ) from None
    return str(done.commit_url)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _check_words(repo: str, license: str | None) -> None:
    if (problem := name_problem(repo)) or "/" not in repo:
        raise UserError(f"{shown(repo)} is no repository's name: write USER/NAME{problem and f' ({problem})'}")
    if license is not None and not re.fullmatch(r"[a-z0-9][a-z0-9.+-]*", license):
        raise UserError(f"--license {shown(license)}: give the hub's identifier, such as mit or apache-2.0")
