"""String operations as loops over characters.

Each loop returns what the method returns for every argument, and raises its errors: all but the plain case is handed to the
method.
"""

from __future__ import annotations

import ast

from remedy.data_gen.rewrites.names import Names

_NO_TEXT = "type(text) is not str"
_NOT_ASCII = "not (type(text) is str and text.isascii())"
_NO_TEXTS = "not (type(text) is type(%s) is str)"
_NOT_FULL = "not (type(text) is type(%s) is str and %s)"
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
_BODIES = {
    "replace": """
    result = ""
    position = 0
    while position < len(text):
        if text[position : position + len(old)] == old:
            result += new
            position += len(old)
        else:
            result += text[position]
            position += 1
    return result
""",
    "split": """
    parts = []
    part = ""
    position = 0
    while position < len(text):
        if text[position : position + len(separator)] == separator:
            parts.append(part)
            part = ""
            position += len(separator)
        else:
            part += text[position]
            position += 1
    parts.append(part)
    return parts
""",
    "join": """
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
""",
    "count": """
    count = 0
    position = 0
    while position < len(text):
        if text[position : position + len(part)] == part:
            count += 1
            position += len(part)
        else:
            position += 1
    return count
""",
    "find": """
    for position in range(len(text) - len(part) + 1):
        if text[position : position + len(part)] == part:
            return position
    return -1
""",
    "startswith": """
    if len(prefix) > len(text):
        return False
    for position in range(len(prefix)):
        if text[position] != prefix[position]:
            return False
    return True
""",
    "endswith": """
    if len(suffix) > len(text):
        return False
    for position in range(1, len(suffix) + 1):
        if text[-position] != suffix[-position]:
            return False
    return True
""",
}


def _loop(method: str, name: str, parameters: str, special: str, body: str) -> tuple[str, str]:
    """Write a loop in place of a method; `special` holds where the method is called."""
    (first, _, others), name = parameters.partition(", "), f"{name}_by_character"
    return name, f"def {name}({parameters}):\n    if {special}:\n        return {first}.{method}({others})\n{body}"


def _loops() -> dict[tuple[str, int], tuple[str, str]]:
    loops = {("upper", 0): _loop("upper", "upper", "text", _NO_TEXT, _CONVERTED % "upper")}
    for method in ("lower", "swapcase"):
        loops[method, 0] = _loop(method, method, "text", _NOT_ASCII, _CONVERTED % method)
    for method in ("isalpha", "isdigit"):
        loops[method, 0] = _loop(method, method, "text", _NO_TEXT, _ALL % method)
    for method, body in _STRIPPED.items():
        loops[method, 0] = _loop(method, f"{method}_spaces", "text", _NO_TEXT, body.replace("%s", ".isspace()"))
        given = body.replace("%s", " in characters")
        loops[method, 1] = _loop(method, method, "text, characters", _NO_TEXTS % "characters", given)
    for method, other in (("find", "part"), ("startswith", "prefix"), ("endswith", "suffix")):
        loops[method, 1] = _loop(method, method, f"text, {other}", _NO_TEXTS % other, _BODIES[method])
    for method, other in (("count", "part"), ("split", "separator")):
        loops[method, 1] = _loop(method, method, f"text, {other}", _NOT_FULL % (other, other), _BODIES[method])
    texts = "not (type(text) is type(old) is type(new) is str and old)"
    loops["replace", 2] = _loop("replace", "replace", "text, old, new", texts, _BODIES["replace"])
    loops["join", 1] = _loop("join", "join", "separator, parts", "type(separator) is not str", _BODIES["join"])
    return loops


LOOPS = _loops()
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
    if _module_names(tree) & {*_BUILTINS, *dict(LOOPS.values()), "*"}:
        return False
    calls = _Calls()
    for function in functions:
        function.body = [calls.visit(statement) for statement in function.body]
    position = _after_imports(tree)
    tree.body[position:position] = [node for _, source in sorted(calls.used.items()) for node in ast.parse(source).body]
    names.taken |= calls.used.keys()
    return bool(calls.used)


def _module_names(tree: ast.Module) -> set[str]:
    top = Names(ast.Module([_hollow(statement) for statement in tree.body], []))
    imported = {alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    return top.bound | (imported & {"*"}) | Names(tree).shared


def _hollow(statement: ast.stmt) -> ast.stmt:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return ast.ClassDef(statement.name, [], [], [], [])
    return statement


def _after_imports(tree: ast.Module) -> int:
    position = 0
    for statement in tree.body:
        docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not (docstring or (isinstance(statement, ast.ImportFrom) and statement.module == "__future__")):
            break
        position += 1
    return position
