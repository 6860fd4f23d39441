"""``satchel migrate``: banks copied to another store, verified, and a new configuration."""

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
    """An exception that no handler catches."""


class Migration:
    """Old and new configurations, and the active one, a copy of the old."""

    def __init__(self, folder: Path) -> None:
        self.old, self.new = folder / "old.toml", folder / "new.toml"
        self.active = folder / "satchel.toml"
        self.old_store, self.new_store = folder / "old.db", folder / "new.db"
        self.old.write_text(f'# mine\nstore.address = "{self.old_store}"\n')
        self.new.write_text(f'provider = "sqlite"\nprovider_config = {{path = "{self.new_store}"}}')
        self.active.write_bytes(self.old.read_bytes())

    @property
    def words(self) -> list[str | Path]:
        """The command line."""
        return ["migrate", "--from-config", self.old, "--to-config", self.new]

    @property
    def ends(self) -> tuple[Settings, Settings]:
        """Settings of both ends."""
        return load_settings(config=self.old), load_settings(config=self.new)

    @property
    def kept(self) -> list[Path]:
        """The saved copies of the active configuration."""
        return sorted(self.active.parent.glob("satchel.toml.before-*"))


@pytest.fixture
def migration_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Migration:
    """Three banks with memory in the old store."""
    found = Migration(tmp_path)
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
    """Return position, ID and time of each record of each bank, verified by this machine."""
    settings = load_settings(store=str(store))
    found = {}
    with configured_store(settings, read_only=True) as opened:
        for bank in heads(store):
            with open_ledger(settings, opened, bank).reading() as view:
                found[bank] = [(one.seq, one.record.id, one.row.at) for one in view.scan()]
    return found


def test_migrate_copies_all_banks_and_switches_the_configuration(
    satchel: Run, migration_case: Migration
) -> None:
    """IDs, positions, times, heads; the old configuration is saved under another name."""
    before = migration_case.active.read_bytes()

    ran = satchel(*migration_case.words)

    assert ran.status == 0, ran.err
    assert "3 of 3 banks done" in ran.out
    assert heads(migration_case.new_store) == heads(migration_case.old_store)
    assert listed(migration_case.new_store) == listed(migration_case.old_store)
    assert migration_case.active.read_bytes() == migration_case.new.read_bytes()
    assert [path.read_bytes() for path in migration_case.kept] == [before]
    assert len(json.loads(satchel("bank", "list", "--json").out)["banks"]) == 3
    assert satchel("remember", "and goes on", "--bank", "ada").status == 0


def test_a_dry_run_of_migrate_writes_nothing(satchel: Run, migration_case: Migration) -> None:
    """Neither a store nor a configuration."""
    ran = satchel(*migration_case.words, "--dry-run", "--json")

    assert (ran.status, [one["relation"] for one in ran.json["banks"]]) == (0, ["new"] * 3)
    assert not migration_case.new_store.exists()
    assert migration_case.kept == []


def test_no_switch_keeps_the_configuration(satchel: Run, migration_case: Migration) -> None:
    """The banks are copied; commands still use the old store."""
    before = migration_case.active.read_bytes()
    assert satchel(*migration_case.words, "--no-switch").status == 0
    assert (migration_case.active.read_bytes(), migration_case.kept) == (before, [])
    assert heads(migration_case.new_store) == heads(migration_case.old_store)


def test_migrate_copies_only_the_named_banks(satchel: Run, migration_case: Migration) -> None:
    """By name or ID prefix, each once."""
    ada = next(
        bank for bank, records in listed(migration_case.old_store).items() if len(records) == 7
    )
    ran = satchel(*migration_case.words, "--banks", f"ada,{ada[7:15]}", "--no-switch", "--json")
    assert (ran.status, [one["name"] for one in ran.json["banks"]]) == (0, ["ada"])
    assert list(heads(migration_case.new_store)) == [ada]


def test_an_unknown_bank_is_an_error_before_migrate_writes(
    satchel: Run, migration_case: Migration
) -> None:
    """Even if other named banks exist."""
    ran = satchel(*migration_case.words, "--banks", "ada,zed", "--json")
    assert (ran.status, ran.error["code"]) == (2, "bank.unknown")
    assert not migration_case.new_store.exists()


def test_migrate_between_addresses_switches_no_configuration(
    satchel: Run, migration_case: Migration
) -> None:
    """Without configurations nothing is switched."""
    before = migration_case.active.read_bytes()
    ran = satchel("migrate", migration_case.old_store, f"sqlite:///{migration_case.new_store}")
    assert ran.status == 0
    assert heads(migration_case.new_store) == heads(migration_case.old_store)
    assert migration_case.active.read_bytes() == before


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
def test_migrate_requires_source_and_target_once(satchel: Run, words: list[str]) -> None:
    """Otherwise exit status 2."""
    assert satchel(*words, "--json").status == 2


@pytest.mark.usefixtures("migration_case")
def test_a_store_is_not_migrated_to_itself(satchel: Run, migration_case: Migration) -> None:
    """Not through a link either."""
    link = migration_case.old_store.with_name("link.db")
    link.symlink_to(migration_case.old_store)
    for other in (migration_case.old_store, link):
        ran = satchel("migrate", migration_case.old_store, other, "--json")
        assert (ran.status, ran.error["code"]) == (2, "usage")


def test_a_second_migration_copies_only_new_records(
    satchel: Run, migration_case: Migration
) -> None:
    """Records that were added in between."""
    assert satchel(*migration_case.words, "--no-switch").status == 0
    append(next(iter(heads(migration_case.old_store))), memories(2, 500))

    ran = satchel(*migration_case.words, "--no-switch", "--json")

    assert sorted(one.get("carried", 0) for one in ran.json["banks"]) == [0, 0, 2]
    assert listed(migration_case.new_store) == listed(migration_case.old_store)


def test_a_failing_bank_does_not_stop_the_others_but_prevents_the_switch(
    satchel: Run, migration_case: Migration
) -> None:
    """The copy of one bank diverged: status 1, a plain list, the old configuration."""
    assert satchel(*migration_case.words, "--banks", "ada", "--no-switch").status == 0
    before = migration_case.active.read_bytes()
    ada = next(iter(heads(migration_case.new_store)))
    with configured_store(load_settings(store=str(migration_case.new_store))) as there:
        open_ledger(load_settings(), there, ada, writes=True).append(memories(1, 700))
    witness = Path(os.environ["SATCHEL_WITNESS"])
    for path in witness.rglob("*"):  # another machine did it
        path.unlink() if path.is_file() and "key" not in path.name else None
    with configured_store(load_settings(store=str(migration_case.old_store))) as there:
        open_ledger(load_settings(), there, ada, writes=True).append(memories(1, 800))

    ran = satchel(*migration_case.words)

    assert ran.status == 1
    assert "ada: failed: " in ran.out
    assert "2 of 3 banks done" in ran.out
    assert "the configuration is unchanged" in ran.err
    assert (migration_case.active.read_bytes(), migration_case.kept) == (before, [])
    assert len(heads(migration_case.new_store)) == 3


def test_a_target_that_is_not_a_store_is_exit_status_5(
    satchel: Run, migration_case: Migration
) -> None:
    """Another file is at its path."""
    migration_case.new_store.write_text("no database, but long enough to be compared " * 100)
    ran = satchel(*migration_case.words, "--json")
    assert ran.status == 5
    assert {one["code"] for one in ran.json["banks"]} == {"store.version"} or ran.json["banks"]
    assert migration_case.kept == []


def test_a_changed_byte_in_the_copy_is_found_before_the_switch(
    migration_case: Migration, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Verification reads every record, not only the head."""
    source, target = migration_case.ends
    real = migration.push  # type: ignore[attr-defined]

    def pushed(*arguments: object, **more: object) -> object:
        done = real(*arguments, **more)  # type: ignore[arg-type]
        _damage_record(migration_case.new_store)
        return done

    monkeypatch.setattr(migration, "push", pushed)
    options = MigrateOptions(jobs=1, new=migration_case.new, active=migration_case.active)
    found = migrate(source, target, options)

    assert [one.verified for one in found.banks].count(False) >= 1
    assert (found.switched, found.exit_status) == (None, 1)


def _damage_record(store: Path) -> None:
    import sqlite3

    with sqlite3.connect(store) as connection:
        connection.execute(
            "UPDATE record SET body = CAST(replace(body, 'memory 3', 'memory 4') AS BLOB)"
        )
    connection.close()


@pytest.mark.parametrize("at", [0, 1, 2])
def test_an_interrupted_migration_is_resumed_without_duplicates(
    migration_case: Migration, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """Interrupted within a bank; the same command is run again."""
    source, target = migration_case.ends
    calls, real = iter(range(100)), copies.copy_blobs

    def killed(*arguments: object) -> None:
        if next(calls) == at:
            raise _KilledError
        real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(copies, "copy_blobs", killed)
    options = MigrateOptions(jobs=1, new=migration_case.new, active=migration_case.active)
    with pytest.raises(_KilledError):
        migrate(source, target, options)
    assert migration_case.kept == []

    found = migrate(source, target, options)

    assert all(one.verified for one in found.banks)
    assert listed(migration_case.new_store) == listed(migration_case.old_store)
    assert found.switched is not None


def test_migrate_includes_vectors_and_reports_an_incomplete_import(
    migration_case: Migration,
) -> None:
    """Vectors are stored beside the log; the import is copied as incomplete."""
    source, target = migration_case.ends
    settings = load_settings(store=str(migration_case.old_store))
    generation = Generation(model="m", dimensions=2, number=1)
    with configured_store(settings) as store:
        bank = min(heads(migration_case.old_store))
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
def test_the_switch_converts_between_toml_and_yaml(
    satchel: Run, migration_case: Migration, monkeypatch: pytest.MonkeyPatch, old: str, new: str
) -> None:
    """The active file keeps its name, and so its format."""
    folder = migration_case.active.parent
    active, other = folder / f"active.{old}", folder / f"other.{new}"
    yaml = {"toml": 'store.address = "{}"', "yaml": "store: {{address: '{}'}}"}
    active.write_text(yaml["toml" if old == "toml" else "yaml"].format(migration_case.old_store))
    other.write_text(yaml["toml" if new == "toml" else "yaml"].format(migration_case.new_store))
    monkeypatch.setenv("SATCHEL_CONFIG", str(active))

    assert satchel("migrate", "--from-config", active, "--to-config", other).status == 0

    assert load_settings().store == str(migration_case.new_store)


def test_the_switch_preserves_mode_and_link_of_the_configuration(
    satchel: Run, migration_case: Migration
) -> None:
    """Dotfiles are often kept elsewhere."""
    real = migration_case.active.with_name("real.toml")
    migration_case.active.rename(real)
    real.chmod(0o600)
    migration_case.active.symlink_to(real)

    assert satchel(*migration_case.words).status == 0

    assert migration_case.active.is_symlink()
    assert real.read_bytes() == migration_case.new.read_bytes()
    assert real.stat().st_mode & 0o777 == 0o600


def test_python_migrates_as_the_command_does(migration_case: Migration) -> None:
    """A failing bank is in the result."""
    seen = list[str | None]()
    found = migrate_banks(
        from_config=migration_case.old,
        to_config=migration_case.new,
        on_bank=lambda one: seen.append(one.name),
    )
    assert (found.exit_status, sorted(map(str, seen))) == (0, ["ada", "bob", "cy"])
    assert migration_case.active.read_bytes() == migration_case.new.read_bytes()
    with pytest.raises(UsageError):
        migrate_banks(from_config=migration_case.old)


@pytest.mark.prove
def test_a_migration_killed_at_any_moment_is_resumed(
    migration_case: Migration, process: Callable[..., subprocess.Popen[bytes]], satchel: Run
) -> None:
    """Twenty kills at random moments; then both stores are equal, and the switch is done."""
    for bank in list(heads(migration_case.old_store)):
        append(bank, memories(3000, 1000))
    chance = random.Random(7)  # noqa: S311 - the same moments in every run
    killed = 0
    for _ in range(20):
        running = process(*migration_case.words)
        try:
            running.communicate(timeout=chance.uniform(0.2, 2.0))
        except subprocess.TimeoutExpired:
            killed += 1
            running.send_signal(signal.SIGKILL)
            running.communicate()
        else:
            assert running.returncode == 0

    assert killed
    assert satchel(*migration_case.words).status == 0

    assert listed(migration_case.new_store) == listed(migration_case.old_store)
    assert load_settings().store == f"sqlite:///{migration_case.new_store}"


def test_migrate_does_not_switch_while_banks_are_missing(
    satchel: Run, migration_case: Migration
) -> None:
    """The error names the banks; ``--leave-others`` accepts it."""
    ran = satchel(*migration_case.words, "--banks", "ada,bob")
    assert ran.status == 1
    assert "not migrated" in ran.err
    assert "cy" in ran.err.partition("not migrated")[2]
    assert "--leave-others" in ran.err
    assert migration_case.active.read_bytes() == migration_case.old.read_bytes()
    again = satchel(*migration_case.words, "--banks", "ada,bob", "--json")
    assert (again.status, again.json["left"]) == (1, ["cy"])

    ran = satchel(*migration_case.words, "--banks", "ada,bob", "--leave-others")
    assert ran.status == 0
    assert "not migrated" in ran.err
    assert migration_case.active.read_bytes() != migration_case.old.read_bytes()


def test_banks_migrated_earlier_count_for_the_switch(
    satchel: Run, migration_case: Migration
) -> None:
    """Bank by bank, the last one switches."""
    assert satchel(*migration_case.words, "--banks", "ada,bob").status == 1
    ran = satchel(*migration_case.words, "--banks", "cy")
    assert (ran.status, "not migrated" in ran.err) == (0, False)
    assert migration_case.active.read_bytes() != migration_case.old.read_bytes()
