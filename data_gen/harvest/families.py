"""Families of operations in a function, by its syntax tree."""

from __future__ import annotations

import ast

_METHODS = {
    "strings": "capitalize casefold center encode endswith expandtabs find format isalnum isalpha isdigit islower isspace isupper "
    "join ljust lower lstrip partition replace rfind rjust rpartition rsplit rstrip split splitlines startswith strip swapcase "
    "title translate upper zfill",
    "lists": "append extend insert reverse sort",
    "dicts": "items keys values setdefault fromkeys get",
    "sets": "difference intersection issubset issuperset symmetric_difference union discard add",
}
_FAMILY_OF_METHOD = {name: family for family, names in _METHODS.items() for name in names.split()}
_NODES: dict[str, tuple[type[ast.AST], ...]] = {
    "strings": (ast.JoinedStr,),
    "lists": (ast.List, ast.ListComp),
    "dicts": (ast.Dict, ast.DictComp),
    "sets": (ast.Set, ast.SetComp),
    "generators": (ast.Yield, ast.YieldFrom, ast.GeneratorExp),
    "exceptions": (ast.Try, ast.Raise),
    "classes": (ast.ClassDef,),
}
_CALLS = {
    **dict.fromkeys(("str", "ord", "chr"), "strings"),
    **dict.fromkeys(("list", "sorted"), "lists"),
    **dict.fromkeys(("set", "frozenset"), "sets"),
    **dict.fromkeys(("abs", "divmod", "float", "int", "pow", "round", "sum"), "numbers"),
    "dict": "dicts",
}
_NUMBERS = (ast.Sub, ast.Div, ast.FloorDiv, ast.Pow, ast.LShift, ast.RShift, ast.BitAnd, ast.BitXor)


def families(code: str) -> list[str]:
    shown: set[str] = set()
    for node in ast.walk(ast.parse(code)):
        shown |= {family for family, kinds in _NODES.items() if isinstance(node, kinds)}
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            shown |= {_FAMILY_OF_METHOD.get(node.func.attr, "")}
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            shown |= {_CALLS.get(node.func.id, "")}
        elif isinstance(node, ast.BinOp | ast.AugAssign):
            has_number = any(
                isinstance(side, ast.Constant) and type(side.value) in (int, float)
                for side in (getattr(node, "left", None), getattr(node, "right", None), getattr(node, "value", None))
            )
            shown |= {"numbers"} if has_number or isinstance(node.op, _NUMBERS) else set()
    return sorted(shown - {""})
