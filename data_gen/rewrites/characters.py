"""String operations as loops over characters.

Each loop returns what the method returns for every argument, and raises its errors: all but the plain case is handed to the
method.
"""

from __future__ import annotations

import ast

from remedy.data_gen.rewrites.names import Names

_CONVERTED = """
    result = ""
    for character in text:
        result += character.{0}()
    return result
"""
_ALL = """
    for character in text:
        if not character.{0}():
            return False
    return len(text) > 0
"""
_STRIPPED = """
    start = 0
    end = len(text)
    {0}
    {1}
    return text[start:end]
"""
_LEFT = "while start < end and text[start]{0}: start += 1"
_RIGHT = "while end > start and text[end - 1]{0}: end -= 1"
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
_COUNT = _SCANNED.format("part", "count = 0", "count += 1", "", "return count")
_SPLIT = _SCANNED.format(
    *("separator", "parts = []; part = ''", "parts.append(part); part = ''", "part += text[position]"),
    "parts.append(part); return parts",
)
_REPLACE = _SCANNED.format("old", "result = ''", "result += new", "result += text[position]", "return result")


def _loop(method: str, parameters: str, body: str, also: str = "") -> tuple[tuple[str, int], tuple[str, str]]:
    """Write a loop in place of a method, for arguments that are all strings; `also` says what else they are."""
    first, *others = parameters.split(", ")
    texts = [name for name in (first, *others) if name != "parts"]
    plain = " is ".join(f"type({name})" for name in texts) + " is str" + also
    special = f"not ({plain})" if also or len(texts) > 1 else f"type({first}) is not str"
    name = f"{method}_spaces_by_character" if ".isspace()" in body else f"{method}_by_character"
    head = f"def {name}({parameters}):\n    if {special}:\n        return {first}.{method}({', '.join(others)})\n"
    return (method, len(others)), (name, head + body)


LOOPS = dict(
    [
        _loop("upper", "text", _CONVERTED.format("upper")),
        *(_loop(method, "text", _CONVERTED.format(method), " and text.isascii()") for method in ("lower", "swapcase")),
        *(_loop(method, "text", _ALL.format(method)) for method in ("isalpha", "isdigit")),
        *(
            _loop(method, parameters, _STRIPPED.format(*loops).format(test))
            for method, *loops in (("lstrip", _LEFT, ""), ("rstrip", "", _RIGHT), ("strip", _LEFT, _RIGHT))
            for parameters, test in (("text", ".isspace()"), ("text, characters", " in characters"))
        ),
        _loop("find", "text, part", _FIND),
        _loop("startswith", "text, prefix", _COMPARED.format("prefix", "len(prefix)", "position")),
        _loop("endswith", "text, suffix", _COMPARED.format("suffix", "1, len(suffix) + 1", "-position")),
        _loop("count", "text, part", _COUNT, " and part"),
        _loop("split", "text, separator", _SPLIT, " and separator"),
        _loop("replace", "text, old, new", _REPLACE, " and old"),
        _loop("join", "separator, parts", _JOIN),
    ]
)
"""By a method's name and number of arguments the loop's name and source. A receiver that is no string is handed to its own method."""
_BUILTINS = {"enumerate", "len", "list", "range", "str", "type"}


def characters(tree: ast.Module, names: Names, functions: list[ast.FunctionDef]) -> None:
    """Write `s.replace(a, b)` as `replace_by_character(s, a, b)`, other methods likewise.

    A module with its own `len` or the like is left alone.
    """
    top_level = Names(ast.Module([_hollow(statement) for statement in tree.body], []))
    if (top_level.bound | names.shared) & {*_BUILTINS, *dict(LOOPS.values()), "*"}:
        return
    used: dict[str, str] = {}
    for node in (node for function in functions for node in ast.walk(function)):
        match node:
            case ast.Call(func=ast.Attribute(value=receiver, attr=method), args=arguments, keywords=[]):
                name, source = LOOPS.get((method, len(arguments)), ("", ""))
                is_of_class = isinstance(receiver, ast.Name) and receiver.id == "str"
                if name and not is_of_class and not any(isinstance(argument, ast.Starred) for argument in arguments):
                    used[name] = source
                    node.func, node.args = ast.Name(name, ast.Load()), [receiver, *arguments]
    has_function = [any(isinstance(node, ast.FunctionDef) for node in ast.walk(part)) for part in tree.body]
    position = [*has_function, True].index(True)
    tree.body[position:position] = ast.parse("".join(source for _, source in sorted(used.items()))).body


def _hollow(statement: ast.stmt) -> ast.stmt:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return ast.ClassDef(statement.name, [], [], [], [])
    return statement
