"""Plug-ins from outside the package: the templates of examples/plugins, by path and as an installed package."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from remedy import plugins
from remedy.data_gen.tasks import TASKS
from remedy.data_gen.tasks.task import Task
from remedy.data_gen.traces.string_encodings import ENCODINGS
from remedy.settings import ConfigError, load
from remedy.train.config import RunConfig
from remedy.train.run import train
from tests.launch.in_process import remedy
from tests.train.launching import finished, launched, start

TEMPLATES = Path(__file__).resolve().parent.parent / "examples" / "plugins"
DATA = {"task": {"kind": "countdown"}, "format": "dollars", "string_encoding": "hexadecimal"}
TOKENIZER = {"kind": "raw_bytes"}
RUN = {
    "output": "run",
    "data": DATA,
    "tokenizer": TOKENIZER,
    "model": {"mixers": ["average"], "num_hidden_layers": 1, "hidden_size": 16},
    "train": {"max_steps": 2, "batch_size": 2, "threads": 1},
    "tracking": {"report_to": []},
}
FILES = {
    "data.yaml": {"data": DATA, "tokenizer": TOKENIZER, "write": {"splits": {"train": 4}, "shard_size": 2}},
    "train.yaml": RUN,
    "evaluate.yaml": {
        "diagnostics": [{"kind": "countdown_sizes", "highs": [30, 40], "examples": 2}],
        "max_new_tokens": 100,
    },
}
COMMAND = """import sys
sys.path.append({site!r})
from remedy.launch.cli import main
if __name__ == "__main__":
    main()
"""
COMMANDS = (
    "generate data.yaml --out data --workers 2",
    "show data",
    "train train.yaml",
    "evaluate run evaluate.yaml --out evaluated",
    "report evaluated --out report",
)


def installed(folder: Path) -> str:
    """Build a package of the templates with entry points and install it, offline, to a folder for PYTHONPATH."""
    source, site = folder / "source", folder / "site"
    shutil.copytree(TEMPLATES, source / "toys", ignore=shutil.ignore_patterns("__pycache__"))
    points = "\n".join(f'{path.stem} = "toys.{path.stem}"' for path in sorted(TEMPLATES.glob("*.py")))
    (source / "toys" / "__init__.py").touch()
    (source / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
        f'[project]\nname = "toys"\nversion = "1.0"\n[project.entry-points."remedy.plugins"]\n{points}\n'
    )
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", str(site), str(source)], check=True)
    return str(site)


@pytest.mark.slow
def test_every_command_knows_those_of_a_package_and_records_what_was_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, content in FILES.items():
        (tmp_path / name).write_text(yaml.safe_dump(content))
    monkeypatch.chdir(tmp_path)
    site = installed(tmp_path)
    status, listed = launched([sys.executable, "-m", "remedy.launch.cli", "list", "diagnostics"], PYTHONPATH=site)
    assert status == 0, listed
    assert "countdown_sizes  Does the model count down" in listed
    script = tmp_path / "command.py"
    script.write_text(COMMAND.format(site=site))
    said = {command: finished(start([str(script), *command.split()])) for command in COMMANDS}
    assert "tokenizer: raw_bytes" in said["show data"]
    assert "Countdowns" in (tmp_path / "report" / "report.md").read_text()
    made = [tmp_path / name for name in ("data/manifest.json", "run/training.json", "evaluated/evaluation.json")]
    recorded = [json.loads(path.read_text())["plugins"] for path in made]
    assert recorded[0].keys() == {f"toys.{path.stem}" for path in TEMPLATES.glob("*.py")}
    assert recorded == recorded[:1] * 3
    assert {len(digest) for digest in recorded[0].values()} == {16}


def test_another_source_is_another_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = f'"""Imports a helper."""\nimport json, aiding\n{(TEMPLATES / "countdown.py").read_text()}'
    (tmp_path / "aiding.py").write_text("from aided import ONE\nif not ONE:\n    import of_python_2")
    (tmp_path / "of_python_2.py").write_text("print 1")
    (tmp_path / "aided.py").write_text("ONE = 1")
    data = {**DATA, "format": "cwm", "string_encoding": "plain"}
    config = {**FILES["data.yaml"], "data": data, "tokenizer": {"kind": "chars"}, "plugins": ["./countdown.py"]}
    (tmp_path / "data.yaml").write_text(yaml.safe_dump(config))
    (tmp_path / "countdown.py").write_text(source)
    assert remedy(["generate", "data.yaml", "--out", "data"]).status == 0
    assert plugins.plugins_section()["plugins"].keys() == {"countdown"}
    for file, changed in (("countdown", source.replace("n -= 1", "n = n - 1")), ("aided", "ONE = 2")):
        before = (tmp_path / f"{file}.py").read_text()
        del TASKS["countdown"]
        for name in ("countdown", "aiding", "aided"):
            for registered in (sys.modules, plugins._loaded):
                registered.pop(name, None)
        (tmp_path / f"{file}.py").write_text(changed)
        ended = remedy(["generate", "data.yaml", "--out", "data"])
        assert ended.status == 2
        assert "another data set (it differs in plugins)" in ended.errors
        (tmp_path / f"{file}.py").write_text(before)


def test_a_runs_own_plugin_is_named_again_to_evaluate_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = str(TEMPLATES / "countdown.py")
    own = {"data": {"task": DATA["task"]}, "tokenizer": {"kind": "chars"}, "model": {**RUN["model"], "mixers": ["gru"]}}
    evaluation = {"diagnostics": [{"kind": "programs", "forcing": ["free"], "examples": 1}], "max_new_tokens": 8}
    for name, content in (("train", {**RUN, **own}), ("with", evaluation), ("without", evaluation)):
        named = {} if name == "without" else {"plugins": [path]}
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump({**content, **named}))
    train(load(RunConfig, "train.yaml"))
    for registered in (TASKS, sys.modules, plugins._loaded):
        registered.pop("countdown")
    monkeypatch.setenv("REMEDY_PLUGINS", "[]")
    ended = remedy(["evaluate", "run", "without.yaml", "--out", "out"])
    assert ended.status == 2
    assert "unknown task 'countdown'" in ended.errors
    assert f"; run/config.yaml names plug-ins: give --plugin '{path}' if you trust them" in ended.errors
    assert remedy(["evaluate", "run", "with.yaml", "--out", "out"]).status == 0
    assert json.loads((tmp_path / "out" / "evaluation.json").read_text())["plugins"].keys() == {"countdown"}


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("./nowhere.py", "--plugin: ./nowhere.py cannot be imported (FileNotFoundError: there is no such file)"),
        ("no_such_module", "--plugin: no_such_module cannot be imported (ModuleNotFoundError"),
        ("./json.py", "another module is called json: rename the file"),
        ("./broken.py", "broken.py cannot be imported (ZeroDivisionError: division by zero)"),
        ("./leaves.py", "leaves.py cannot be imported (SystemExit: 0)"),
    ],
)
def test_what_cannot_be_imported_is_said(name: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "json.py").touch()
    (tmp_path / "broken.py").write_text("1 / 0\n")
    (tmp_path / "leaves.py").write_text("raise SystemExit(0)\n")
    ended = remedy(["list", "task", "--plugin", name])
    assert ended.status == 2
    assert says in ended.errors


def test_a_setting_of_a_methods_name_is_refused_where_its_class_is_defined() -> None:
    says = r"^Digits: a setting cannot be called count; a task's own words are .*, describe, .*symbols, "
    with pytest.raises(TypeError, match=says):
        type("Digits", (Task,), {"__annotations__": {"count": int}, "__module__": __name__})


def test_installed_ones_are_imported_for_a_name_that_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    shutil.copy(TEMPLATES / "hexadecimal.py", tmp_path)
    (tmp_path / "hexes-1.0.dist-info").mkdir()
    (tmp_path / "hexes-1.0.dist-info" / "METADATA").write_text("Name: hexes\nVersion: 1.0\n")
    points = tmp_path / "hexes-1.0.dist-info" / "entry_points.txt"
    points.write_text("[remedy.plugins]\nhexes = hexadecimal\n")
    assert ENCODINGS.check("list") == "list"
    assert not plugins.plugins_section()
    assert ENCODINGS.check("hexadecimal") == "hexadecimal"
    assert plugins.plugins_section()["plugins"].keys() == {"hexadecimal"}
    points.write_text("[remedy.plugins]\nhexes = hexes\n")
    with pytest.raises(ConfigError, match="plug-in hexes, of package hexes, cannot be imported"):
        ENCODINGS["hexa"]
