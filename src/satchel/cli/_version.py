"""``satchel --version``."""

import platform
from importlib.metadata import version

from satchel.cli._console import line, print_json, state


def print_version() -> None:
    """Print the versions of the program, its format and Python; with --json, of its libraries."""
    if state.json:
        from satchel.bank.checks import versions

        print_json(versions())
        return
    from satchel.artifact import ARTIFACT_FORMAT

    line(f"satchel {version('satchel')}")
    line(f"artifact format {ARTIFACT_FORMAT}")
    line(f"python {platform.python_version()}")
