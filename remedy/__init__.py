"""cwm-remedy: tests cures for the failures of code world models.

The five folders beside this one are its subpackages; the links here let every tool find them by their import names.
"""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("cwm-remedy")
except PackageNotFoundError:  # a checkout that is not installed
    __version__ = "0+unknown"
