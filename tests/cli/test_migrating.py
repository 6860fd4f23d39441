"""``satchel migrate``: all banks of one store to another, verified, and then the switch."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ledger_kit import memories
from transfer_kit import append, new_bank

from satchel.api.functions import migrate as migrate_banks
from satchel.bank.connections import configured_store, open_ledger
from satchel.config.settings import Settings, load_settings
from satchel.crypto.sealed_records import seal
from satchel.errors import UsageError
from satchel.model.records import Source
from satchel.ports.vectors import Generation
from satchel.receipts.steps import MigrateOptions
from satchel.replication import copies, migration
from satchel.replication.migration import migrate

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.conftest import Run


class _KilledError(BaseException):
    """What no handler catches."""


class Location:
    """Two configurations of this test, and the active one, which is the old one's content."""

    def __init__(self, folder: Path) -> None:
        self.old, self.new = folder / "old.toml", folder / "new.toml"
        self.active = folder / "satchel.toml"
        self.old_store, self.new_store = folder / "old.db", folder / "new.db"
        self.old.write_text(f'# mine\nstore.address = "{self.old_store}"\n')
        self.new.write_text(f'provider = "sqlite"\nprovider_config = {{path = "{self.new_store}"}}')
        self.active.write_bytes(self.old.read_bytes())

    @property
    def words(self) -> list[str | Path]:
        """The command."""
        return ["migrate", "--from-config", self.old, "--to-config", self.new]

    @property
    def ends(self) -> tuple[Settings, Settings]:
        """What the command works with."""
        return load_settings(config=self.old), load_settings(config=self.new)

    @property
    def kept(self) -> list[Path]:
        """The copies of what was active."""
        return sorted(self.active.parent.glob("satchel.toml.before-*"))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Location:
    """Three banks with memory in the old store."""
    found = Location(tmp_path)
    monkeypatch.setenv("SATCHEL_CONFIG", str(found.active))
    for name, count in (("ada", 5), ("bob", 30), ("cy", 1)):
        append(new_bank(name), memories(count))
    return found


def heads(store: Path) -> dict[str, bytes]:
    """Return the signed head of each bank of a store."""
    settings = load_settings(store=str(store))
    with configured_store(settings, read_only=True) as opened, opened.reading() as reader:
        found = {bank: reader.head(bank) for bank in reader.banks()}
    return {bank: head.signed for bank, head in found.items() if head is not None}


def listed(store: Path) -> dict[str, list[tuple[int, str, str]]]:
    """Return the place, id and moment of each record of each bank, proved by this machine."""
    settings = load_settings(store=str(store))
    found = {}
    with configured_store(settings, read_only=True) as opened:
        for bank in heads(store):
            with open_ledger(settings, opened, bank).reading() as view:
                found[bank] = [(one.seq, one.record.id, one.row.at) for one in view.scan()]
    return found


def test_all_banks_arrive_as_they_are_and_the_new_configuration_counts(
    satchel: Run, place: Location
) -> None:
    """Ids, places, moments, heads; the old configuration is kept under a name of its own."""
    before = place.active.read_bytes()

    ran = satchel(*place.words)

    assert ran.status == 0, ran.err
    assert "3 of 3 banks done" in ran.out
    assert heads(place.new_store) == heads(place.old_store)
    assert listed(place.new_store) == listed(place.old_store)
    assert place.active.read_bytes() == place.new.read_bytes()
    assert [path.read_bytes() for path in place.kept] == [before]
    assert len(json.loads(satchel("bank", "list", "--json").out)["banks"]) == 3
    assert satchel("remember", "and goes on", "--bank", "ada").status == 0


def test_a_dry_run_reports_the_plan_and_writes_nothing(satchel: Run, place: Location) -> None:
    """Neither a store nor a configuration."""
    ran = satchel(*place.words, "--dry-run", "--json")

    assert (ran.status, [one["relation"] for one in ran.json["banks"]]) == (0, ["new"] * 3)
    assert not place.new_store.exists()
    assert place.kept == []


def test_no_switch_leaves_the_configuration(satchel: Run, place: Location) -> None:
    """The banks are there; the next command still works with the old ones."""
    before = place.active.read_bytes()
    assert satchel(*place.words, "--no-switch").status == 0
    assert (place.active.read_bytes(), place.kept) == (before, [])
    assert heads(place.new_store) == heads(place.old_store)


def test_banks_that_are_named_are_brought_and_no_others(satchel: Run, place: Location) -> None:
    """By name or the start of an id, each once."""
    ada = next(bank for bank, records in listed(place.old_store).items() if len(records) == 7)
    ran = satchel(*place.words, "--banks", f"ada,{ada[7:15]}", "--no-switch", "--json")
    assert (ran.status, [one["name"] for one in ran.json["banks"]]) == (0, ["ada"])
    assert list(heads(place.new_store)) == [ada]


def test_a_bank_that_is_not_there_is_an_error_before_anything_is_written(
    satchel: Run, place: Location
) -> None:
    """Also where others of those named are."""
    ran = satchel(*place.words, "--banks", "ada,zed", "--json")
    assert (ran.status, ran.error["code"]) == (2, "bank.unknown")
    assert not place.new_store.exists()


def test_from_one_address_to_another(satchel: Run, place: Location) -> None:
    """Without configurations nothing is switched."""
    before = place.active.read_bytes()
    ran = satchel("migrate", place.old_store, f"sqlite:///{place.new_store}")
    assert ran.status == 0
    assert heads(place.new_store) == heads(place.old_store)
    assert place.active.read_bytes() == before


@pytest.mark.parametrize(
    "words",
    [
        ["migrate"],
        ["migrate", "a.db"],
        ["migrate", "--from-config", "a.toml", "a.db"],
        ["migrate", "a.db", "b.db", "--to-config", "c.toml"],
        ["--store", "x.db", "migrate", "a.db", "b.db"],
    ],
)
def test_source_and_target_are_required_once(satchel: Run, words: list[str]) -> None:
    """Status 2, and what to write."""
    assert satchel(*words, "--json").status == 2


@pytest.mark.usefixtures("place")
def test_a_store_is_not_migrated_to_itself(satchel: Run, place: Location) -> None:
    """Also under another name."""
    link = place.old_store.with_name("link.db")
    link.symlink_to(place.old_store)
    for other in (place.old_store, link):
        ran = satchel("migrate", place.old_store, other, "--json")
        assert (ran.status, ran.error["code"]) == (2, "usage")


def test_migrating_again_does_nothing_twice(satchel: Run, place: Location) -> None:
    """And what was added meanwhile goes along."""
    assert satchel(*place.words, "--no-switch").status == 0
    append(next(iter(heads(place.old_store))), memories(2, 500))

    ran = satchel(*place.words, "--no-switch", "--json")

    assert sorted(one.get("carried", 0) for one in ran.json["banks"]) == [0, 0, 2]
    assert listed(place.new_store) == listed(place.old_store)


def test_a_bank_that_fails_leaves_the_others_done_and_nothing_is_switched(
    satchel: Run, place: Location
) -> None:
    """The copy of one bank went another way: status 1, a plain list, the old configuration."""
    assert satchel(*place.words, "--banks", "ada", "--no-switch").status == 0
    before = place.active.read_bytes()
    ada = next(iter(heads(place.new_store)))
    with configured_store(load_settings(store=str(place.new_store))) as there:
        open_ledger(load_settings(), there, ada, writes=True).append(memories(1, 700))
    witness = Path(os.environ["SATCHEL_WITNESS"])
    for path in witness.rglob("*"):  # another machine did it
        path.unlink() if path.is_file() and "key" not in path.name else None
    with configured_store(load_settings(store=str(place.old_store))) as there:
        open_ledger(load_settings(), there, ada, writes=True).append(memories(1, 800))

    ran = satchel(*place.words)

    assert ran.status == 1
    assert "ada: failed: " in ran.out
    assert "2 of 3 banks done" in ran.out
    assert "the configuration is unchanged" in ran.err
    assert (place.active.read_bytes(), place.kept) == (before, [])
    assert len(heads(place.new_store)) == 3


def test_a_target_that_cannot_be_written_is_status_5(satchel: Run, place: Location) -> None:
    """Something else is in its place."""
    place.new_store.write_text("no database, but long enough to be compared " * 100)
    ran = satchel(*place.words, "--json")
    assert ran.status == 5
    assert {one["code"] for one in ran.json["banks"]} == {"store.version"} or ran.json["banks"]
    assert place.kept == []


def test_a_changed_byte_in_the_copy_is_found_before_the_switch(
    place: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading back reads every record, not only the head."""
    source, target = place.ends
    real = migration.push  # type: ignore[attr-defined]

    def pushed(*arguments: object, **more: object) -> object:
        done = real(*arguments, **more)  # type: ignore[arg-type]
        _damage(place.new_store)
        return done

    monkeypatch.setattr(migration, "push", pushed)
    options = MigrateOptions(jobs=1, new=place.new, active=place.active)
    found = migrate(source, target, options)

    assert [one.verified for one in found.banks].count(False) >= 1
    assert (found.switched, found.exit_status) == (None, 1)


def _damage(store: Path) -> None:
    import sqlite3

    with sqlite3.connect(store) as connection:
        connection.execute(
            "UPDATE record SET body = CAST(replace(body, 'memory 3', 'memory 4') AS BLOB)"
        )
    connection.close()


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_killed_migration_is_resumed_and_duplicates_nothing(
    place: Location, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """In the middle of a bank; then the same command is run again."""
    source, target = place.ends
    calls, real = iter(range(100)), copies.copy_blobs

    def killed(*arguments: object) -> None:
        if next(calls) == at:
            raise _KilledError
        real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(copies, "copy_blobs", killed)
    options = MigrateOptions(jobs=1, new=place.new, active=place.active)
    with pytest.raises(_KilledError):
        migrate(source, target, options)
    assert place.kept == []

    found = migrate(source, target, options)

    assert all(one.verified for one in found.banks)
    assert listed(place.new_store) == listed(place.old_store)
    assert found.switched is not None


def test_vectors_are_included_and_an_incomplete_import_is_reported(place: Location) -> None:
    """What is beside the log, and what nobody sees yet."""
    source, target = place.ends
    settings = load_settings(store=str(place.old_store))
    generation = Generation(model="m", dimensions=2, number=1)
    with configured_store(settings) as store:
        bank = min(heads(place.old_store))
        ledger = open_ledger(settings, store, bank, writes=True)
        with ledger.reading() as view:
            identity = [one.record.id for one in view.scan()][2]
        with store.writing() as writing:
            writing.vectors.put(bank, generation, {identity: [1.0, 0.5]})
        batch = seal(Source(provider="mem0", format="mem0"))
        ledger.append([batch])
        ledger.append(memories(1, 900), batch=batch.id)

    found = migrate(source, target, MigrateOptions())

    one = next(each for each in found.banks if each.bank == bank)
    assert (one.vectors, one.verified, "incomplete" in one.notes[0]) == (1, True, True)
    with configured_store(target, read_only=True) as store, store.reading() as reader:
        assert reader.vectors.get(bank, generation, [identity]) == {identity: (1.0, 0.5)}


@pytest.mark.parametrize(("old", "new"), [("toml", "yaml"), ("yaml", "toml"), ("yaml", "yml")])
def test_the_switch_goes_from_toml_to_yaml_and_back(
    satchel: Run, place: Location, monkeypatch: pytest.MonkeyPatch, old: str, new: str
) -> None:
    """The active file keeps its name, so it keeps its language."""
    folder = place.active.parent
    active, other = folder / f"active.{old}", folder / f"other.{new}"
    yaml = {"toml": 'store.address = "{}"', "yaml": "store: {{address: '{}'}}"}
    active.write_text(yaml["toml" if old == "toml" else "yaml"].format(place.old_store))
    other.write_text(yaml["toml" if new == "toml" else "yaml"].format(place.new_store))
    monkeypatch.setenv("SATCHEL_CONFIG", str(active))

    assert satchel("migrate", "--from-config", active, "--to-config", other).status == 0

    assert load_settings().store == str(place.new_store)


def test_the_active_file_keeps_its_mode_and_a_link_is_followed(
    satchel: Run, place: Location
) -> None:
    """Dotfiles that are kept elsewhere stay there."""
    real = place.active.with_name("real.toml")
    place.active.rename(real)
    real.chmod(0o600)
    place.active.symlink_to(real)

    assert satchel(*place.words).status == 0

    assert place.active.is_symlink()
    assert real.read_bytes() == place.new.read_bytes()
    assert real.stat().st_mode & 0o777 == 0o600


def test_python_does_the_same(place: Location) -> None:
    """The same ends, the same switch; a failing bank is in what is returned."""
    seen = list[str | None]()
    found = migrate_banks(
        from_config=place.old, to_config=place.new, on_bank=lambda one: seen.append(one.name)
    )
    assert (found.exit_status, sorted(map(str, seen))) == (0, ["ada", "bob", "cy"])
    assert place.active.read_bytes() == place.new.read_bytes()
    with pytest.raises(UsageError):
        migrate_banks(from_config=place.old)


@pytest.mark.prove
def test_a_migration_killed_at_any_moment_is_resumed(
    place: Location, process: Callable[..., subprocess.Popen[bytes]], satchel: Run
) -> None:
    """Twenty kills at random moments; then the two stores are the same, and the switch is done."""
    for bank in list(heads(place.old_store)):
        append(bank, memories(3000, 1000))
    chance = random.Random(7)  # noqa: S311 - the same moments in every run
    killed = 0
    for _ in range(20):
        running = process(*place.words)
        try:
            running.communicate(timeout=chance.uniform(0.2, 2.0))
        except subprocess.TimeoutExpired:
            killed += 1
            running.send_signal(signal.SIGKILL)
            running.communicate()
        else:
            assert running.returncode == 0

    assert killed
    assert satchel(*place.words).status == 0

    assert listed(place.new_store) == listed(place.old_store)
    assert load_settings().store == f"sqlite:///{place.new_store}"


def test_banks_that_would_be_missing_are_named_and_nothing_is_switched(
    satchel: Run, place: Location
) -> None:
    """The store that counts never loses a bank without a word; a flag accepts it."""
    ran = satchel(*place.words, "--banks", "ada,bob")
    assert ran.status == 1
    assert "not migrated" in ran.err
    assert "cy" in ran.err.partition("not migrated")[2]
    assert "--leave-others" in ran.err
    assert place.active.read_bytes() == place.old.read_bytes()
    again = satchel(*place.words, "--banks", "ada,bob", "--json")
    assert (again.status, again.json["left"]) == (1, ["cy"])

    ran = satchel(*place.words, "--banks", "ada,bob", "--leave-others")
    assert ran.status == 0
    assert "not migrated" in ran.err
    assert place.active.read_bytes() != place.old.read_bytes()


def test_a_bank_that_was_migrated_before_is_not_omitted(satchel: Run, place: Location) -> None:
    """Bank by bank, the last one switches."""
    assert satchel(*place.words, "--banks", "ada,bob").status == 1
    ran = satchel(*place.words, "--banks", "cy")
    assert (ran.status, "not migrated" in ran.err) == (0, False)
    assert place.active.read_bytes() != place.old.read_bytes()
