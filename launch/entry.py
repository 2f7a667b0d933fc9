"""Entry point of the `remedy` command."""

from __future__ import annotations

import gc
import signal


def main() -> None:
    """Run the command line; an interrupt during imports is silent."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Imports make millions of objects that stay: looking through them again and again takes a second.
    gc.set_threshold(100_000)
    from remedy.launch.cli import main

    main()
