"""Entry point of the `remedy` command."""

from __future__ import annotations

import signal


def main() -> None:
    """Run the command line; an interrupt during imports is silent."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from remedy.launch.cli import main

    main()
