"""A small experiment that tests of experiments start from."""

from __future__ import annotations

from typing import Any

SWEEP: dict[str, Any] = {
    "name": "sweep",
    "output": "runs/sweep",
    "groups": {
        "swaps": {
            "base": {
                "data": {
                    "task": {"kind": "permutation", "n": 3, "moves": "swaps", "length": 3, "distinct_values": True},
                    "format": "symbolic",
                    "context": False,
                },
                "tokenizer": {"kind": "symbols"},
                "model": {"num_hidden_layers": 1, "hidden_size": 16},
                "train": {"max_steps": 2, "batch_size": 4, "logging_steps": 1, "threads": 1},
                "tracking": {"report_to": []},
            },
            "grid": {"model.mixers": [["gru"], ["deltanet"]], "train.seed": [0, 1]},
            "evaluate": {
                "diagnostics": [
                    {"kind": "permutation", "lengths": [2, 3], "forcing": ["action_forced"], "examples": 10}
                ],
                "threads": 1,
            },
        }
    },
}


def sweep(group: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The experiment with another group of these settings, beside those of the one above, and others of its own."""
    return {**SWEEP, "groups": {"swaps": {**SWEEP["groups"]["swaps"], **group}}, **changes}
