"""Ways of exceptions: which may end in the frame that raised them, and from where they seem to come when they are raised again."""

from __future__ import annotations

from remedy.eval.control_flow.bytecode import Bytecode


class Handlers:
    """The handlers of all code objects."""

    def __init__(self, bytecode: Bytecode) -> None:
        self._codes = bytecode.codes
        self._catching: dict[tuple[int, int], bool] = {}
        self._again: dict[int, dict[int, set[int]]] = {}

    def catches(self, code: int, at: int) -> bool:
        """Say if an exception that an instruction raises may end in its frame."""
        handler = self._codes[code].instructions[at].handler
        if handler is None:
            return False
        key = (code, handler)
        if key not in self._catching:
            reached = self._reached(code, handler, through_handlers=True)
            ends = ("RETURN_VALUE", "YIELD_VALUE")
            self._catching[key] = any(self._codes[code].instructions[one].op in ends for one in reached)
        return self._catching[key]

    def places(self, code: int, at: int) -> set[int]:
        """From where a RERAISE raises: from itself, or as if from where the exception that its handler was given came."""
        instructions = self._codes[code].instructions
        if instructions[at].arg == 0:
            return {at}
        if code not in self._again:
            self._again[code] = self._places(code)
        return self._again[code].get(at) or {at}

    def _places(self, code: int) -> dict[int, set[int]]:
        instructions = self._codes[code].instructions
        covered: dict[int, set[int]] = {}
        for at, one in enumerate(instructions):
            if one.handler is not None and one.keeps_place:
                covered.setdefault(one.handler, set()).add(at)
        found: dict[int, set[int]] = {}
        for handler, places in covered.items():
            for at in self._reached(code, handler):
                if instructions[at].op == "RERAISE" and instructions[at].arg:
                    found.setdefault(at, set()).update(places)
        changed = True
        while changed:  # an exception that is raised again, and caught again, is still from where it came
            changed = False
            for places in found.values():
                more = {place for one in places if one in found for place in found[one]} - places
                places |= more
                changed = changed or bool(more)
        return found

    def _reached(self, code: int, start: int, through_handlers: bool = False) -> set[int]:
        """The instructions that can run after one, without exceptions but those that are raised again."""
        seen: set[int] = set()
        waiting: list[int | None] = [start]
        while waiting:
            at = waiting.pop()
            if at is None or at in seen:
                continue
            seen.add(at)
            one = self._codes[code].instructions[at]
            waiting += [self._codes[code].following(at), one.target]
            if through_handlers:
                waiting.append(one.handler)
        return seen
