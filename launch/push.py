"""`remedy push`: a model or data set to the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from huggingface_hub import HfApi

from remedy.checksums import digest_of
from remedy.data_gen.shards import MANIFEST, read_manifest, read_shard, shards_of
from remedy.files import write_text
from remedy.messages import one_line, shown
from remedy.models.card import CARD, is_repository, read_card, refuse_places
from remedy.models.model_manifest import ADAPTER_FILE, SEAL, check_model, tokenizer_files
from remedy.settings import UserError

STALE = ["*.safetensors*", ADAPTER_FILE, "data/*.parquet"]
"""Files of an earlier push that would be loaded with this one; those that it lacks are deleted."""


def push(
    folder: Annotated[Path, typer.Argument(help="a finished run's model, or a data set of `remedy generate`")],
    repo: Annotated[str, typer.Argument(metavar="USER/NAME", help="the repository on the hub")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="list what would be pushed, and ask nobody")] = False,
    license: Annotated[str | None, typer.Option(help="the hub's identifier, such as mit; the card keeps it")] = None,
    private: Annotated[bool, typer.Option("--private", help="a repository that is not public")] = False,
) -> None:
    """Push a model or a data set with its card to the Hugging Face hub.

    The token is that of `hf auth login` or HF_TOKEN; HF_ENDPOINT names another hub. With --dry-run, list what would be
    pushed.
    """
    if "/" not in repo or not is_repository(repo):
        raise UserError(f"{shown(repo)} is no repository's name: write USER/NAME, of letters, digits and ._- inside")
    kind, names = _files(folder)
    card = read_card(folder / CARD)
    # Through a link, a file from anywhere on this machine would be published.
    for name in names:
        if (folder / name).resolve() != folder.resolve() / name:
            raise UserError(
                f"{folder / name}: leads to another place, which may hold anything: put the file itself there"
            )
        print(f"{(folder / name).stat().st_size:>15,}  {name}")
    present = {path.relative_to(folder).as_posix() for path in (*folder.glob("*"), *folder.glob("data/*"))}
    print(one_line(f"not pushed: {', '.join(sorted(present - {'data', *names})) or 'nothing'}", 2000))
    if ADAPTER_FILE in names and not card.data.get("base_model"):
        raise UserError(
            f"{folder}: holds adapters of a model that no hub has, without which nobody can load them: push what `remedy merge "
            f"{folder} --out MERGED` writes, or train with the hub's name of that model"
        )
    license = license or card.data.get("license")
    if not private:
        if not license:
            raise UserError("no licence is named, so that nobody may use what is public: give --license, or --private")
        refuse_places(folder / name for name in sorted({*names} - tokenizer_files(names)))
    target = f"{'private ' if private else ''}{kind} repository {repo}"
    print(one_line(f"{target}, licence {license or 'none'}"))
    if dry_run:
        return print("nothing was pushed (--dry-run)")
    if license != card.data.get("license"):
        card.data["license"] = license
        write_text(folder / CARD, str(card))
    api = HfApi()
    repository: Any = {"repo_id": repo, "repo_type": kind}
    try:
        api.whoami()
        api.create_repo(**repository, private=private or None, exist_ok=True)
        if private and not api.repo_info(**repository).private:
            raise UserError(f"{repo}: is public already: choose another name, or remove --private")
        commit = api.upload_folder(**repository, folder_path=folder, allow_patterns=names, delete_patterns=STALE)
        print(f"pushed: {commit.commit_url}")
    except UserError:
        raise
    except Exception as error:  # of the client or its transport, whose message says what to do
        reason = one_line(str(error), 400) or type(error).__name__
        raise UserError(
            f"{repo}: not pushed to {api.endpoint}: {reason} (the same command, given again, goes on)"
        ) from None


def _files(folder: Path) -> tuple[str, list[str]]:
    """Return a folder's kind of repository and its verified files."""
    if (folder / MANIFEST).is_file():
        manifest = read_manifest(folder)
        tokenizer_names = tokenizer_files(path.name for path in folder.iterdir() if path.is_file())
        shards = shards_of(manifest)
        for shard in shards:
            read_shard(folder, shard, digest_of(manifest))
        return "dataset", [*sorted(tokenizer_names), MANIFEST, CARD, *(f"data/{shard.name}" for shard in shards)]
    if (folder / SEAL).is_file():
        return "model", [*check_model(folder), SEAL, CARD]
    raise UserError(
        f"{folder}: is no finished model's folder ({SEAL}; that of an experiment's run is model/ in it), and no data set's ({MANIFEST})"
    )
