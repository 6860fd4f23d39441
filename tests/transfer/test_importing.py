"""What an import does to a bank: what is new, known, in conflict, gone; and back again."""

import json
from pathlib import Path

import pytest
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
    """A file of three memories, imported into the bank b."""
    path = write(tmp_path / "first.json", rows(A, B, C))
    done = bring(path).banks[0]
    assert (done.done.read, done.done.added, done.made) == (3, 3, True)
    return path


def test_imported_memories_have_the_order_of_the_file(first: Path) -> None:
    """Under its own owner and original id, with a source record that says where it is from."""
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
    """Not even a store is made."""
    path = write(tmp_path / "a.json", rows(A, B), rows(C, user="bob"))
    done = bring(path, None, dry_run=True)
    assert [(one.name, one.done.added, one.bank) for one in done.banks] == [
        ("ada", 2, None),
        ("bob", 1, None),
    ]
    assert not (load_settings().home / "satchel.db").exists()


@pytest.mark.usefixtures("first")
def test_a_dry_run_over_a_bank_plans_as_the_import_does(tmp_path: Path) -> None:
    """The counts are those of the import that follows."""
    path = write(tmp_path / "next.json", rows(("1", "green tea"), C, ("4", "milk")))
    before = size()
    planned = bring(path, mirror=True, dry_run=True).banks[0]
    assert size() == before
    assert planned.done == bring(path, mirror=True).banks[0].done


def test_without_a_bank_each_owner_has_one(tmp_path: Path) -> None:
    """A user's, or where no user is named an agent's; the owner stays in the scope."""
    agents = rows(C, user=None, agent_id="ops-bot")
    path = write(tmp_path / "a.json", rows(A), agents, rows(B, user="bob", agent_id="ops-bot"))
    assert [one.name for one in bring(path, None).banks] == ["ada", "ops-bot", "bob"]
    assert texts("ada") == ["tea"]
    assert texts("ops-bot") == ["water"]
    assert texts("bob") == ["coffee"]


@pytest.mark.parametrize(
    ("more", "said"), [({"run_id": "r1"}, "only a run"), ({}, "no user or agent")]
)
def test_a_memory_of_nobody_is_refused_without_a_bank(
    tmp_path: Path, more: dict[str, str], said: str
) -> None:
    """Nothing is changed; the error names the memory and what to say."""
    path = write(tmp_path / "a.json", rows(A), rows(B, user=None, **more))
    with pytest.raises(MalformedError, match=said) as caught:
        bring(path, None)
    assert caught.value.field == "1"
    assert "--bank" in (caught.value.hint or "")
    with configured_store(load_settings()) as store, store.reading() as reader:
        assert reader.banks() == []


@pytest.mark.usefixtures("first")
def test_a_user_named_like_another_banks_id_gets_an_own_bank(tmp_path: Path) -> None:
    """Attack: a user id in a file that is the id, or the start of the id, of a bank."""
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
def test_another_version_is_settled_as_asked(
    tmp_path: Path, mode: ConflictPolicy, expected: list[str]
) -> None:
    """Left out, in the place of the old one, or beside it under an id of its own."""
    path = write(tmp_path / "next.json", rows(("1", "green tea"), B, ("4", "milk")))
    bring(path, on_conflict=mode)
    assert texts() == expected
    again = bring(path, on_conflict=mode).banks[0]
    assert again.done.added == 0
    assert texts() == expected


@pytest.mark.usefixtures("first")
def test_an_old_version_is_superseded_by_the_new_one(tmp_path: Path) -> None:
    """The status names the record that took its place."""
    path = write(tmp_path / "next.json", rows(("1", "green tea")))
    bring(path, on_conflict=ConflictPolicy.OVERWRITE)
    with opened() as there, there.ledger.reading() as view:
        records = {one.model.text: one for one in view.scan() if isinstance(one.model, Semantic)}
        statuses = [one.model for one in view.scan() if isinstance(one.model, Status)]
    (status,) = statuses
    assert (status.target, status.by) == (records["tea"].record.id, records["green tea"].record.id)
    assert status.state == "superseded"


@pytest.mark.usefixtures("first")
def test_a_conflict_that_was_not_to_be_changes_nothing(tmp_path: Path) -> None:
    """The error names the memory."""
    before = size()
    path = write(tmp_path / "next.json", rows(("4", "milk"), ("1", "green tea")))
    with pytest.raises(ConflictError, match="'1' of mem0"):
        bring(path, on_conflict=ConflictPolicy.ERROR)
    assert size() == before


@pytest.mark.usefixtures("first")
def test_a_mirror_deletes_what_the_source_has_lost(tmp_path: Path) -> None:
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


def test_a_mirror_brings_back_what_came_back(first: Path, tmp_path: Path) -> None:
    """Also where it is what was imported before."""
    bring(write(tmp_path / "less.json", rows(A)), mirror=True)
    assert texts() == ["tea"]
    bring(first, mirror=True)
    assert texts() == ["tea", "coffee", "water"]


def test_what_was_forgotten_here_is_not_brought_back_by_the_same_file(first: Path) -> None:
    """An import does not undo what somebody decided."""
    with opened() as there:
        with there.ledger.reading() as view:
            target = next(one.record.id for one in view.scan(Filter(user="ada")))
        there.ledger.append([seal(Status(target=target, state="deleted"))])
    done = bring(first).banks[0].done
    assert (done.read, done.known, done.forgotten, done.added) == (3, 2, 1, 0)
    assert texts() == ["coffee", "water"]


def test_the_same_thing_twice_in_a_file_counts_once(tmp_path: Path) -> None:
    """Two versions of it are settled like one of the bank's."""
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


def test_memories_without_an_id_are_as_many_as_in_the_file(tmp_path: Path) -> None:
    """The same words twice are two memories; and known, both, the second time."""
    path = tmp_path / "a.json"
    path.write_text(json.dumps([{"memory": "tea"}, {"memory": "tea"}, {"memory": "milk"}]))
    assert bring(path).banks[0].done.added == 3
    assert bring(path).banks[0].done.known == 3
    path.write_text(json.dumps([{"memory": "tea"}] * 3))
    assert bring(path).banks[0].done.added == 1
    assert texts() == ["tea", "tea", "milk", "tea"]


@pytest.mark.usefixtures("first")
def test_undo_removes_the_import_and_restores_what_it_replaced(tmp_path: Path) -> None:
    """In one moment; the log keeps all of it."""
    path = write(tmp_path / "next.json", rows(("1", "green tea"), C, ("4", "milk")))
    bring(path, mirror=True)
    assert texts() == ["water", "green tea", "milk"]
    before = size()
    done = undo_import(load_settings(), "b")
    assert (done.already, done.replaced) == (False, [])
    assert size() == before + 1
    assert texts() == ["tea", "coffee", "water"]
    assert [line.state for line in list_imports(load_settings(), "b")] == ["complete", "undone"]
    assert bring(path, mirror=True).banks[0].done.added == 2  # what was undone is not known
    assert texts() == ["water", "green tea", "milk"]


@pytest.mark.usefixtures("first")
def test_undo_leaves_what_was_replaced_since(tmp_path: Path) -> None:
    """The newest version stays, and the one before the import does not come back beside it."""
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
    """Nor does it take the next best."""
    for wanted in ("0" * 12, "blake3:" + "0" * 64, "b"):
        with pytest.raises(UnknownImportError):
            undo_import(load_settings(), "b", wanted)
    undo_import(load_settings(), "b")
    with pytest.raises(UnknownImportError):
        undo_import(load_settings(), "b")


@pytest.mark.usefixtures("first")
def test_what_is_undone_twice_is_undone_once() -> None:
    """The second time says that it was."""
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
def test_a_file_that_is_bad_at_its_end_leaves_nothing(
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
    """What was read may be a mixture."""
    path = write(tmp_path / "a.json", rows(A, B))

    def change(_done: int, _total: int) -> None:
        write(path, rows(A, C))

    with pytest.raises(SatchelError, match=r"changed|JSON"):
        bring(path, on_reading=change)
    with configured_store(load_settings()) as store, store.reading() as reader:
        assert reader.banks() == []


def test_a_sealed_file_keeps_its_ids_and_names_its_signer(own: Path) -> None:
    """Its records get new leaves, never its log; imported again, they are known."""
    done = bring(own)
    assert done.source_outcome == "good"
    with opened() as there, there.ledger.reading() as view:
        source = view.get([done.banks[0].source or ""])[done.banks[0].source or ""].record.value
    assert (source["signer"], source["trust"]) == (owner().did, "user")
    assert texts() == ["tea", "coffee"]
    again = bring(own).banks[0].done
    assert (again.known, again.added, again.others) == (3, 0, 0)


def test_a_sealed_import_that_was_undone_can_be_made_again(own: Path) -> None:
    """Its records are in the log with their ids: they become current again."""
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
def test_a_sealed_file_that_nobody_trusted_vouches_for_needs_a_flag(
    tmp_path: Path, outcome: str
) -> None:
    """Whose name says that it is unsafe; what it brings is trusted least."""
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


def test_a_tampered_file_is_not_imported_with_any_flag(own: Path, tmp_path: Path) -> None:
    """Attack: one word changed in a signed file."""
    path = tmp_path / "t.pam.jsonl"
    path.write_bytes(own.read_bytes().replace(b"coffee", b"poison"))
    with pytest.raises(VerificationError, match="tampered"):
        bring(path, unsafe_accept=frozenset({"unsigned", "untrusted", "incomplete"}))


def test_two_banks_of_one_name_are_not_guessed_between(tmp_path: Path) -> None:
    """The error says how to choose."""
    from satchel.bank.banks import create_bank_in

    settings = load_settings()
    with configured_store(settings) as store:
        create_bank_in(settings, store, "ada", owner())
        create_bank_in(settings, store, "ada", owner())
    with pytest.raises(UsageError, match="2 banks are named 'ada'"):
        bring(write(tmp_path / "a.json", rows(A)), None)


@pytest.mark.usefixtures("first")
def test_another_import_into_the_store_is_kept_out(tmp_path: Path) -> None:
    """Two that ran at once could go on with the same batch."""
    path = write(tmp_path / "next.json", rows(("4", "milk")))

    def also(_done: int, _total: int) -> None:
        with pytest.raises(LockedError):
            bring(path)

    bring(path, on_logging=also)
    assert texts() == ["tea", "coffee", "water", "milk"]


def test_what_is_known_is_found_again_without_the_index(first: Path) -> None:
    """A bank that came by its log alone has no values beside it: they are made again."""
    with opened() as there, there.store.writing() as writing:
        names = dict.fromkeys(writing.side(there.id, "known/"))
        assert names
        writing.put_side(there.id, names)
    assert bring(first).banks[0].done.known == 3


@pytest.mark.usefixtures("first")
def test_the_index_of_what_is_known_does_not_leave_the_store() -> None:
    """No record of the log says a fingerprint, nor the seed of the nonces."""
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
    """What waits for each bank is held in one temporary file."""
    parts = [rows((str(user), "x" * 40_000), user=f"u{user}") for user in range(300)]
    path = write(tmp_path / "a.json", *parts)
    before = len(list(Path("/proc/self/fd").iterdir()))
    most = [0]

    def told(_done: int, _total: int) -> None:
        most[0] = max(most[0], len(list(Path("/proc/self/fd").iterdir())))

    assert len(bring(path, None, on_logging=told, dry_run=True).banks) == 300
    bring(path, "all", on_logging=told)
    assert most[0] < before + 20
