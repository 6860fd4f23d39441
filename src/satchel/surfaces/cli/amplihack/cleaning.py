"""``satchel amplihack clean``."""

import sys
from typing import Annotated

from satchel.actions.amplihack.cleaning import PATTERN, Cleaned, clean, matching
from satchel.actions.amplihack.resolving import open_agents
from satchel.errors import UsageError
from satchel.surfaces.cli._console import count, line, message, print_json, state
from satchel.surfaces.cli._options import Json
from satchel.surfaces.cli._tree import Option
from satchel.surfaces.cli.amplihack._backend import Backend, settings_of


def clean_command(
    pattern: Annotated[
        str, Option("--pattern", help="Names of sessions; * is any text, ? any sign.")
    ] = PATTERN,
    no_dry_run: Annotated[
        bool, Option("--no-dry-run", help="Do it; otherwise sessions are only listed.")
    ] = False,
    confirm: Annotated[
        bool, Option("--confirm", help="Do not ask again, as where no person is.")
    ] = False,
    backend: Backend = None,
    as_json: Json = False,
) -> int:
    """Forget the sessions whose names match; without --no-dry-run they are only listed.

    What was forgotten is no longer recalled; satchel prune erases its bytes.

    Example: `satchel amplihack clean --pattern "test_*" --no-dry-run --confirm`
    """
    settings = settings_of(backend)
    with open_agents(settings, read_only=not no_dry_run, makes=False) as agents:
        found = matching(agents, pattern)
        if not as_json:
            line(f"Found {count(len(found), 'session')} matching '{pattern}'")
            for one in found:
                line(f"  {one.session_id} ({one.memory_count} memories)")
        if no_dry_run and found and (confirm or _agreed(len(found))):
            done = clean(agents, pattern, found)
        else:
            done = Cleaned(pattern=pattern, matched=found)
    if as_json:
        print_json(done)
    else:
        _show(done, asked=no_dry_run)
    return int(bool(done.failed))


def _agreed(number: int) -> bool:
    """Ask a person; where there is none, it has to be said."""
    if state.json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            f"{count(number, 'session')} would be forgotten, and nobody is there to ask",
            field="confirm",
            hint="Say it: --confirm.",
        )
    message(f"Forget {count(number, 'session')}? [y/N] ")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _show(done: Cleaned, *, asked: bool) -> None:
    if done.dry_run:
        what = "Nothing was done" if asked else "Dry-run mode"
        line(f"{what}: No sessions were deleted.")
        return
    for session in done.deleted:
        line(f"Deleted: {session}")
    for session, why in done.failed.items():
        message(f"{session}: {why}")
    line(f"Cleanup complete: {len(done.deleted)} deleted, {len(done.failed)} errors")
