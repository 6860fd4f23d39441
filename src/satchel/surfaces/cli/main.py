"""The command line: options before the verb, the verbs, and how errors leave."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from typer.exceptions import TyperException

from satchel.errors import SatchelError
from satchel.surfaces.cli import about, keys, sealing
from satchel.surfaces.cli._console import print_error, print_json, state

_INTERRUPTED = 130
_BROKEN_PIPE = 141

app = typer.Typer(
    name="satchel",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        from satchel.actions.diagnosing import versions

        found = versions()
        if "--json" in sys.argv:
            print_json(found)
        else:
            typer.echo(
                f"satchel {found['satchel']}\n"
                f"artifact format {found['artifact format']}\n"
                f"python {found['python']}"
            )
        raise typer.Exit


@app.callback()
def options(
    home: Annotated[
        Path | None, typer.Option(help="Folder of keys and trust; also SATCHEL_HOME.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="Configuration file; also SATCHEL_CONFIG.")
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Versions, then exit."),
    ] = False,
) -> None:
    """Carry the memory of an AI agent: seal it, prove it, move it.

    Exit status: 0 ok, 1 differences or loss, 2 usage or configuration, 3 refused by verification,
    4 input malformed or unreadable, 5 target failed, 130 interrupted.
    """
    del version
    state.home, state.config, state.debug = home, config, debug


sealing.add_to(app)
keys.add_to(app)
about.add_to(app)


def main() -> None:
    """Run the command and exit with its status."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run the command with ``arguments`` and return its exit status."""
    state.json = "--json" in arguments
    try:
        result = app(arguments, prog_name="satchel", standalone_mode=False)
    except SatchelError as error:
        if state.debug:
            raise
        print_error(error)
        return error.exit_status
    except typer.Exit as leaving:
        return leaving.exit_code
    except (typer.Abort, KeyboardInterrupt):
        sys.stderr.write("interrupted\n")
        return _INTERRUPTED
    except TyperException as error:
        return _show(error)
    except BrokenPipeError:
        # The reader went away, as `| head` does; nothing more can be said to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    return result if isinstance(result, int) else 0


def _show(error: TyperException) -> int:
    """Print a usage error, which knows how to show itself, and return its status."""
    show = getattr(error, "show", None)
    if callable(show):
        show()
    else:
        sys.stderr.write(f"{error}\n")
    return int(getattr(error, "exit_code", 2))


if __name__ == "__main__":
    main()
