"""The pictures of the documents: `python -m benchmarks.picture` (or `make picture`) draws them anew.

They are the chart of docs/architecture.md, drawn from the imports, and screenshots of pages of `remedy show` and `remedy simulate`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from itertools import permutations
from pathlib import Path

import grimp
from PIL import Image, ImageChops

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "architecture.md"
BLOCK = re.compile(r"<!-- picture -->.*?<!-- /picture -->", re.DOTALL)
PAGES = {
    "show": ["show", "examples/initial.py", "reveal.locals=diff", "tokenizer.kind=bpe"],
    "simulate": ["simulate", "runs/quickstart/strings/character-strings-seed-0/model", "examples/mirror.py", "--check"],
}
"""The commands whose pages are shown, by the picture's name."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WIDTH, HEIGHT, SCALE, MARGIN = 1400, 4000, 1.5, 20
"""The window in pixels of a page, how many of a picture each is, and pixels of white around what is shown."""
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


def screenshot(browser: str, page: Path, picture: Path) -> None:
    """Draw a page as a browser shows it, without the white around it."""
    raw = page.with_suffix(".png")
    options = ["--headless", "--disable-gpu", "--hide-scrollbars", f"--force-device-scale-factor={SCALE}"]
    options += ["--no-sandbox"] if os.geteuid() == 0 else []
    words = [browser, *options, f"--window-size={WIDTH},{HEIGHT}", f"--screenshot={raw}", page.as_uri()]
    subprocess.run(words, check=True, capture_output=True, timeout=300)
    with Image.open(raw) as shown:
        image = shown.convert("RGB")
    left, top, right, bottom = ImageChops.difference(image, Image.new("RGB", image.size, "white")).getbbox() or (0,) * 4
    if bottom > image.height - MARGIN:
        sys.exit(f"{picture}: the page is higher than {HEIGHT} pixels: make HEIGHT larger")
    box = (max(0, left - MARGIN), max(0, top - MARGIN), min(image.width, right + MARGIN), bottom + MARGIN)
    image.crop(box).quantize(colors=128).save(picture, optimize=True)
    print(picture)


def draw_pages() -> None:
    """Draw the pages of commands."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        sys.exit(
            f"docs/images are as they were: no {', '.join(BROWSERS)} is here: install one (apt-get install chromium)"
        )
    for name, words in PAGES.items():
        if words[1].startswith("runs/") and not (ROOT / words[1]).exists():
            print(f"docs/images/{name}.png is as it was: {words[1]} is missing: run `make quickstart` first")
            continue
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "page.html"
            subprocess.run([sys.executable, "-m", "remedy.launch.cli", *words, "--html", page], cwd=ROOT, check=True)
            screenshot(browser, page, ROOT / "docs" / "images" / f"{name}.png")


if __name__ == "__main__":
    PAGE.write_text(BLOCK.sub(lambda _: chart(), PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    draw_pages()
