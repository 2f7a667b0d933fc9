"""The `remedy` command, up to where its modules are imported."""

from __future__ import annotations

import signal


def main() -> None:
    """Run the command line. An interrupt while it is imported ends the process at once; from then on one is said."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from remedy.launch.cli import main

    main()
