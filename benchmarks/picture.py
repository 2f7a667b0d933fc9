"""The chart of docs/architecture.md, drawn from the imports: `python -m benchmarks.picture` (or `make picture`) writes it anew."""

from __future__ import annotations

import re
from itertools import permutations
from pathlib import Path

import grimp

PAGE = Path(__file__).resolve().parent.parent / "docs" / "architecture.md"
BLOCK = re.compile(r"<!-- picture -->.*?<!-- /picture -->", re.DOTALL)
FOLDERS = ("launch", "eval", "train", "models", "data_gen")


def chart() -> str:
    """Draw folders and the packages in them as a Mermaid graph; arrows that a longer way implies are left out."""
    graph = grimp.build_graph("remedy")
    rooms = {name: f"remedy.{name}" for name in FOLDERS if name != "eval"}
    rooms |= {
        f"eval/{child.split('.')[-1]}": child
        for child in sorted(graph.find_children("remedy.eval"))
        if graph.find_children(child)
    }
    arrows = {
        (one, other)
        for one, other in permutations(rooms, 2)
        if graph.direct_import_exists(importer=rooms[one], imported=rooms[other], as_packages=True)
    }
    kept = sorted(arrow for arrow in arrows if not _around(arrow, arrows))
    lines = [f"    {_id(one)}[{one}] --> {_id(other)}[{other}]" for one, other in kept]
    return "\n".join(["<!-- picture -->", "```mermaid", "graph TD", *lines, "```", "<!-- /picture -->"])


def _id(name: str) -> str:
    return name.replace("/", "_")


def _around(arrow: tuple[str, str], arrows: set[tuple[str, str]]) -> bool:
    """Say if the end of an arrow is reached without it."""
    reached, todo = set(), [other for one, other in arrows if one == arrow[0] and other != arrow[1]]
    while todo:
        room = todo.pop()
        if room not in reached:
            reached.add(room)
            todo += [other for one, other in arrows if one == room]
    return arrow[1] in reached


if __name__ == "__main__":
    PAGE.write_text(BLOCK.sub(lambda _: chart(), PAGE.read_text(encoding="utf-8")), encoding="utf-8")
