"""Types of arguments of the Python API."""

from collections.abc import Sequence
from os import PathLike

FilePath = str | PathLike[str]
Roots = Sequence[FilePath]
"""Folders that a path may lead into, each absolute; an empty list allows none."""
