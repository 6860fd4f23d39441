"""Imports into a bank: new, known, conflicting and deleted memories, undo and mirror."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from import_kit import A, B, C, bring, opened, owner, rows, sealed_from, size, texts, write

from satchel.bank.connections import configured_store
from satchel.config.settings import load_settings
from satchel.crypto.keys import SigningKey
from satchel.crypto.sealed_records import seal
from satchel.errors import (
    ConflictError,
    EmptyInputError,
    LimitError,
    LockedError,
    MalformedError,
    SatchelError,
    UnknownImportError,
    UsageError,
    VerificationError,
)
from satchel.model.records import Semantic, Status
from satchel.model.values import Origin, Scope
from satchel.ports.rows import Filter
from satchel.transfer.import_results import ConflictPolicy
from satchel.transfer.imports import list_imports, undo_import


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """A file of three memories, imported into bank b."""
    path = write(tmp_path / "first.json", rows(A, B, C))
    done = bring(path).banks[0]
    assert (done.done.read, done.done.added, done.made) == (3, 3, True)
    return path


def test_imported_memories_have_the_order_of_the_file(first: Path) -> None:
    """With owner and original ID, and a source record that names the file."""
    assert texts() == ["tea", "coffee", "water"]
    (line,) = list_imports(load_settings(), "b")
    assert (line.format, line.records, line.state) == ("mem0", 3, "complete")
    with opened() as there, there.ledger.reading() as view:
        entry = next(one.model for one in view.scan(Filter(user="ada")))
        source = view.get([line.source])[line.source].record.value
    assert entry.scope == Scope(user="ada")
    assert entry.origin is not None
    assert (entry.origin.provider, entry.origin.id) == ("mem0", "1")
    assert source["trust"] == "imported"
    assert source["digest"] == bring(first, dry_run=True).input_digest


def test_importing_the_same_again_changes_nothing(first: Path) -> None:
    """Not even the log."""
    before = size()
    done = bring(first).banks[0]
    assert (done.done.known, done.done.added, done.source) == (3, 0, None)
    assert size() == before


def test_a_dry_run_reports_the_plan_and_changes_nothing(tmp_path: Path) -> None:
    """Not even a store is created."""
    path = write(tmp_path / "a.json", rows(A, B), rows(C, user="bob"))
    done = bring(path, None, dry_run=True)
    assert [(one.name, one.done.added, one.bank) for one in done.banks] == [
        ("ada", 2, None),
        ("bob", 1, None),
    ]
    assert not (load_settings().home / "satchel.db").exists()


@pytest.mark.usefixtures("first")
def test_a_dry_run_over_an_existing_bank_has_the_counts_of_the_import(tmp_path: Path) -> None:
    """The import follows and reports the same."""
    path = write(tmp_path / "next.json", rows(("1", "green tea"), C, ("4", "milk")))
    before = size()
    planned = bring(path, mirror=True, dry_run=True).banks[0]
    assert size() == before
    assert planned.done == bring(path, mirror=True).banks[0].done


def test_without_a_bank_each_owner_gets_a_bank(tmp_path: Path) -> None:
    """A user's, or an agent's if no user is named; the owner stays in the scope."""
    agents = rows(C, user=None, agent_id="ops-bot")
    path = write(tmp_path / "a.json", rows(A), agents, rows(B, user="bob", agent_id="ops-bot"))
    assert [one.name for one in bring(path, None).banks] == ["ada", "ops-bot", "bob"]
    assert texts("ada") == ["tea"]
    assert texts("ops-bot") == ["water"]
    assert texts("bob") == ["coffee"]


@pytest.mark.parametrize(
    ("more", "said"), [({"run_id": "r1"}, "only a run"), ({}, "no user or agent")]
)
def test_a_memory_without_an_owner_is_refused_without_a_bank(
    tmp_path: Path, more: dict[str, str], said: str
) -> None:
    """Nothing is changed; the error names the memory and the option."""
    path = write(tmp_path / "a.json", rows(A), rows(B, user=None, **more))
    with pytest.raises(MalformedError, match=said) as caught:
        bring(path, None)
    assert caught.value.field == "1"
    assert "--bank" in (caught.value.hint or "")
    with configured_store(load_settings()) as store, store.reading() as reader:
        assert reader.banks() == []


@pytest.mark.usefixtures("first")
def test_attack_a_user_named_like_a_bank_id_gets_its_own_bank(tmp_path: Path) -> None:
    """Attack: a user ID in a file equals the ID of a bank, or its prefix."""
    with opened() as there:
        victim = there.id
    before = size()
    path = write(tmp_path / "a.json", rows(A, user=victim), rows(A, user=victim[7:20]))
    assert [one.made for one in bring(path, None).banks] == [True, True]
    assert size() == before


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (ConflictPolicy.SKIP, ["tea", "coffee", "water", "milk"]),
        (ConflictPolicy.OVERWRITE, ["coffee", "water", "green tea", "milk"]),
        (ConflictPolicy.RENAME, ["tea", "coffee", "water", "green tea", "milk"]),
    ],
)
@pytest.mark.usefixtures("first")
def test_another_version_is_handled_by_the_conflict_policy(
    tmp_path: Path, mode: ConflictPolicy, expected: list[str]
) -> None:
    """Skipped, replacing the old one, or added under a new ID."""
    path = write(tmp_path / "next.json", rows(("1", "green tea"), B, ("4", "milk")))
    bring(path, on_conflict=mode)
    assert texts() == expected
    again = bring(path, on_conflict=mode).banks[0]
    assert again.done.added == 0
    assert texts() == expected


@pytest.mark.usefixtures("first")
def test_an_old_version_is_superseded_by_the_new_one(tmp_path: Path) -> None:
    """The status names the record that replaced it."""
    path = write(tmp_path / "next.json", rows(("1", "green tea")))
    bring(path, on_conflict=ConflictPolicy.OVERWRITE)
    with opened() as there, there.ledger.reading() as view:
        records = {one.model.text: one for one in view.scan() if isinstance(one.model, Semantic)}
        statuses = [one.model for one in view.scan() if isinstance(one.model, Status)]
    (status,) = statuses
    assert (status.target, status.by) == (records["tea"].record.id, records["green tea"].record.id)
    assert status.state == "superseded"


@pytest.mark.usefixtures("first")
def test_a_conflict_with_the_error_policy_changes_nothing(tmp_path: Path) -> None:
    """The error names the memory."""
    before = size()
    path = write(tmp_path / "next.json", rows(("4", "milk"), ("1", "green tea")))
    with pytest.raises(ConflictError, match="'1' of mem0"):
        bring(path, on_conflict=ConflictPolicy.ERROR)
    assert size() == before


@pytest.mark.usefixtures("first")
def test_a_mirror_import_deletes_memories_missing_from_the_source(tmp_path: Path) -> None:
    """Of the owners and the provider in the file, and of nobody else."""
    bring(write(tmp_path / "bob.json", rows(("9", "wine"), user="bob")))
    with opened() as there:
        there.ledger.append([seal(Semantic(text="by hand", scope=Scope(user="ada")))])
        other = Origin(provider="zep", id="1")
        there.ledger.append([seal(Semantic(text="zep", scope=Scope(user="ada"), origin=other))])
    path = write(tmp_path / "next.json", rows(("1", "green tea"), C))
    done = bring(path, mirror=True).banks[0].done
    assert (done.added, done.overwritten, done.vanished, done.known) == (1, 1, 1, 1)
    assert texts() == ["water", "wine", "by hand", "zep", "green tea"]


def test_a_mirror_import_restores_memories_that_reappear(first: Path, tmp_path: Path) -> None:
    """Also if the same version was imported before."""
    bring(write(tmp_path / "less.json", rows(A)), mirror=True)
    assert texts() == ["tea"]
    bring(first, mirror=True)
    assert texts() == ["tea", "coffee", "water"]


def test_importing_a_file_again_does_not_restore_forgotten_memories(first: Path) -> None:
    """An import does not undo a person's decision."""
    with opened() as there:
        with there.ledger.reading() as view:
            target = next(one.record.id for one in view.scan(Filter(user="ada")))
        there.ledger.append([seal(Status(target=target, state="deleted"))])
    done = bring(first).banks[0].done
    assert (done.read, done.known, done.forgotten, done.added) == (3, 2, 1, 0)
    assert texts() == ["coffee", "water"]


def test_a_duplicate_in_a_file_counts_once(tmp_path: Path) -> None:
    """Two versions of it are handled like one in the bank."""
    path = write(tmp_path / "a.json", rows(A, A, ("1", "green tea"), B))
    assert bring(path, "skips").banks[0].done.skipped == 1
    assert texts("skips") == ["tea", "coffee"]
    done = bring(path, "takes", on_conflict=ConflictPolicy.OVERWRITE).banks[0].done
    assert (done.read, done.twice, done.overwritten) == (4, 1, 1)
    assert texts("takes") == ["green tea", "coffee"]
    bring(path, "keeps", on_conflict=ConflictPolicy.RENAME)
    assert texts("keeps") == ["tea", "green tea", "coffee"]
    with pytest.raises(ConflictError):
        bring(path, "errs", on_conflict=ConflictPolicy.ERROR)


def test_memories_without_an_id_are_never_merged(tmp_path: Path) -> None:
    """Two equal texts are two memories, and both are known the second time."""
    path = tmp_path / "a.json"
    path.write_text(json.dumps([{"memory": "tea"}, {"memory": "tea"}, {"memory": "milk"}]))
    assert bring(path).banks[0].done.added == 3
    assert bring(path).banks[0].done.known == 3
    path.write_text(json.dumps([{"memory": "tea"}] * 3))
    assert bring(path).banks[0].done.added == 1
    assert texts() == ["tea", "tea", "milk", "tea"]


@pytest.mark.usefixtures("first")
def test_undo_removes_the_import_and_restores_what_it_replaced(tmp_path: Path) -> None:
    """At once; the log keeps all of it."""
    path = write(tmp_path / "next.json", rows(("1", "green tea"), C, ("4", "milk")))
    bring(path, mirror=True)
    assert texts() == ["water", "green tea", "milk"]
    before = size()
    done = undo_import(load_settings(), "b")
    assert (done.already, done.replaced) == (False, [])
    assert size() == before + 1
    assert texts() == ["tea", "coffee", "water"]
    assert [line.state for line in list_imports(load_settings(), "b")] == ["complete", "undone"]
    assert bring(path, mirror=True).banks[0].done.added == 2  # undone records are not known
    assert texts() == ["water", "green tea", "milk"]


@pytest.mark.usefixtures("first")
def test_undo_keeps_versions_that_replaced_the_import_since(tmp_path: Path) -> None:
    """The newest version stays, and the one before the import is not restored."""
    bring(
        write(tmp_path / "2.json", rows(("1", "green tea"))), on_conflict=ConflictPolicy.OVERWRITE
    )
    bring(
        write(tmp_path / "3.json", rows(("1", "black tea"))), on_conflict=ConflictPolicy.OVERWRITE
    )
    source = list_imports(load_settings(), "b")[1].source
    done = undo_import(load_settings(), "b", source[:20])
    assert len(done.replaced) == 1
    assert texts() == ["coffee", "water", "black tea"]


@pytest.mark.usefixtures("first")
def test_undo_of_an_unknown_import_is_an_error() -> None:
    """No other import is undone instead."""
    for wanted in ("0" * 12, "blake3:" + "0" * 64, "b"):
        with pytest.raises(UnknownImportError):
            undo_import(load_settings(), "b", wanted)
    undo_import(load_settings(), "b")
    with pytest.raises(UnknownImportError):
        undo_import(load_settings(), "b")


@pytest.mark.usefixtures("first")
def test_a_second_undo_changes_nothing() -> None:
    """It reports that the import was undone before."""
    source = list_imports(load_settings(), "b")[0].source
    assert not undo_import(load_settings(), "b", source).already
    before = size()
    assert undo_import(load_settings(), "b", source).already
    assert size() == before


@pytest.mark.parametrize(
    ("bad", "kind"),
    [
        ('[{"id": "1", "memory": "tea"}, {"id": "2"}]', MalformedError),
        ('[{"id": "1", "memory": "tea"}, {"id": "2", "memory": "x"', MalformedError),
        (json.dumps([{"memory": "tea"}, {"memory": "x" * 2**20}]), LimitError),
        ("[]", EmptyInputError),
        ("", EmptyInputError),
    ],
)
@pytest.mark.usefixtures("first")
def test_a_file_with_a_malformed_end_imports_nothing(
    tmp_path: Path, bad: str, kind: type[SatchelError]
) -> None:
    """All of it is read before anything is logged."""
    before = size()
    path = tmp_path / "bad.json"
    path.write_text(bad)
    with pytest.raises(kind) as caught:
        bring(path, source_format="mem0")
    assert caught.value.file == str(path)
    assert size() == before


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path) -> None:
    """The records read may be a mixture."""
    path = write(tmp_path / "a.json", rows(A, B))

    def change(_done: int, _total: int) -> None:
        write(path, rows(A, C))

    with pytest.raises(SatchelError, match=r"changed|JSON"):
        bring(path, on_reading=change)
    with configured_store(load_settings()) as store, store.reading() as reader:
        assert reader.banks() == []


def test_a_sealed_file_keeps_its_ids_and_names_its_signer(own: Path) -> None:
    """Its records get new log positions; imported again, they are known."""
    done = bring(own)
    assert done.source_outcome == "good"
    with opened() as there, there.ledger.reading() as view:
        source = view.get([done.banks[0].source or ""])[done.banks[0].source or ""].record.value
    assert (source["signer"], source["trust"]) == (owner().did, "user")
    assert texts() == ["tea", "coffee"]
    again = bring(own).banks[0].done
    assert (again.known, again.added, again.others) == (3, 0, 0)


def test_an_undone_sealed_import_can_be_repeated(own: Path) -> None:
    """Its records are in the log with their IDs: they become current again."""
    bring(own)
    undo_import(load_settings(), "b")
    assert texts() == []
    done = bring(own).banks[0].done
    assert (done.restored, done.added) == (3, 0)
    assert texts() == ["tea", "coffee"]
    undo_import(load_settings(), "b")
    assert texts() == []


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A file sealed with this machine's key."""
    return sealed_from(write(tmp_path / "a.json", rows(A, B)), tmp_path / "a.pam.jsonl")


@pytest.mark.parametrize("outcome", ["unsigned", "untrusted"])
def test_a_sealed_file_of_an_untrusted_signer_needs_a_flag(tmp_path: Path, outcome: str) -> None:
    """Whose name says that it is unsafe; its records get the lowest trust."""
    source = write(tmp_path / "a.json", rows(A, B))
    key = SigningKey.generate()
    path = sealed_from(source, tmp_path / "x.pam", key=key, sign=outcome == "untrusted")
    with pytest.raises(VerificationError, match=outcome):
        bring(path)
    done = bring(path, unsafe_accept=frozenset({outcome})).banks[0]
    with opened() as there, there.ledger.reading() as view:
        record = view.get([done.source or ""])[done.source or ""].record.value
    assert record["trust"] == "imported"
    assert "signer" not in record


def test_attack_a_tampered_file_is_refused_with_any_flag(own: Path, tmp_path: Path) -> None:
    """Attack: one word changed in a signed file."""
    path = tmp_path / "t.pam.jsonl"
    path.write_bytes(own.read_bytes().replace(b"coffee", b"poison"))
    with pytest.raises(VerificationError, match="tampered"):
        bring(path, unsafe_accept=frozenset({"unsigned", "untrusted", "incomplete"}))


def test_an_ambiguous_bank_name_is_refused(tmp_path: Path) -> None:
    """The error says how to choose."""
    from satchel.bank.banks import create_bank_in

    settings = load_settings()
    with configured_store(settings) as store:
        create_bank_in(settings, store, "ada", owner())
        create_bank_in(settings, store, "ada", owner())
    with pytest.raises(UsageError, match="2 banks are named 'ada'"):
        bring(write(tmp_path / "a.json", rows(A)), None)


@pytest.mark.usefixtures("first")
def test_a_concurrent_import_into_the_store_is_refused(tmp_path: Path) -> None:
    """Otherwise both could resume the same batch."""
    path = write(tmp_path / "next.json", rows(("4", "milk")))

    def also(_done: int, _total: int) -> None:
        with pytest.raises(LockedError):
            bring(path)

    bring(path, on_logging=also)
    assert texts() == ["tea", "coffee", "water", "milk"]


def test_known_memories_are_recognized_without_the_fingerprint_index(first: Path) -> None:
    """A bank that was copied by its log alone has no side values: they are made again."""
    with opened() as there, there.store.writing() as writing:
        names = dict.fromkeys(writing.side(there.id, "known/"))
        assert names
        writing.put_side(there.id, names)
    assert bring(first).banks[0].done.known == 3


@pytest.mark.usefixtures("first")
def test_the_fingerprint_index_does_not_leave_the_store() -> None:
    """No record of the log has a fingerprint or the seed of the nonces."""
    with opened() as there:
        with there.store.reading() as reader:
            side = reader.side(there.id)
        with there.ledger.reading() as view:
            bodies = b"".join(one.record.body for one in view.scan())
    side = {name: value for name, value in side.items() if not name.startswith("vectors/")}
    assert [name.split("/")[0] for name in side] == ["known"]  # the seed went with the journal
    for value in side.values():
        for start in range(0, len(value), 16):
            assert value[start : start + 16].hex().encode() not in bodies


def test_many_owners_do_not_take_a_file_descriptor_each(tmp_path: Path) -> None:
    """The records of all banks wait in one temporary file."""
    parts = [rows((str(user), "x" * 40_000), user=f"u{user}") for user in range(100)]
    path = write(tmp_path / "a.json", *parts)
    before = len(list(Path("/proc/self/fd").iterdir()))
    most = [0]

    def told(_done: int, _total: int) -> None:
        most[0] = max(most[0], len(list(Path("/proc/self/fd").iterdir())))

    assert len(bring(path, None, on_logging=told, dry_run=True).banks) == 100
    bring(path, "all", on_logging=told)
    assert most[0] < before + 20


_WORDS = st.sampled_from(["tea", "coffee", "water", "milk"])
_FILE = st.lists(
    st.tuples(st.sampled_from("12345"), _WORDS),
    min_size=1,
    max_size=5,
    unique_by=lambda one: one[0],
)


def _import(path: Path, memories: list[tuple[str, str]], mode: ConflictPolicy) -> Any:
    return bring(write(path, rows(*memories)), on_conflict=mode)


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_FILE, _FILE, st.sampled_from(ConflictPolicy))
def test_each_conflict_policy_is_applied_and_a_second_import_changes_nothing(
    first: list[tuple[str, str]], second: list[tuple[str, str]], mode: ConflictPolicy
) -> None:
    """``skip`` keeps the bank's, ``overwrite`` the file's, ``rename`` both, ``error`` nothing."""
    old, new = dict(first), dict(second)
    changed = {name for name in old.keys() & new.keys() if old[name] != new[name]}
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setenv("SATCHEL_HOME", f"{folder}/home")
        patched.setenv("SATCHEL_WITNESS", f"{folder}/witness")
        path = Path(folder) / "a.json"
        _import(path, first, ConflictPolicy.SKIP)
        if mode is ConflictPolicy.ERROR and changed:
            with pytest.raises(ConflictError):
                _import(path, second, mode)
            expected = list(old.values())
        else:
            done = _import(path, second, mode)
            assert done.accounts[0].unchanged is (done.banks[0].source is None)
            expected = {
                ConflictPolicy.SKIP: list({**new, **old}.values()),
                ConflictPolicy.ERROR: list({**new, **old}.values()),
                ConflictPolicy.OVERWRITE: list({**old, **new}.values()),
                ConflictPolicy.RENAME: [*{**new, **old}.values(), *(new[name] for name in changed)],
            }[mode]
            again = _import(path, second, mode)
            assert not again.changed
            assert again.accounts[0].unchanged
        assert sorted(map(str, texts())) == sorted(expected)
