"""Shared fixtures. Nothing in the suite may ask a model hub."""

import gc
import logging
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

os.environ["USE_HUB_KERNELS"] = "0"
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TQDM_DISABLE", "1")
os.environ["REMEDY_CACHE"] = ""  # programs are run, whatever an earlier test or command has kept

import pytest
from hypothesis import settings

from remedy import plugins
from remedy.registry import Registry

# A busy machine is no failure.
settings.register_profile("suite", deadline=None, print_blob=True)
settings.load_profile("suite")

ROOT = Path(__file__).resolve().parent.parent


def pytest_collectstart() -> None:
    """Train vocabularies on fewer programs. The process that gives workers their tests collects none, and waits for no such import."""
    from remedy.models.tokenizer_backends import byte_pairs

    byte_pairs.TRAINING_EXAMPLES = 100


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out weekly tests unless they are asked for, and deal files to workers: those with long tests begin on each."""
    if "weekly" not in config.option.markexpr:
        left_out = [item for item in items if item.get_closest_marker("weekly")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("weekly")]
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    long = [path for path, tests in files.items() if any(test.get_closest_marker("slow") for test in tests)]
    # The commands of the README take longest.
    long.sort(key=lambda path: len(path.parts))
    # xdist gives each worker an equal part of the items, in their order. They steal from each other's ends.
    parts: list[list[pytest.Item]] = [[] for _ in range(getattr(config, "workerinput", {}).get("workercount", 1))]
    for number, path in enumerate(long):
        parts[number % len(parts)] += files.pop(path)
    for tests in files.values():
        min(parts, key=len).extend(tests)
    items[:] = [item for part in parts for item in part]


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def _no_full_collection_before_each_training() -> None:
    """Accelerate looks through all objects before a training, of which this process has millions more than a command."""
    from accelerate.utils import memory

    memory.gc = SimpleNamespace(collect=lambda: 0)


@pytest.fixture(scope="session", autouse=True)
def _interrupts_arrive() -> None:
    """A shell starts a job in the background with interrupts ignored, and what tests start would inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def shared() -> Path:
    """Public data that is not part of the repository, in a folder beside the checkout."""
    folder = Path(os.environ.get("REMEDY_SHARED", ROOT.parent / "shared")) / "data"
    if not folder.is_dir():
        pytest.skip(f"needs the public data files in {folder} (or $REMEDY_SHARED/data)")
    return folder


@pytest.fixture(scope="session")
def registries() -> list[Registry]:
    """All registries, after the import of all that register something."""
    from remedy.launch import reference  # noqa: F401

    return [held for held in gc.get_objects() if type(held) is Registry]


@pytest.fixture(autouse=True)
def plugins_as_they_were(monkeypatch: pytest.MonkeyPatch, registries: list[Registry]) -> Iterator[None]:
    """What a test imports as a plug-in is neither known to the next one nor recorded in what it makes."""
    before = [set(registry) for registry in registries]
    loaded: dict[str, str] = {}
    monkeypatch.setattr(plugins, "_loaded", loaded)
    monkeypatch.setattr(plugins, "_of_command_line", [])
    monkeypatch.setattr(plugins, "_of_stored_settings", {})
    monkeypatch.setenv("REMEDY_PLUGINS", "[]")
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    for registry, names in zip(registries, before):
        for name in set(registry) - names:
            del registry[name]
    for module in {*loaded, *(path.stem for path in (ROOT / "examples" / "plugins").glob("*.py"))}:
        sys.modules.pop(module, None)


@pytest.fixture(autouse=True)
def logger_as_it_was() -> Iterator[None]:
    """A command that runs in the tests' process shows the package's messages from then on; the next test shall not see that."""
    logger = logging.getLogger("remedy")
    before = logger.handlers[:], logger.propagate, logger.level
    yield
    logger.handlers[:], logger.propagate = before[:2]
    logger.setLevel(before[2])
