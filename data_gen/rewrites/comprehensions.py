"""Comprehensions as loops."""

from __future__ import annotations

import ast
from typing import Any

from remedy.data_gen.rewrites.hoisting import Hoister
from remedy.data_gen.rewrites.names import Names

_READS_ALL = {"dict", "frozenset", "list", "set", "sorted", "sum", "tuple"}
_PARTS_OF_TARGETS = (ast.Name, ast.Tuple, ast.List, ast.Starred, ast.expr_context)


class _Comprehensions(Hoister):
    """Rewrite of `[g(x) for x in xs]` as a loop that appends to `items1`."""

    def wanted(self, part: ast.expr, parent: ast.AST) -> bool:
        match part, parent:
            case ast.GeneratorExp(), ast.Call(func=ast.Name(id=name), args=[only], keywords=[]) if only is part:
                read_at_once = name in _READS_ALL and name not in self.names.bound
            case ast.GeneratorExp(), ast.Call(func=ast.Attribute(ast.Constant(str()), "join"), args=[only]):
                read_at_once = only is part
            case ast.SetComp(), _:
                read_at_once = "set" not in self.names.bound
            case _:
                read_at_once = isinstance(part, ast.ListComp | ast.DictComp)
        return read_at_once and _movable(part)

    def take_out(self, part: Any) -> ast.expr:
        outermost = part.generators[0]
        iterated, outermost.iter = outermost.iter, ast.Constant(None)  # it belongs to the scope outside
        inside = Names(part).taken
        renamed = {name: self.names.fresh(name) for name in _targets(part) if self.names.taken[name] > inside[name]}
        for node in ast.walk(part):
            if isinstance(node, ast.Name):
                node.id = renamed.get(node.id, node.id)
        outermost.iter = iterated
        items = self.names.fresh("items")
        empty, added = self._added(part, items)
        lines = []
        for generator in part.generators:
            lines.append(f"for {ast.unparse(generator.target)} in {ast.unparse(generator.iter)}:")
            lines += [f"if {ast.unparse(condition)}:" for condition in generator.ifs]
        nested = "\n".join(" " * depth + line for depth, line in enumerate([*lines, added]))
        loop = ast.parse(f"{items} = {empty}\n{nested}")
        self.generic_visit(loop)  # comprehensions inside it
        self.before += loop.body
        return ast.Name(items, ast.Load())

    def _added(self, part: Any, items: str) -> tuple[str, str]:
        """Return the empty collection, and the statement that adds an item."""
        if not isinstance(part, ast.DictComp):
            empty, add = ("set()", "add") if isinstance(part, ast.SetComp) else ("[]", "append")
            return empty, f"{items}.{add}({ast.unparse(part.elt)})"
        key, value = ast.unparse(part.key), ast.unparse(part.value)
        if self.stable(part.key):
            return "{}", f"{items}[{key}] = {value}"
        name = self.names.fresh("key")  # an assignment works its value out first, a display its key
        return "{}", f"{name} = {key}; {items}[{name}] = {value}"


def _movable(part: Any) -> bool:
    """Say if a comprehension's variables may be those of the function."""
    hidden: set[str] = set()
    for node in ast.walk(part):
        if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp) and node is not part:
            hidden |= _targets(node)
        elif isinstance(node, ast.Lambda | ast.GeneratorExp) and node is not part:
            hidden.update(Names(node).taken)
    targets = [node for generator in part.generators for node in ast.walk(generator.target)]
    plain = all(isinstance(node, _PARTS_OF_TARGETS) for node in targets)
    return plain and not hidden & _targets(part) and not any(generator.is_async for generator in part.generators)


def _targets(part: Any) -> set[str]:
    return {name for generator in part.generators for name in Names(generator.target).taken}


def comprehensions(tree: ast.Module, names: Names, functions: list[ast.FunctionDef]) -> None:
    """Write comprehensions as loops, and generator expressions that are read at once."""
    _Comprehensions(names).rewrite(functions)
