"""Makers of logs in the forms of other harnesses."""

import json
from pathlib import Path

import pandas as pd


def table(path: Path, right: list[int], **columns: list[object]) -> Path:
    pd.DataFrame({"id": range(len(right)), "right": right} | columns).to_csv(path, index=False)
    return path


def inspect_log(path: Path, scores: list[dict | None]) -> Path:
    samples = [{"id": number, "epoch": 1, "scores": one} for number, one in enumerate(scores)]
    path.write_text(json.dumps({"status": "success", "eval": {"task": "reverse"}, "samples": samples}))
    return path


def samples(path: Path, right: list[int], written: str = "", **more: object) -> Path:
    """Samples of lm-eval; a wrong answer is `written` and the document's number, or no text is kept."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        {
            "doc_id": number,
            "doc": {},
            "target": 1,
            "doc_hash": f"{number:08x}",
            "metrics": ["match"],
            "match": float(score),
        }
        | ({"resps": [["right" if score else f"{written}{number}"]]} if written else {})
        | more
        for number, score in enumerate(right)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path
