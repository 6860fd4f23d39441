"""Types of arguments of the Python API."""

from collections.abc import Sequence

from satchel.ports.operations import PathText

Roots = Sequence[PathText]
"""Folders that a path may lead into, each absolute; an empty list allows none."""
