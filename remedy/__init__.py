"""cwm-remedy: tests cures for the failures of code world models.

The five folders beside this one are its subpackages; the links here let every tool find them by their import names. The names
below are what a notebook starts from; each is imported when it is first used, so that `import remedy` stays quick.

    >>> from remedy import DataConfig, examples, spans_text
    >>> data = DataConfig.model_validate({"task": {"kind": "permutation", "length": 4}, "format": "repl"})
    >>> print(spans_text(examples(data, "train", [0])[0].spans))
"""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from remedy.data_gen.config import DataConfig
    from remedy.data_gen.examples import Example, examples
    from remedy.data_gen.execution.program import Program, Trace
    from remedy.data_gen.execution.tracer import trace
    from remedy.data_gen.roles import Role, Span, spans_text
    from remedy.settings import UserError, load
    from remedy.data_gen.traces.render import render
    from remedy.data_gen.traces.reveal import RevealConfig
    from remedy.eval.config import EvalConfig
    from remedy.eval.evaluate import evaluate
    from remedy.eval.report.page import report
    from remedy.models.loading import load_checkpoint
    from remedy.models.tokenizer import build_tokenizer
    from remedy.train.config import RunConfig
    from remedy.train.run import train as train_model

_WHERE = {
    "DataConfig": "data_gen.config",
    "EvalConfig": "eval.config",
    "Example": "data_gen.examples",
    "Program": "data_gen.execution.program",
    "RevealConfig": "data_gen.traces.reveal",
    "Role": "data_gen.roles",
    "RunConfig": "train.config",
    "Span": "data_gen.roles",
    "Trace": "data_gen.execution.program",
    "UserError": "settings",
    "build_tokenizer": "models.tokenizer",
    "evaluate": "eval.evaluate",
    "examples": "data_gen.examples",
    "load": "settings",
    "load_checkpoint": "models.loading",
    "render": "data_gen.traces.render",
    "report": "eval.report.page",
    "spans_text": "data_gen.roles",
    "trace": "data_gen.execution.tracer",
    "train_model": "train.run:train",  # `remedy.train` is the folder
}

__all__ = [  # noqa: RUF022 (the order of the table above)
    "DataConfig",
    "EvalConfig",
    "Example",
    "Program",
    "RevealConfig",
    "Role",
    "RunConfig",
    "Span",
    "Trace",
    "UserError",
    "build_tokenizer",
    "evaluate",
    "examples",
    "load",
    "load_checkpoint",
    "render",
    "report",
    "spans_text",
    "trace",
    "train_model",
    "__version__",
]

try:
    __version__ = version("cwm-remedy")
except PackageNotFoundError:  # a checkout that is not installed
    __version__ = "0+unknown"


def __getattr__(name: str) -> Any:
    """One of the names above, imported from where it is defined (PEP 562)."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = _WHERE[name].partition(":")
    value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), attribute or name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
