"""``satchel amplihack``, with the flags of amplihack's page, and ``satchel hook``."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from satchel.actions.amplihack import operations
from satchel.actions.amplihack.hosting import (
    LONGEST_REQUEST,
    Asked,
    Start,
    Stop,
    asked_from,
    host_answer,
)
from satchel.actions.amplihack.sessions import SessionSummary
from satchel.ports.operations import Options
from satchel.surfaces.cli._console import count, message, print_json, state
from satchel.surfaces.cli._operations import command
from satchel.surfaces.cli._options import tell_secrets
from satchel.surfaces.cli._progress import activity
from satchel.surfaces.cli._tree import Group
from satchel.surfaces.cli.amplihack import _showing as views

amplihack = Group(help="Manage the memory of amplihack's agents.")
hook = Group(help="Hooks that agent hosts run; JSON on stdin.")


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    app.add(amplihack, name="amplihack")
    app.add(hook, name="hook")


def _request() -> Asked:
    return asked_from(sys.stdin.buffer.read(LONGEST_REQUEST + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRequest(Options):
    """What a host says on standard input."""

    request: Asked = field(default_factory=_request)


def _name_request(values: dict[str, Any], host: HostRequest) -> None:
    values["request"] = host.request


def _show_start(result: Start, host: HostRequest) -> None:
    print_json(host_answer("SessionStart", result.context, host.request))


def _show_stop(result: Stop, host: HostRequest) -> None:
    print_json(host_answer("Stop", "", host.request))
    message(f"stored {count(len(result.stored), 'learning')}, {result.known:,} known already")
    if result.passed_over:
        message(f"{count(result.passed_over, 'line')} of the transcript could not be read")
    tell_secrets(result.secrets, 0)


def _asking(_: object) -> dict[str, Any]:
    can_ask = sys.stdin.isatty() and sys.stderr.isatty() and not state.json
    return {"agree": _agree if can_ask else None}


def _agree(found: Sequence[SessionSummary]) -> bool:
    for each in found:
        message(f"  {each.session_id} ({each.memory_count} memories)")
    message(f"Forget {count(len(found), 'session')}? [y/N] ")
    with activity.hidden():
        return sys.stdin.readline().strip().lower() in ("y", "yes")


command(amplihack, operations.show_tree, views.show_tree)
command(
    amplihack,
    operations.clean_sessions,
    views.show_cleaned,
    internal=_asking,
    status=lambda result: int(bool(result.failed)),
)
command(
    amplihack,
    operations.export_agent,
    views.show_exported,
    status=lambda result: int(bool(result.unaccepted)),
)
command(
    amplihack,
    operations.import_agent,
    views.show_imported,
    status=lambda result: int(bool(result.unaccepted)),
)
command(hook, operations.start_session, _show_start, extra=HostRequest, prepare=_name_request)
command(
    hook,
    operations.stop_session,
    _show_stop,
    extra=HostRequest,
    prepare=_name_request,
)
