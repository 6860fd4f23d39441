"""The command line: options before the verb, the verbs, and how errors leave."""

import gc
import os
import sys
import traceback
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated

import typer
from typer.exceptions import TyperException

from satchel.errors import SatchelError, TargetError, UsageError
from satchel.surfaces.cli import (
    about,
    banks,
    changing,
    copies,
    erasing,
    exporting,
    importing,
    keys,
    remembering,
    sealing,
    showing,
)
from satchel.surfaces.cli._console import ReaderGoneError, print_error, print_json, state

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
        if state.json:
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
    store: Annotated[
        str | None,
        typer.Option(help="Where banks are, as sqlite:///path.db; also SATCHEL_STORE."),
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
    as_json: Annotated[bool, typer.Option("--json", hidden=True)] = False,
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
    if as_json:
        raise UsageError("--json stands after the command")
    state.home, state.config, state.store, state.debug = home, config, store, debug


remembering.add_to(app)
showing.add_to(app)
changing.add_to(app)
sealing.add_to(app)
keys.add_to(app)
banks.add_to(app)
importing.add_to(app)
exporting.add_to(app)
copies.add_to(app)
erasing.add_to(app)
about.add_to(app)


def main() -> None:
    """Run the command and exit with its status."""
    # Records are trees that counting alone frees; looking for cycles among them is a fifth of
    # the time of a large conversion.
    gc.set_threshold(100_000)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # an old locale shows escapes
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run the command with ``arguments`` and return its exit status."""
    state.reset(json="--json" in arguments)
    try:
        result = app(arguments, prog_name="satchel", standalone_mode=False)
        sys.stdout.flush()
    except SatchelError as error:
        return _failed(error)
    except (typer.Abort, KeyboardInterrupt):
        return _interrupted()
    except TyperException as error:
        return _misused(error)
    except (BrokenPipeError, ReaderGoneError):
        # The reader went away, as `| head` does; nothing more can be said to it.
        _drop_stdout()
        return _BROKEN_PIPE
    except OSError as error:  # of a file that no action knows about, such as stdout
        _drop_stdout()
        what = f"the system refused: {error.strerror or error}"
        return _failed(TargetError(what, file=error.filename))
    return _interrupted() if result == _INTERRUPTED else int(result or 0)


def _interrupted() -> int:
    sys.stderr.write("interrupted\n")
    return _INTERRUPTED


def _failed(error: SatchelError) -> int:
    if state.debug:
        traceback.print_exception(error)
    print_error(error)
    return error.exit_status


def _misused(error: TyperException) -> int:
    """Say what was wrong with the command line; file names in it cannot drive the terminal."""
    text, context = error.format_message(), getattr(error, "ctx", None)
    if not text and not state.json:
        return UsageError.exit_status  # no arguments at all: the help was shown instead
    usage = context.get_usage() if context is not None else None
    print_error(UsageError(text or "what to do was not said", hint=usage))
    return UsageError.exit_status


def _drop_stdout() -> None:
    """Let the interpreter's own last flush go nowhere, so that it does not complain."""
    with suppress(OSError, ValueError):  # stdout may be no real file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
