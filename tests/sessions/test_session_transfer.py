"""Sessions in transfer: in files, in copies of a bank and back, and in merges."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from bank_kit import filled, owner
from sessions_kit import begun, distilled, say, texts_of

from satchel.admin.bank_copy import copy_bank, merge_banks
from satchel.bank.banks import admit_writer, create_bank
from satchel.bank.connections import writer_key
from satchel.bank.machine_keys import signing_key
from satchel.bank.open_bank import OpenBank, open_bank
from satchel.config.settings import Settings, load_settings
from satchel.replication.operations import ExchangeOptions, pull, push
from satchel.sessions.branches import archive_session, create_checkpoint, fork
from satchel.sessions.queries import list_checkpoints, list_sessions, show_session
from satchel.sessions.record import set_state as change
from satchel.transfer.export_records import ExportOptions
from satchel.transfer.exports import export
from satchel.transfer.imports import import_file

Shown = dict[str, Any]


def fill(bank: OpenBank) -> str:
    """Make a session with distillations, a named checkpoint, forks of forks and states."""
    session = begun(bank, 3).session
    change(bank, session, working_state={"task": 1}, note="n")
    create_checkpoint(bank, session, name="point")
    distilled(bank, session, [["I live in Oslo.", "We decided to walk."], ["more"]])
    one = fork(bank, session, at="point", name="one").id
    say(bank, one, "a", "b")
    change(bank, one, working_state="w")
    two = fork(bank, one, at="4", name="two").id
    say(bank, two, "c")
    archive_session(bank, fork(bank, two, name="three", memories="as-of").id)
    return session


def everything(bank: OpenBank) -> list[Shown]:
    """Return all that can be read of the sessions, except what imports change."""
    found = []
    for one in list_sessions(bank, include_archived=True):
        shown = show_session(bank, one.id, last=10_000)
        origin = one.origin
        found.append(
            {
                "session": (one.id, one.name, one.archived, one.depth, one.messages, one.memories),
                "origin": origin and (origin.session, origin.number, origin.element),
                "messages": shown.messages,
                "state": shown.state,
                "checkpoints": [(p.id, p.name, p.number) for p in list_checkpoints(bank, one.id)],
            }
        )
    return sorted(found, key=lambda each: str(each["session"]))


STORES = [
    "sqlite",
    *(pytest.param(name, marks=pytest.mark.prove) for name in ("ladybug", "postgresql")),
]


def open_for_writing(name: str, settings: Settings | None = None) -> Any:
    """Open a bank for writing."""
    return open_bank(settings or load_settings(), name, writes=True)


@pytest.mark.parametrize("name", ["a.pam", "a.pam.jsonl", "a.pam.cbor"])
def test_an_exported_file_contains_sessions_checkpoints_and_forks(
    tmp_path: Path, name: str
) -> None:
    """All with their IDs: the importing bank continues where the other one was."""
    path = tmp_path / name
    with filled("first") as bank:
        session = fill(bank)
        before = everything(bank)
        export(bank, path, ExportOptions(key=owner()))
    assert import_file(load_settings(), path, "second", owner).banks[0].done.read > 0
    with open_for_writing("second") as bank:
        assert everything(bank) == before
        say(bank, session, "on")
        say(bank, "two", "on as well")
        assert texts_of(bank, session)[-1] == "on"
        assert texts_of(bank, "two")[-2:] == ["c", "on as well"]
        back = fork(bank, session, at="distillation:1").id
        assert texts_of(bank, back)[-1] == "We decided to walk."
    import_file(load_settings(), path, "second", owner)
    with open_for_writing("second") as bank:
        assert len(list_sessions(bank, include_archived=True)) == len(before) + 1
        assert texts_of(bank, session)[-1] == "on"


@pytest.mark.usefixtures("any_store")
@pytest.mark.parametrize("any_store", STORES, indirect=True)
def test_sessions_are_the_same_on_every_store_and_after_a_merge() -> None:
    """Copied, then merged into a bank that has others; both continue on their own."""
    with filled("first") as bank:
        session = fill(bank)
        before = everything(bank)
    copy_bank(load_settings(), "first", "second", owner())
    with open_for_writing("second") as bank:
        assert everything(bank) == before
        say(bank, session, "in the second")
    with open_for_writing("first") as bank:
        assert everything(bank) == before
        assert texts_of(bank, session)[-1] == "more"
    create_bank(load_settings(), "third", owner())
    with open_for_writing("third") as bank:
        begun(bank, 2, "own")
    merge_banks(load_settings(), "first", "third")
    with open_for_writing("third") as bank:
        assert [one for one in everything(bank) if one["session"][1] != "own"] == before
        assert texts_of(bank, "own") == ["turn 1", "turn 2"]


def test_two_machines_exchange_sessions_without_moving_an_end(tmp_path: Path) -> None:
    """Pulled and pushed; messages of both to one session become a branch."""
    one, two = (
        load_settings(
            home=tmp_path / name, environment={"SATCHEL_WITNESS": str(tmp_path / f"{name}-saw")}
        )
        for name in ("one", "two")
    )
    key, _ = signing_key(one, None)
    shutil.copytree(one.home, two.home)
    bank_id = create_bank(one, "assistant", key).id
    admit_writer(one, bank_id, (key,), writer_key(two).did)
    with open_for_writing(bank_id, one) as bank:
        session = fill(bank)
        before = everything(bank)
    pull(two, one.store, ExchangeOptions())
    with open_for_writing(bank_id, two) as bank:
        assert everything(bank) == before
        say(bank, session, "from two")
    push(two, one.store, ExchangeOptions())
    with open_for_writing(bank_id, one) as bank:
        assert texts_of(bank, session)[-1] == "from two"
        say(bank, session, "one goes on")
    with open_for_writing(bank_id, two) as bank:
        other = say(bank, session, "two goes on").element
    pull(one, two.store, ExchangeOptions(merge=True))
    with open_for_writing(bank_id, one) as bank:
        assert texts_of(bank, session)[-2:] == ["from two", "one goes on"]
        branch = fork(bank, session, at=other).id
        assert texts_of(bank, branch)[-2:] == ["from two", "two goes on"]
        say(bank, session, "and on")
        assert texts_of(bank, session)[-2:] == ["one goes on", "and on"]
