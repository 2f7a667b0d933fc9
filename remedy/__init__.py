"""Toolkit that tests mitigations for the failures of code world models.

These names, for notebooks, are imported at their first use: `import remedy` stays quick.

    >>> from remedy import DataConfig, examples, spans_text
    >>> data = DataConfig.model_validate({"task": {"kind": "permutation", "length": 4}, "format": "repl"})
    >>> print(spans_text(examples(data, "train", [0])[0].spans))
"""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from remedy.data_gen.config import DataConfig as DataConfig
    from remedy.data_gen.examples import Example as Example
    from remedy.data_gen.examples import examples as examples
    from remedy.data_gen.execution.program import Program as Program
    from remedy.data_gen.execution.program import Trace as Trace
    from remedy.data_gen.execution.tracer import trace as trace
    from remedy.data_gen.roles import Role as Role
    from remedy.data_gen.roles import Span as Span
    from remedy.data_gen.roles import spans_text as spans_text
    from remedy.data_gen.traces.render import render as render
    from remedy.data_gen.traces.reveal import RevealConfig as RevealConfig
    from remedy.eval.config import EvalConfig as EvalConfig
    from remedy.eval.evaluate import evaluate_checkpoint as evaluate
    from remedy.launch.notebook import Report as Report
    from remedy.launch.notebook import report as report
    from remedy.launch.notebook import show as show
    from remedy.models.loading import load_checkpoint as load_checkpoint
    from remedy.models.tokenizer import build_tokenizer as build_tokenizer
    from remedy.models.tokenizer import load as load_tokenizer
    from remedy.rewards import dataset as dataset
    from remedy.settings import UserError as UserError
    from remedy.settings import load as load
    from remedy.train.config import RunConfig as RunConfig
    from remedy.train.run import train as train_model

_NAMES = {
    "data_gen.config": "DataConfig",
    "data_gen.examples": "Example examples",
    "data_gen.execution.program": "Program Trace",
    "data_gen.execution.tracer": "trace",
    "data_gen.roles": "Role Span spans_text",
    "data_gen.traces.render": "render",
    "data_gen.traces.reveal": "RevealConfig",
    "eval.config": "EvalConfig",
    "eval.evaluate": "evaluate",
    "launch.notebook": "Report report show",
    "models.loading": "load_checkpoint",
    "models.tokenizer": "build_tokenizer load_tokenizer",
    "rewards": "dataset",
    "settings": "UserError load",
    "train.config": "RunConfig",
    "train.run": "train_model",
}
# `remedy.train` and `remedy.load` mean other things already.
_RENAMED = {"train_model": "train", "evaluate": "evaluate_checkpoint", "load_tokenizer": "load"}
_WHERE = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = [*sorted(_WHERE), "__version__"]

try:
    __version__ = version("cwm-remedy")
except PackageNotFoundError:  # a checkout that is not installed
    __version__ = "0+unknown"


def __getattr__(name: str) -> Any:
    """Import a public name at its first use (PEP 562)."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    original = _RENAMED.get(name, name)
    value = globals()[name] = getattr(import_module(f"{__name__}.{_WHERE[name]}"), original)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
