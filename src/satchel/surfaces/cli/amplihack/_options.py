"""Options that the commands of ``satchel memory`` share."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

from satchel.surfaces.cli._console import line
from satchel.surfaces.cli._tree import Option


class Shape(StrEnum):
    """What a transfer is written as."""

    JSON = "json"
    RAW = "raw-db"


Agent = Annotated[str, Option("--agent", help="The agent; its bank has the same name.")]
AsShape = Annotated[
    Shape, Option("--format", "-f", help="json, or raw-db: amplihack's SQLite database.")
]
StoragePath = Annotated[
    Path | None,
    Option(
        "--storage-path",
        help="Folder in amplihack's layout, a file for each agent; the store otherwise.",
    ),
]


def show_statistics(found: list[tuple[str, str]]) -> None:
    """Print counts by name."""
    for name, number in found:
        line(f"  {name}: {number}")
