"""Options of the commands about memory files."""

from pathlib import Path
from typing import Annotated

from satchel.surfaces.cli._tree import Argument, Group, Option

files = Group(help="Memory files: text at paths, with history.")

Key = Annotated[
    str | None,
    Option("--key", help="Name of the store; that of the bank by default.", values="key"),
]
Root = Annotated[
    Path | None, Option("--root", help="A folder that has a store, in place of a key.")
]
At = Annotated[str, Argument(metavar="PATH", help="Path of the file in the store.")]
Actor = Annotated[str, Option(help="Who does it, for the audit.")]
Reason = Annotated[str, Option(help="Why, for the audit.")]
ExpectedSha = Annotated[
    str | None,
    Option("--expected-sha", help="What the file has to be now; empty: not there yet."),
]
ME = "person"
