"""String operations as loops over characters.

Each loop returns what the method returns for every argument, and raises its errors: all but the plain case is handed to the
method.
"""

from __future__ import annotations

import ast
from itertools import takewhile

from remedy.data_gen.rewrites.names import Names

_NO_TEXT = "type(text) is not str"
_NOT_ASCII = "not (type(text) is str and text.isascii())"
_CONVERTED = """
    result = ""
    for character in text:
        result += character.%s()
    return result
"""
_ALL = """
    for character in text:
        if not character.%s():
            return False
    return len(text) > 0
"""
_STRIPPED = {
    "lstrip": """
    start = 0
    while start < len(text) and text[start]%s:
        start += 1
    return text[start:]
""",
    "rstrip": """
    end = len(text)
    while end > 0 and text[end - 1]%s:
        end -= 1
    return text[:end]
""",
    "strip": """
    start = 0
    end = len(text)
    while start < end and text[start]%s:
        start += 1
    while end > start and text[end - 1]%s:
        end -= 1
    return text[start:end]
""",
}
_COMPARED = """
    if len({0}) > len(text):
        return False
    for position in range({1}):
        if text[{2}] != {0}[{2}]:
            return False
    return True
"""
_SCANNED = """
    {1}
    position = 0
    while position < len(text):
        if text[position : position + len({0})] == {0}:
            {2}
            position += len({0})
        else:
            {3}
            position += 1
    {4}
"""
_SPLIT = "parts.append(part); part = ''"
_FIND = """
    for position in range(len(text) - len(part) + 1):
        if text[position : position + len(part)] == part:
            return position
    return -1
"""
_JOIN = """
    parts = list(parts)
    result = ""
    for number, part in enumerate(parts):
        if type(part) is not str:
            return separator.join(parts)
        if number > 0:
            result += separator
        for character in part:
            result += character
    return result
"""


def _loop(method: str, parameters: str, special: str, body: str) -> tuple[tuple[str, int], tuple[str, str]]:
    """Write a loop in place of a method; `special` holds where the method is called."""
    first, _, others = parameters.partition(", ")
    name = f"{method}_spaces_by_character" if ".isspace()" in body else f"{method}_by_character"
    head = f"def {name}({parameters}):\n    if {special}:\n        return {first}.{method}({others})\n"
    return (method, parameters.count(",")), (name, head + body)


def _text_loop(method: str, other: str, body: str, also: str = "") -> tuple[tuple[str, int], tuple[str, str]]:
    return _loop(method, f"text, {other}", f"not (type(text) is type({other}) is str{also})", body)


LOOPS = dict(
    [
        _loop("upper", "text", _NO_TEXT, _CONVERTED % "upper"),
        *(_loop(method, "text", _NOT_ASCII, _CONVERTED % method) for method in ("lower", "swapcase")),
        *(_loop(method, "text", _NO_TEXT, _ALL % method) for method in ("isalpha", "isdigit")),
        *(_loop(method, "text", _NO_TEXT, body.replace("%s", ".isspace()")) for method, body in _STRIPPED.items()),
        *(_text_loop(method, "characters", body.replace("%s", " in characters")) for method, body in _STRIPPED.items()),
        _text_loop("find", "part", _FIND),
        _text_loop("startswith", "prefix", _COMPARED.format("prefix", "len(prefix)", "position")),
        _text_loop("endswith", "suffix", _COMPARED.format("suffix", "1, len(suffix) + 1", "-position")),
        _text_loop(
            "count", "part", _SCANNED.format("part", "count = 0", "count += 1", "", "return count"), " and part"
        ),
        _text_loop(
            "split",
            "separator",
            _SCANNED.format(
                "separator",
                "parts = []; part = ''",
                _SPLIT,
                "part += text[position]",
                "parts.append(part); return parts",
            ),
            " and separator",
        ),
        _loop(
            "replace",
            "text, old, new",
            "not (type(text) is type(old) is type(new) is str and old)",
            _SCANNED.format("old", "result = ''", "result += new", "result += text[position]", "return result"),
        ),
        _loop("join", "separator, parts", "type(separator) is not str", _JOIN),
    ]
)
"""By a method's name and number of arguments the loop's name and source. A receiver that is no string is handed to its own method."""
_BUILTINS = {"enumerate", "len", "list", "range", "str", "type"}


class _Calls(ast.NodeTransformer):
    def __init__(self) -> None:
        self.used: dict[str, str] = {}

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        match node:
            case ast.Call(func=ast.Attribute(value=receiver, attr=method), args=arguments, keywords=[]):
                loop = LOOPS.get((method, len(arguments)))
                is_of_class = isinstance(receiver, ast.Name) and receiver.id == "str"
                if loop and not is_of_class and not any(isinstance(a, ast.Starred) for a in arguments):
                    self.used.update([loop])
                    return ast.Call(ast.Name(loop[0], ast.Load()), [receiver, *arguments], [])
        return node


def characters(tree: ast.Module, names: Names, functions: list[ast.FunctionDef]) -> bool:
    """Write `s.replace(a, b)` as `replace_by_character(s, a, b)`, other methods likewise.

    A module with its own `len` or the like is left alone.
    """
    top_level = Names(ast.Module([*map(_hollow, tree.body)], []))
    if (top_level.bound | names.shared) & {*_BUILTINS, *dict(LOOPS.values()), "*"}:
        return False
    calls = _Calls()
    for function in functions:
        function.body = [calls.visit(statement) for statement in function.body]
    position = len([*takewhile(_comes_first, tree.body)])
    tree.body[position:position] = [node for _, source in sorted(calls.used.items()) for node in ast.parse(source).body]
    names.taken |= calls.used.keys()
    return bool(calls.used)


def _hollow(statement: ast.stmt) -> ast.stmt:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return ast.ClassDef(statement.name, [], [], [], [])
    return statement


def _comes_first(statement: ast.stmt) -> bool:
    docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return docstring or (isinstance(statement, ast.ImportFrom) and statement.module == "__future__")
