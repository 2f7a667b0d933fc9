"""Comprehensions as loops."""

from __future__ import annotations

import ast
from collections import Counter

from remedy.data_gen.rewrites.hoisting import Hoister
from remedy.data_gen.rewrites.names import Names

_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_READS_ALL = {"dict", "frozenset", "list", "set", "sorted", "sum", "tuple"}
_OWN_SCOPE = (ast.Lambda, ast.GeneratorExp, ast.ListComp, ast.SetComp, ast.DictComp)


class _Comprehensions(Hoister):
    """Rewrite of `[g(x) for x in xs]` as a loop that appends to `items1`."""

    used: Counter[str]

    def visit_function(self, function: ast.FunctionDef) -> None:
        self.used = Counter(node.id for node in ast.walk(function) if isinstance(node, ast.Name))
        self.used.update(node.arg for node in ast.walk(function) if isinstance(node, ast.arg))
        super().visit_function(function)

    def wanted(self, part: ast.expr, parent: ast.expr | None) -> bool:
        if not isinstance(part, _Comprehension) or not self._movable(part):
            return False
        if isinstance(part, ast.SetComp) and "set" in self.names.bound:
            return False
        return not isinstance(part, ast.GeneratorExp) or self._reads_all(part, parent)

    def _reads_all(self, part: ast.expr, parent: ast.expr | None) -> bool:
        match parent:
            case ast.Call(func=ast.Name(id=name), args=[only]):
                return only is part and name in _READS_ALL and name not in self.names.bound
            case ast.Call(func=ast.Attribute(value=ast.Constant(value=str()), attr="join"), args=[only]):
                return only is part
        return False

    def _movable(self, part: _Comprehension) -> bool:
        bound = _targets(part)
        for node in ast.walk(part):
            if isinstance(node, ast.NamedExpr | ast.Await):
                return False
            if isinstance(node, _OWN_SCOPE) and node is not part:
                lazy = isinstance(node, ast.Lambda | ast.GeneratorExp)
                if lazy and any(isinstance(n, ast.Name) and n.id in bound for n in ast.walk(node)):
                    return False
                if not lazy and _targets(node) & bound:  # type: ignore[arg-type]
                    return False
        targets_are_names = all(
            isinstance(node, ast.Name | ast.Tuple | ast.List | ast.Store | ast.Starred)
            for generator in part.generators
            for node in ast.walk(generator.target)
        )
        return targets_are_names and not any(generator.is_async for generator in part.generators)

    def take_out(self, part: ast.expr) -> ast.expr:
        if not isinstance(part, _Comprehension):
            return super().take_out(part)
        items = self.names.fresh("items")
        first = part.generators[0].iter  # belongs to the scope outside
        inside = Counter(node.id for node in ast.walk(part) if isinstance(node, ast.Name))
        inside.subtract(node.id for node in ast.walk(first) if isinstance(node, ast.Name))
        renamed = {name: self.names.fresh(name) for name in _targets(part) if self.used[name] > inside[name]}
        _rename(part, first, renamed)
        empty = ast.Call(ast.Name("set", ast.Load()), [], []) if isinstance(part, ast.SetComp) else None
        start = empty or (ast.Dict([], []) if isinstance(part, ast.DictComp) else ast.List([], ast.Load()))
        body = self._add(part, items)
        for generator in reversed(part.generators):
            for condition in reversed(generator.ifs):
                body = [ast.If(condition, body, [])]
            body = [ast.For(generator.target, generator.iter, body, [])]
        self.before.append(ast.Assign([ast.Name(items, ast.Store())], start))
        self.before += self.block(body)  # comprehensions inside it
        return ast.Name(items, ast.Load())

    def _add(self, part: _Comprehension, items: str) -> list[ast.stmt]:
        items_name = ast.Name(items, ast.Load())
        if not isinstance(part, ast.DictComp):
            method = "add" if isinstance(part, ast.SetComp) else "append"
            return [ast.Expr(ast.Call(ast.Attribute(items_name, method, ast.Load()), [part.elt], []))]
        key, before = part.key, []
        if not isinstance(key, ast.Name | ast.Constant):  # an assignment works its value out first, a display its key
            name = self.names.fresh("key")
            before = [ast.Assign([ast.Name(name, ast.Store())], key)]
            key = ast.Name(name, ast.Load())
        return [*before, ast.Assign([ast.Subscript(items_name, key, ast.Store())], part.value)]


def _targets(part: _Comprehension) -> set[str]:
    targets = (node for generator in part.generators for node in ast.walk(generator.target))
    return {node.id for node in targets if isinstance(node, ast.Name)}


def _rename(part: ast.AST, outside: ast.AST, renamed: dict[str, str]) -> None:
    outside_ids = set(map(id, ast.walk(outside)))
    for node in ast.walk(part):
        if isinstance(node, ast.Name) and id(node) not in outside_ids:
            node.id = renamed.get(node.id, node.id)


def comprehensions(tree: ast.Module, names: Names, functions: list[ast.FunctionDef]) -> bool:
    """Write comprehensions as loops, and generator expressions that are read at once."""
    return _Comprehensions(names).rewrite(functions)
