"""String operations into loops over characters: the methods of `character_loops`, called in place of the string's own."""

from __future__ import annotations

import ast
import inspect

from remedy.data_gen.rewrites import character_loops
from remedy.data_gen.rewrites.names import Names

LOOPS: dict[tuple[str, int], str] = {
    ("count", 1): "count_by_character",
    ("endswith", 1): "endswith_by_character",
    ("find", 1): "find_by_character",
    ("isalpha", 0): "isalpha_by_character",
    ("isdigit", 0): "isdigit_by_character",
    ("join", 1): "join_by_character",
    ("lower", 0): "lower_by_character",
    ("lstrip", 0): "lstrip_spaces_by_character",
    ("lstrip", 1): "lstrip_by_character",
    ("replace", 2): "replace_by_character",
    ("rstrip", 0): "rstrip_spaces_by_character",
    ("rstrip", 1): "rstrip_by_character",
    ("split", 1): "split_by_character",
    ("startswith", 1): "startswith_by_character",
    ("strip", 0): "strip_spaces_by_character",
    ("strip", 1): "strip_by_character",
    ("swapcase", 0): "swapcase_by_character",
    ("upper", 0): "upper_by_character",
}
"""The loop for a method's name and number of arguments. A receiver that is no string is handed to its own method."""

_BUILTINS = {"enumerate", "len", "list", "range", "str", "type"}


class _Calls(ast.NodeTransformer):
    """`s.replace(a, b)` becomes `replace_by_character(s, a, b)`."""

    def __init__(self) -> None:
        self.used: set[str] = set()

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if (
            not isinstance(node.func, ast.Attribute)
            or node.keywords
            or any(isinstance(a, ast.Starred) for a in node.args)
        ):
            return node
        loop = LOOPS.get((node.func.attr, len(node.args)))
        if loop is None or (isinstance(node.func.value, ast.Name) and node.func.value.id == "str"):
            return node
        self.used.add(loop)
        return ast.Call(ast.Name(loop, ast.Load()), [node.func.value, *node.args], [])


def characters(tree: ast.Module, names: Names, functions: list[ast.FunctionDef]) -> bool:
    """Rewrite the functions in place; returns whether anything changed. Left alone where the module has its own `len` or the like."""
    if _module_names(tree) & {*_BUILTINS, *LOOPS.values(), "*"}:
        return False
    calls = _Calls()
    for function in functions:
        function.body = [calls.visit(statement) for statement in function.body]
    loops = [
        node
        for name in sorted(calls.used)
        for node in ast.parse(inspect.getsource(getattr(character_loops, name))).body
    ]
    at = _after_imports(tree)
    tree.body[at:at] = loops
    names.taken |= calls.used
    return bool(calls.used)


def _module_names(tree: ast.Module) -> set[str]:
    """Names that the module itself gives values to."""
    top = Names(ast.Module([_hollow(statement) for statement in tree.body], []))
    imported = {alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    return top.bound | (imported & {"*"}) | Names(tree).shared


def _hollow(statement: ast.stmt) -> ast.stmt:
    """A definition without what is inside it."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return ast.ClassDef(statement.name, [], [], [], [])
    return statement


def _after_imports(tree: ast.Module) -> int:
    """Find the place for definitions: after the docstring and `from __future__` imports."""
    at = 0
    for statement in tree.body:
        docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not (docstring or (isinstance(statement, ast.ImportFrom) and statement.module == "__future__")):
            break
        at += 1
    return at
