"""``satchel session``."""

from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from satchel.actions import starting
from satchel.actions.opened import OpenBank, opened_bank
from satchel.actions.paths.permission import file_to_read
from satchel.actions.sessions import branching, distilling, looking, operations
from satchel.actions.sessions.options import ForkOptions
from satchel.actions.sessions.reading import MessagesFile
from satchel.ports.operations import Option, Options, PathText
from satchel.surfaces.cli._console import state
from satchel.surfaces.cli._operations import command
from satchel.surfaces.cli._options import owner_key
from satchel.surfaces.cli._stdin import stdin_as_file
from satchel.surfaces.cli._tree import Group
from satchel.surfaces.cli.sessions import _showing as views
from satchel.surfaces.cli.sessions._picking import picked_point, picked_session

session = Group("Manage conversations and their branches.")
checkpoint = Group(help="Manage checkpoints: points of a conversation to return to.")


@dataclass(frozen=True, slots=True)
class SourceOptions(Options):
    """Where messages are read from."""

    file: Annotated[
        PathText,
        Option("Messages as JSON, one on a line; - for standard input.", argument=True),
    ]


def add_to(root: Group) -> None:
    """Add the commands of this module."""
    root.add(session, name="session")
    session.add(checkpoint, name="checkpoint")


def _to_read(bank: str | None, *_: Any) -> AbstractContextManager[OpenBank]:
    return opened_bank(state.settings, bank)


def _to_write(bank: str | None, options: Any) -> AbstractContextManager[OpenBank]:
    return opened_bank(state.settings, bank, writes=not getattr(options, "dry_run", False))


def _to_fill(bank: str | None, *_: Any) -> AbstractContextManager[OpenBank]:
    return starting.opened_to_fill(state.settings, bank, lambda: owner_key(None))


def _read_messages(values: dict[str, Any], source: SourceOptions) -> None:
    """Check all lines of the file, and have them read again when they are stored."""
    file = state.held.enter_context(stdin_as_file(Path(source.file)))
    opened = state.held.enter_context(file_to_read(state.settings, file))
    messages = MessagesFile(opened, state.settings.options.limits)
    messages.check()
    values["spoken"] = messages


def _choose(bank: OpenBank, options: ForkOptions) -> ForkOptions:
    """Have a person choose a conversation and a point of it, where none is named."""
    if options.session is not None:
        return options
    chosen = picked_session(bank)
    at = options.at if options.at is not None else picked_point(bank, chosen)
    return replace(options, session=chosen, at=at)


command(
    session,
    operations.record_session,
    views.show_recorded,
    bank=_to_fill,
    extra=SourceOptions,
    prepare=_read_messages,
)
command(session, operations.set_state, views.show_recorded, bank=_to_write)
command(session, looking.list_sessions, views.show_list, bank=_to_read)
command(session, looking.show_session, views.show_conversation, bank=_to_read)
command(
    session,
    looking.diff_sessions,
    views.show_diff,
    bank=_to_read,
    status=lambda result: int(not result.is_same),
)
command(session, branching.rename_session, views.show_changed, bank=_to_write)
command(session, branching.archive_session, views.show_changed, bank=_to_write)
command(session, branching.fork, views.show_fork, bank=_to_write, choose=_choose)
command(session, distilling.distill, views.show_distillation, bank=_to_write)
command(checkpoint, branching.create_checkpoint, views.show_checkpoint, bank=_to_write)
command(checkpoint, looking.list_checkpoints, views.show_checkpoints, bank=_to_read)
