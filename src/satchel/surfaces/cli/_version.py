"""``satchel --version``."""

import platform
from importlib.metadata import version

from satchel.surfaces.cli._console import line, print_json, state


def print_version() -> None:
    """Print the versions of the program, its format and Python; with --json, of its libraries."""
    if state.json:
        from satchel.actions.diagnosing import versions

        print_json(versions())
        return
    from satchel.seal import ARTIFACT_FORMAT

    line(f"satchel {version('satchel')}")
    line(f"artifact format {ARTIFACT_FORMAT}")
    line(f"python {platform.python_version()}")
