"""Holds the documents to the code: links lead somewhere, examples are what the real tracer says, settings are all described."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import metadata
from pathlib import Path

import pytest
import yaml

from benchmarks.picture import chart
from remedy.data_gen.config import DataConfig
from remedy.data_gen.examples import examples
from remedy.data_gen.roles import CWM_IDS, Role, spans_text
from remedy.launch.reference import SETTINGS, fields, markdown, places, settings_class
from remedy.messages import install
from remedy.settings import Settings
from tests.launch.in_process import remedy as in_process

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "results").rglob("README.md")),
    *(ROOT / "results" / "study" / name for name in ("predictions.md", "pilots.md")),
]
LINK = re.compile(r"\]\(([^)\s]+)\)")
FORMAT = (ROOT / "docs" / "trace-format.md").read_text(encoding="utf-8")


def ids(page: Path) -> str:
    return str(page.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """Where a link into a page can lead, as GitHub names headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_every_link_inside_the_repository_leads_somewhere(page: Path) -> None:
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_every_file_that_is_named_exists(page: Path) -> None:
    folders = "data_gen|models|train|eval|launch|configs|tests|benchmarks|examples|results|docs|remedy"
    for name in re.findall(rf"`((?:{folders})/[\w./-]*)`", page.read_text(encoding="utf-8")):
        path = ROOT / name
        assert path.exists() or name in {"remedy/train/run.py"}, name


def test_what_is_said_to_install_exists() -> None:
    """The package is on no index, and its parts are those that pyproject.toml names."""
    sources = [
        path for folder in ("models", "train", "eval", "launch", "data_gen") for path in (ROOT / folder).rglob("*.py")
    ]
    texts = {page: page.read_text(encoding="utf-8") for page in [*PAGES, ROOT / "Makefile", *sources]}
    assert not [page for page, text in texts.items() if "install 'cwm-remedy" in text]
    named = {name for text in texts.values() for name in re.findall(r"-e ['\"]\.\[(\w+)\]|\binstall\('(\w+)'\)", text)}
    extras = set(metadata("cwm-remedy").get_all("Provides-Extra") or ())
    assert {"deepspeed", "gpu"} <= {name for pair in named for name in pair if name} <= extras
    assert install("gpu") == "run pip install -e '.[gpu]' in your clone of cwm-remedy"


def test_the_lock_file_is_current_and_has_the_versions_that_are_tested() -> None:
    uv = Path(sys.executable).with_name("uv")
    if not uv.exists():
        pytest.skip("uv is not installed: pip install -e '.[dev]'")
    checked = subprocess.run(
        [uv, "lock", "--check", "--offline"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr
    locked = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))["package"]
    versions = {package["name"]: package.get("version") for package in locked}
    pins = re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    tested = {re.sub(r"[._-]+", "-", name).lower(): version for name, version in pins}
    assert not {
        name: (tested[name], versions[name]) for name in tested.keys() & versions if tested[name] != versions[name]
    }


def test_the_settings_page_is_current() -> None:
    assert (ROOT / "docs" / "config.md").read_text(encoding="utf-8") == markdown(), "run `make docs`"


@pytest.mark.parametrize("settings", {s: None for name in SETTINGS for s, _, _ in places(settings_class(name))})
def test_every_setting_is_described(settings: type[Settings]) -> None:
    assert settings.__doc__
    assert not [row.key for row in fields(settings) if not row.description]


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the events are those of CPython 3.11")
def test_the_worked_example_is_what_the_tracer_says() -> None:
    ((command, written),) = re.findall(r"```console\n\$ (.*?)\n(.*?)```", FORMAT, re.DOTALL)
    words = [ROOT / word if word.endswith(".py") else word for word in command.split()[1:]]
    assert in_process(words).output == written


def test_the_ids_of_a_data_set_are_decoded_as_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    task = {"kind": "permutation", "length": 4}
    (tmp_path / "data.yaml").write_text(
        json.dumps({"data": {"task": task, "format": "cwm"}, "write": {"splits": {"train": 2}}})
    )
    assert in_process(["generate", "data.yaml", "--out", "data/permutation"]).status == 0
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "data.md").read_text(encoding="utf-8"), re.DOTALL)
    capsys.readouterr()
    exec(code, {})
    data = DataConfig.model_validate({"task": task, "format": "cwm"})
    spans = examples(data, "train", [0])[0].spans
    states = sum(len(str(span.piece)) for span in spans if span.role is Role.STATE)  # a token a character
    text, counted = capsys.readouterr().out.rsplit("Counter(", 1)
    assert text == f"{spans_text(spans)}\n"
    assert f"'state': {states}, " in counted


def test_python_in_the_documents_prints_what_stands_below_it() -> None:
    found = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", FORMAT, re.DOTALL)
    assert len(found) == 2
    for code, written in found:
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
        assert done.stdout == written


def test_the_ids_are_the_models() -> None:
    written = dict(re.findall(r"^(\d{6}) (<\|\w+\|>)$", FORMAT, re.MULTILINE))
    assert written == {str(number): special.value for special, number in CWM_IDS.items()}


def test_continuous_integration_runs_what_anyone_can() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    assert {"run": ".ci/run ${{ matrix.tests }}"} in workflow["jobs"]["test"]["steps"]
    fast, launch, others = workflow["jobs"]["test"]["strategy"]["matrix"]["tests"]
    assert (fast, launch.replace(" tests/", " --ignore tests/")) == ('-m "not slow"', others), (
        "each test is in one part"
    )
    assert "make test\n" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_the_chart_of_the_architecture_is_drawn_from_the_imports() -> None:
    assert chart() in (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"), "run `make picture`"
