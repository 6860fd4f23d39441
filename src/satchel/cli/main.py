"""Entry point of the command line: runs a command, prints errors, exits."""

import gc
import os
import sys
from contextlib import suppress
from io import TextIOWrapper
from typing import Any

from satchel.cli._console import ReaderGoneError, print_error, state
from satchel.errors import SatchelError, TargetError, UsageError

GARBAGE_AFTER = 100_000
"""Objects after which the garbage collector runs.

Records are trees without cycles, which reference counting frees. With the interpreter's default of
700, the collector takes a fifth of the time of a large conversion, and a third of a long listing.
"""

_INTERRUPTED = 130
_HOOK_FAILED = 1
_BROKEN_PIPE = 141


def main() -> None:
    """Run the command and exit with its status."""
    gc.set_threshold(GARBAGE_AFTER)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # locales without UTF-8 show escapes
    status = run(sys.argv[1:])
    gc.freeze()  # the last collections take a tenth of the time of a short command
    sys.exit(status)


def run(arguments: list[str]) -> int:
    """Run the command with ``arguments`` and return its exit status."""
    state.reset(json="--json" in arguments)
    try:
        result = _run(arguments)
        sys.stdout.flush()
    except SatchelError as error:
        return _failed(error)
    except KeyboardInterrupt:
        return _interrupted()
    except (BrokenPipeError, ReaderGoneError):
        # The reader closed the pipe, as `| head` does.
        _drop_stdout()
        return _BROKEN_PIPE
    except OSError as error:  # of a file that no operation handles, such as stdout
        _drop_stdout()
        what = f"the system refused: {error.strerror or error}"
        return _failed(TargetError(what, file=error.filename))
    finally:
        state.finish()
    return _interrupted() if result == _INTERRUPTED else int(result or 0)


def _run(arguments: list[str]) -> Any:
    from satchel.cli._parser import run_command

    return run_command(arguments)


def _interrupted() -> int:
    sys.stderr.write("interrupted\n")
    return _INTERRUPTED


def _failed(error: SatchelError) -> int:
    if state.debug:
        import traceback

        traceback.print_exception(error)
    print_error(error)
    # To an agent host, 2 from a hook means "block": the session could not start, or never end.
    is_usage = error.exit_status == UsageError.exit_status
    return _HOOK_FAILED if state.is_hook and is_usage else error.exit_status


def _drop_stdout() -> None:
    """Redirect the interpreter's last flush to null, so that it prints no error."""
    with suppress(OSError, ValueError):  # stdout may not be a real file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
