"""Speed of progress and remaining time."""

from __future__ import annotations

import time


class Speed:
    """Rate of steps since the first call."""

    def __init__(self) -> None:
        self._first: tuple[float, float] | None = None

    def rate(self, done: float) -> float | None:
        """Return steps per second; None if not known yet."""
        now = time.monotonic()
        if self._first is None:
            self._first = (now, done)
        begin, first = self._first
        return (done - first) / (now - begin) if done > first and now > begin else None

    def left(self, done: float, of: float) -> float | None:
        """Estimate the seconds until step `of`."""
        rate = self.rate(done)
        return (of - done) / rate if rate else None


def duration(seconds: float | None) -> str:
    """Write seconds as `2 min 05 s`; "" if unknown."""
    if not seconds:
        return ""
    minutes, seconds_left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return (
        f"{hours} h {minutes:02} min"
        if hours
        else f"{minutes} min {seconds_left:02} s"
        if minutes
        else f"{seconds_left} s"
    )
