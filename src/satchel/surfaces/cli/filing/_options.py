"""Options of the commands about memory files."""

from pathlib import Path
from typing import Annotated

import typer

files = typer.Typer(no_args_is_help=True, help="Memory files: text at paths, with history.")

Key = Annotated[
    str | None, typer.Option("--key", help="Name of the store; that of the bank by default.")
]
Root = Annotated[
    Path | None, typer.Option("--root", help="A folder that has a store, in place of a key.")
]
At = Annotated[str, typer.Argument(metavar="PATH", help="Path of the file in the store.")]
Actor = Annotated[str, typer.Option(help="Who does it, for the audit.")]
Reason = Annotated[str, typer.Option(help="Why, for the audit.")]
ExpectedSha = Annotated[
    str | None,
    typer.Option("--expected-sha", help="What the file has to be now; empty: not there yet."),
]
ME = "person"
