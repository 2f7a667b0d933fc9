"""Length of the chunks in which a recurrence is computed."""

from __future__ import annotations


def chunk_length(steps: int, most: int) -> int:
    """The length of as few chunks as hold so many steps with at most `most` in each: all alike, so that the last one is padded little.
    No steps make chunks of one."""
    return -(-steps // max(1, -(-steps // most))) or 1
