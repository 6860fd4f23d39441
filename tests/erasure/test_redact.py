"""Redaction: tokens replace personal data; id, lineage, proofs and state are unchanged."""

import asyncio
import json
import re
import uuid
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from bank_kit import filled, keep, owner, texts
from import_kit import bring
from ledger_kit import created, memories
from token_kit import HOLDER, SEMANTIC, may

from satchel import Satchel, aio
from satchel.admin.bank_copy import copy_bank
from satchel.bank.changes import MemoryEdit, update
from satchel.bank.details import show
from satchel.bank.machine_keys import create_key
from satchel.bank.memory import Memory
from satchel.bank.open_bank import OpenBank
from satchel.config.settings import load_settings
from satchel.crypto.canonical import canonical_checked
from satchel.crypto.encryption import Unlocker, decrypt_bytes, new_identity
from satchel.crypto.sealed_records import Sealed, decode_record, digest, open_record, seal
from satchel.erasure.erase import erase
from satchel.erasure.redaction import (
    RedactionResult,
    recover_by_identity,
    recover_by_key,
    redact,
    sealed_age_file,
)
from satchel.erasure.selection import EraseOptions, RedactOptions, conditions_of
from satchel.errors import (
    MalformedError,
    PermissionRefusedError,
    RedactionRefusedError,
    SatchelError,
    SigningKeyError,
    UsageError,
    VerificationError,
)
from satchel.ledger.examination import Flaw, examine
from satchel.ledger.repair import repair
from satchel.model.records import Entry, Redaction, Semantic, Source, Status
from satchel.model.values import now
from satchel.ports.rows import Filter, derive_row
from satchel.ports.store import InspectableStore, Store
from satchel.recall.query import Query
from satchel.recall.search import recall_memories
from satchel.stores.memory import InMemoryStore
from satchel.transfer.disclosure import disclose_to
from satchel.transfer.export_records import ExportOptions
from satchel.transfer.exports import export
from satchel.transfer.imports import undo_import
from satchel.transfer.verification import VerifyOptions, verify

pytestmark = pytest.mark.usefixtures("private_umask")

# A PostgreSQL server has one log, in which other test processes write their texts.
_EMAIL = f"ada@{uuid.uuid4().hex}.example"
_PHONE = f"7946 0{uuid.uuid4().int % 1000:03}"
ADA = f"Dr. Ada Lovelace, {_EMAIL}, reads at +44 20 {_PHONE}"
TOKENS = "Dr. [REDACTED:name:1], [REDACTED:email:1], reads at [REDACTED:phone:1]"
_REDACTIONS = Filter(types=frozenset({"redaction"}))


def redact_ids(bank: OpenBank, *ids: str, **options: object) -> RedactionResult:
    """Redact memories by their ids."""
    return redact.run(bank, RedactOptions(ids=ids, **options))  # type: ignore[arg-type]


def store_contains(store: Store, text: str) -> bool:
    """Return whether the raw bytes of a store contain a text."""
    assert isinstance(store, InspectableStore)
    return any(text.encode() in b"".join(extent.pieces()) for extent in store.laid_open())


def shown(bank: OpenBank, identity: str) -> Memory:
    """Return a memory as it is shown."""
    return show(bank, identity)


def log_size(bank: OpenBank) -> int:
    """Return the number of records in the log."""
    with bank.ledger.reading() as view:
        return view.head.size


@pytest.mark.usefixtures("any_store")
def test_redact_replaces_personal_data_and_nothing_else_in_any_store(tmp_path: Path) -> None:
    """The bytes are removed; id, type, parents, times, state and owner stay."""
    with filled() as bank:
        root = keep(bank, "the root of it")
        mine = keep(bank, ADA, parents=[root], scope={"user": "ada"}, metadata={"tel": ADA})
        child = keep(bank, "drawn from her words", parents=[mine])
        before = shown(bank, mine)
        size = log_size(bank)

        plan = redact_ids(bank, mine, dry_run=True)
        assert (plan.redacted, plan.kinds) == (1, {"email": 2, "name": 2, "phone": 2})
        assert log_size(bank) == size
        done = redact_ids(bank, mine)
        assert done.entries[0].fields == ["/metadata/tel", "/text"]
        assert done.finished
        after = shown(bank, mine)
        assert after.text == TOKENS
        assert after.metadata == {"tel": TOKENS}
        for name in ("id", "type", "created_at", "scope", "state", "position"):
            assert getattr(after, name) == getattr(before, name), name
        assert not store_contains(bank.store, _EMAIL)
        assert not store_contains(bank.store, _PHONE)
        found = recall_memories(bank, Query(text="ada lovelace"))
        assert mine not in [memory.id for memory in found.memories]
        with bank.ledger.reading() as view:
            assert view.get([mine])[mine].model.nonce is None
            assert view.head.size == size + 1
            assert [each.record.id for each in view.neighbors(root, incoming=True)] == [mine]
            assert [each.record.id for each in view.neighbors(mine, incoming=True)] == [child]
        assert examine(bank.store, bank.id).is_sound
        file = tmp_path / "all.pam.jsonl"
        export(bank, file, ExportOptions(key=owner()))
        assert verify(file, load_settings(), VerifyOptions(deep=True)).outcome == "good"
        assert redact_ids(bank, mine).redacted == 0


def test_old_versions_are_redacted_with_the_current_one(bank: OpenBank) -> None:
    """Otherwise the history would still show the text."""
    first = keep(bank, ADA, key="ada")
    newer = update(bank, first, MemoryEdit(add_tags=["x"])).id
    other = update(bank, newer, MemoryEdit(members={"text": "nothing personal"})).id
    assert redact_ids(bank, other).redacted == 2
    assert texts(bank, everything=True) == ["nothing personal", TOKENS, TOKENS]
    assert texts(bank) == ["nothing personal"]


def test_redact_accepts_texts_fields_and_kinds(bank: OpenBank) -> None:
    """Only these are replaced; a field is replaced as a whole, also one that names the owner."""
    mine = keep(
        bank,
        "ada told ADA that Adam knows ada@x.example",
        metadata={"a/b": "secret plan", "n": 12345678},
        scope={"user": "ada"},
    )
    assert redact_ids(bank, mine, kinds=["phone"]).redacted == 0
    assert redact_ids(bank, mine, texts=["Ada"], dry_run=True).kept == 1
    done = redact_ids(bank, mine, texts=["Ada"], fields=["/metadata/a~1b", "/scope/user"])
    assert done.kinds == {"text": 5}
    memory = shown(bank, mine)
    said = re.fullmatch(
        r"\[REDACTED:text:(\d)\] told \[REDACTED:text:\d\] that Adam knows"
        r" \[REDACTED:text:(\d)\]@x.example",
        str(memory.text),
    )
    assert said is not None
    assert said[1] == said[2]
    assert memory.metadata is not None
    assert memory.metadata["a/b"].startswith("[REDACTED:text:")
    assert memory.metadata["n"] == 12345678
    assert str(memory.scope).count("[REDACTED:text:") == 1
    for bad in ({"kinds": ["nose"]}, {"fields": ["text"]}, {"fields": ["/id"]}, {"texts": [" "]}):
        with pytest.raises(UsageError):
            redact_ids(bank, mine, **bad)
    with pytest.raises(UsageError):
        redact_ids(bank)


def test_redact_where_selects_from_the_whole_bank(
    bank: OpenBank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In groups; only memories with matches are redacted."""
    monkeypatch.setattr("satchel.erasure.redaction._TOGETHER", 3)
    for number in range(7):
        keep(bank, f"mail{number}@x.example", scope={"user": "ada"})
        keep(bank, f"mail{number}@y.example", scope={"user": "bob"})
        keep(bank, f"nothing {number}", scope={"user": "ada"})
    done = redact.run(bank, RedactOptions(where=conditions_of(["user=ada"])))
    assert (done.looked_at, done.redacted) == (14, 7)
    assert sum("[REDACTED" in str(text) for text in texts(bank)) == 7
    assert sum("@y.example" in str(text) for text in texts(bank)) == 7


def test_only_the_named_keys_recover_the_original(bank: OpenBank) -> None:
    """With its original id; erasing the memory removes the sealed original."""
    settings = load_settings()
    mine, plain = keep(bank, ADA), keep(bank, f"{ADA}, too")
    with bank.ledger.reading() as view:
        was = view.get([mine])[mine].record.value
    friend = create_key(settings, "friend")
    done = redact_ids(bank, mine, recover_for=["friend", owner().did])
    assert done.recoverable_by == [friend.did, owner().did]
    redact_ids(bank, plain)
    for key in (friend, owner()):
        assert recover_by_key(bank, mine, key).record == was
    with pytest.raises(SigningKeyError, match="not sealed for"):
        recover_by_key(bank, mine, HOLDER)
    with pytest.raises(SigningKeyError, match="the original of this memory was not stored"):
        recover_by_key(bank, plain, friend)
    redact_ids(bank, mine, texts=["reads"])
    assert recover_by_key(bank, mine, friend).record == was
    erase.run(bank, EraseOptions(ids=[mine]))
    with bank.store.reading() as reader:
        assert reader.side(bank.id, "redacted/") == {}


def test_attack_a_changed_or_exchanged_original_is_refused(bank: OpenBank) -> None:
    """Somebody with write access to the store exchanges two sealed originals."""
    friend = create_key(load_settings(), "friend")
    one, other = keep(bank, ADA), keep(bank, f"{ADA}, too")
    redact_ids(bank, one, other, recover_for=["friend"])
    with bank.store.reading() as reader:
        kept = reader.side(bank.id, "redacted/")
    names = sorted(kept, key=lambda name: int(name.rpartition("/")[2]))
    with bank.store.writing() as writing:
        writing.put_side(bank.id, {names[0]: kept[names[1]], names[1]: kept[names[0]][:-9] + b'"}'})
    with pytest.raises(VerificationError):
        recover_by_key(bank, one, friend)
    with pytest.raises(SatchelError):
        recover_by_key(bank, other, friend)


# -- attacks --------------------------------------------------------------------------------------


def replace_row(bank: OpenBank, identity: str, body: bytes) -> None:
    """Replace the bytes of a record, with write access to the store."""
    with bank.store.writing() as writing:
        (row,) = writing.get(bank.id, [identity])
        own = derive_row(decode_record(body), seq=row.seq, at=row.at, body=body, batch=row.batch)
        writing.rewrite(bank.id, [own])


def test_attack_an_unredacted_row_in_place_of_its_redacted_form_is_refused(bank: OpenBank) -> None:
    """An old copy of the row verifies by its id, and is refused."""
    mine = keep(bank, ADA)
    with bank.ledger.reading() as view:
        whole = view.get([mine])[mine].record.body
    redact_ids(bank, mine)
    replace_row(bank, mine, whole)
    with pytest.raises(VerificationError, match="redacted"):
        show(bank, mine)
    found = examine(bank.store, bank.id)
    assert found.counts[Flaw.RETURNED] == 1
    done = repair(bank.store, bank.ledger, at=now())
    assert done.after.is_sound
    assert not store_contains(bank.store, _EMAIL)


def test_attack_another_redacted_form_than_the_logged_one_is_refused(bank: OpenBank) -> None:
    """A form with other tokens or other content."""
    mine = keep(bank, ADA)
    redact_ids(bank, mine)
    with bank.ledger.reading() as view:
        form = view.get([mine])[mine].record.value
    forged = canonical_checked({**form, "text": "Dr. [REDACTED:name:1] owes me a million"})
    replace_row(bank, mine, forged)
    with pytest.raises(VerificationError):
        show(bank, mine)
    assert not examine(bank.store, bank.id).is_sound


def test_attack_a_redacted_form_without_its_redaction_is_refused(bank: OpenBank) -> None:
    """Any bytes could claim to be a redacted form."""
    mine = keep(bank, ADA)
    with bank.ledger.reading() as view:
        value = dict(view.get([mine])[mine].record.value)
    del value["nonce"]
    replace_row(bank, mine, canonical_checked({**value, "text": "[REDACTED:text:1]"}))
    with pytest.raises(VerificationError):
        show(bank, mine)


def test_attack_a_redaction_cannot_change_lineage_times_or_type(bank: OpenBank) -> None:
    """Rewriting history as a redaction is refused, and nothing is logged."""
    root = keep(bank, "root")
    mine = keep(bank, ADA, parents=[root])
    with bank.ledger.reading() as view:
        value = dict(view.get([mine])[mine].record.value)
    nonce = value.pop("nonce")
    size = log_size(bank)
    bad = [
        {**value, "parent_ids": [mine]},
        {name: part for name, part in value.items() if name != "parent_ids"},
        {**value, "created_at": "2020-01-01T00:00:00.000000Z"},
        {**value, "type": "episodic"},
        {**value, "nonce": nonce},
        {**value, "id": root},
    ]
    for form in bad:
        body = canonical_checked(form)
        said = seal(Redaction(entry=mine, result=digest(body), fields=("/text",), at=now()))
        with pytest.raises(RedactionRefusedError):
            bank.ledger.append([said], forms={mine: body})
    good = canonical_checked(value)
    said = seal(Redaction(entry=mine, result=digest(good), fields=("/text",), at=now()))
    with pytest.raises(RedactionRefusedError):  # without the form nobody could read it any more
        bank.ledger.append([said])
    with pytest.raises(RedactionRefusedError):
        bank.ledger.append([said], forms={root: good})
    with pytest.raises(RedactionRefusedError):
        bank.ledger.append([said], forms={mine: canonical_checked({**value, "text": "other"})})
    nowhere = "blake3:" + "0" * 64
    lost = seal(Redaction(entry=nowhere, result=digest(good), fields=("/text",), at=now()))
    with pytest.raises(RedactionRefusedError):
        bank.ledger.append([lost], forms={nowhere: good})
    assert log_size(bank) == size
    assert shown(bank, mine).text == ADA


def test_attack_a_redacted_value_cannot_be_guessed_from_the_id(bank: OpenBank) -> None:
    """Every birth date is tried against the id; the nonce is removed from form and store."""
    mine = keep(bank, "born on 1815-12-10")
    with bank.ledger.reading() as view:
        nonce = view.get([mine])[mine].record.value["nonce"]
    redact_ids(bank, mine)
    assert shown(bank, mine).text == "born on [REDACTED:birth-date:1]"
    assert not store_contains(bank.store, nonce)


def test_an_erased_memory_is_not_redacted_and_a_redacted_one_can_be_erased(bank: OpenBank) -> None:
    """The log stays valid; a current form is erased like any current memory."""
    one, other = keep(bank, ADA), keep(bank, f"{ADA}!")
    redact_ids(bank, one)
    with bank.ledger.reading() as view:
        form = view.get([one])[one]
    assert erase.run(bank, EraseOptions(ids=[one, other])).erased == 2
    body = form.record.body
    said = seal(Redaction(entry=one, result=digest(body), fields=("/text",), at=now()))
    with pytest.raises(RedactionRefusedError):
        bank.ledger.append([said], forms={one: body})
    assert examine(bank.store, bank.id).is_sound


def test_a_redacted_memory_is_forgotten_restored_and_updated_like_any_other(bank: OpenBank) -> None:
    """Its state is in the log; a new version contains the tokens."""
    mine = keep(bank, ADA)
    redact_ids(bank, mine)
    bank.ledger.append([seal(Status(target=mine, state="deleted"))])
    assert texts(bank) == []
    bank.ledger.append([seal(Status(target=mine, state="restored"))])
    assert texts(bank) == [TOKENS]
    newer = update(bank, mine, MemoryEdit(add_tags=["seen"])).id
    assert newer != mine
    assert shown(bank, newer).text == TOKENS
    assert examine(bank.store, bank.id).is_sound


# -- copies, tokens and interfaces ----------------------------------------------------------------


def test_a_disclosure_of_a_redacted_memory_verifies_against_the_signed_head(
    bank: OpenBank, tmp_path: Path
) -> None:
    """Offline, with its proof, its redaction record and the ancestors."""
    mine = keep(bank, ADA)
    child = keep(bank, "drawn from it", parents=[mine])
    redact_ids(bank, mine)
    file = tmp_path / "shown.pam.jsonl"
    disclose_to(bank, [child], file, ExportOptions(key=owner()))
    found = verify(file, load_settings(), VerifyOptions(deep=True))
    assert found.outcome == "good"
    lines = [json.loads(line) for line in file.read_bytes().splitlines()]
    assert any(one.get("type") == "redaction" for one in lines)
    assert b"Lovelace" not in file.read_bytes()


def test_a_pushed_redaction_redacts_the_copy(bank: OpenBank, tmp_path: Path) -> None:
    """A memory that was pushed before its redaction is redacted in the copy by the next push."""
    from satchel.replication.operations import push

    mine, later = keep(bank, ADA), keep(bank, f"{ADA} twice")
    settings, other = load_settings(), tmp_path / "other.db"
    push(settings, str(other))
    redact_ids(bank, mine)
    push(settings, str(other))
    redact_ids(bank, later)
    push(settings, str(other))
    with Satchel.open(other) as there:
        assert sorted(str(one.text) for one in there.bank().list()) == [TOKENS, f"{TOKENS} twice"]
    assert _EMAIL.encode() not in other.read_bytes()


def test_a_token_holder_redacts_by_id_within_the_scope_without_reading(
    bank: OpenBank,
) -> None:
    """No conditions, no originals, nothing outside of the scope, no other records."""
    mine = keep(bank, ADA)
    outside = keep(bank, f"{ADA} outside", type="working")
    holder = may(bank, SEMANTIC, allow=["redact"])
    with pytest.raises(SatchelError):
        redact_ids(holder, outside)
    with pytest.raises(PermissionRefusedError):
        redact.run(holder, RedactOptions(where=conditions_of(["user=ada"])))
    with pytest.raises(PermissionRefusedError):
        redact_ids(holder, mine, recover_for=[owner().did])
    done = redact_ids(holder, mine)
    assert done.kinds == {"email": 1, "name": 1, "phone": 1}
    assert shown(bank, mine).text == TOKENS
    assert shown(bank, outside).text == f"{ADA} outside"
    with bank.ledger.reading() as view:
        (said,) = [one.model for one in view.scan(_REDACTIONS)]
    assert isinstance(said, Redaction)
    assert said.by == HOLDER.did
    asked = holder.asked("redact").ledger
    with pytest.raises(PermissionRefusedError):
        asked.append([seal(Semantic(text="slipped in"))])
    with pytest.raises(PermissionRefusedError):
        asked.append([seal(Status(target=mine, state="deleted"))])
    with pytest.raises(SatchelError):
        show(holder, mine)


def test_python_and_async_redact_and_recover_match_the_commands() -> None:
    """With ``Satchel`` and with ``satchel.aio``."""
    with filled() as bank:
        one = keep(bank, ADA, scope={"user": "ada"})
        two = keep(bank, ADA, scope={"user": "eve"})
    with Satchel.open() as there:
        own = there.bank()
        assert own.redact(where={"user": "ada"}, recover_for=["default"]).redacted == 1
        assert own.recover(one).record["text"] == ADA

    async def awaited() -> object:
        async with aio.open() as there:
            own = await there.bank()
            await own.redact(two[:20], kinds=["email"], recover_for=["default"])
            return (await own.recover(two)).record["text"]

    assert asyncio.run(awaited()) == ADA


def test_an_entry_without_a_nonce_is_not_appended(bank: OpenBank) -> None:
    """Only the redaction path logs a record without a nonce."""
    value = dict(seal(Semantic(text="x")).value)
    del value["nonce"]
    body = canonical_checked(value)
    with pytest.raises(MalformedError, match="redacted"):
        bank.ledger.append([Sealed(value["id"], "semantic", body)])


def test_an_original_is_stored_as_an_age_file_for_its_recipients(
    bank: OpenBank, tmp_path: Path
) -> None:
    """Any age tool opens it; the decrypted record has the id of the redacted form."""
    secret, recipient = new_identity()
    identity = keep(bank, "mail ada@example.com")
    friend = create_key(bank.settings, "friend")
    to = RedactOptions(ids=(identity,), recover_to=(recipient,), recover_for=(friend.did,))
    assert redact.run(bank, to).redacted == 1
    assert recover_by_key(bank, identity, friend).record["text"] == "mail ada@example.com"
    assert recover_by_identity(bank, identity) is None  # none is here yet
    named, content = sealed_age_file(bank, identity)
    body = decrypt_bytes(content, [secret])
    assert body is not None
    assert open_record(body)[0].id == named == identity
    path = tmp_path / "ben.identity.txt"
    path.write_text(secret)
    unlocking = Unlocker(files=(path,))
    settings = msgspec.structs.replace(bank.settings, unlocking=unlocking)
    with_identity = replace(bank, settings=settings)
    found = recover_by_identity(with_identity, identity)
    assert found is not None
    assert found.record["text"] == "mail ada@example.com"


PLAIN, TOKEN = "write to ada@analytical.example", "write to [REDACTED:email:1]"


@pytest.fixture
def exported_files(tmp_path: Path) -> tuple[Path, Path, str]:
    """Two files of one bank, before and after a memory with a child was redacted."""
    before, after = tmp_path / "before.pam", tmp_path / "after.pam"
    with filled("from") as bank:
        name = keep(bank, PLAIN)
        keep(bank, "wrote to her", parents=[name])
        export(bank, before, ExportOptions(key=owner()))
        assert redact.run(bank, RedactOptions(ids=(name,))).redacted
        export(bank, after, ExportOptions(key=owner()))
    return before, after, name


def _redacted_text(name: str, wanted: str) -> str:
    with filled(wanted) as bank, bank.ledger.reading() as view:
        assert view.redaction(name) is not None
        model = view.get([name])[name].model
    assert isinstance(model, Entry)
    return str(model.text)


@pytest.mark.in_check(2)
@pytest.mark.usefixtures("any_store")
def test_redacted_memories_are_imported_as_redacted(
    exported_files: tuple[Path, Path, str], tmp_path: Path
) -> None:
    """Under the same id, with their redaction record; their children stay connected."""
    _, after, name = exported_files
    done = bring(after, bank="to").banks[0].done
    assert (done.added, done.left.get("redaction")) == (2, None)
    assert _redacted_text(name, "to") == TOKEN
    again = tmp_path / "again.pam"
    with filled("to") as bank:
        assert sorted(map(str, texts(bank))) == [TOKEN, "wrote to her"]
        assert examine(bank.store, bank.id).is_sound
        export(bank, again, ExportOptions(key=owner()))
    assert verify(again, load_settings(), VerifyOptions(deep=True)).outcome == "good"
    assert bring(after, bank="to").banks[0].done.known == 3


def test_an_import_does_not_restore_a_redacted_memory(
    exported_files: tuple[Path, Path, str],
) -> None:
    """A later file with the original is counted, and the memory stays redacted."""
    before, after, name = exported_files
    bring(after, bank="to")
    done = bring(before, bank="to").banks[0].done
    assert (done.known, done.redacted) == (2, 1)
    assert _redacted_text(name, "to") == TOKEN


def test_attack_an_import_does_not_redact_an_existing_memory(
    exported_files: tuple[Path, Path, str],
) -> None:
    """Otherwise an imported file could remove texts."""
    before, after, _ = exported_files
    bring(before, bank="to")
    done = bring(after, bank="to").banks[0].done
    assert (done.known, done.added, done.left["redaction"]) == (2, 0, 1)
    with filled("to") as bank:
        assert sorted(map(str, texts(bank))) == [PLAIN, "wrote to her"]
        assert examine(bank.store, bank.id).is_sound


def test_an_import_of_redacted_memories_is_undone_and_repeated(
    exported_files: tuple[Path, Path, str],
) -> None:
    """As any other import."""
    _, after, name = exported_files
    source = bring(after, bank="to").banks[0].source
    assert source is not None
    undo_import(load_settings(), "to", source)
    with filled("to") as bank:
        assert texts(bank) == []
    assert bring(after, bank="to").banks[0].done.restored == 3  # and its redaction
    assert _redacted_text(name, "to") == TOKEN


def test_a_bank_with_redacted_memories_is_copied(exported_files: tuple[Path, Path, str]) -> None:
    """The copy in the same store has the redacted memories."""
    *_, name = exported_files
    copy_bank(load_settings(), "from", "copied", owner())
    assert _redacted_text(name, "copied") == TOKEN


def test_a_file_with_a_redacted_form_without_its_redaction_is_refused(
    exported_files: tuple[Path, Path, str], tmp_path: Path
) -> None:
    """Whatever verdicts are accepted: the form could never be verified."""
    _, after, _ = exported_files
    value = json.loads(after.read_bytes())
    del value["redactions"]
    bad = tmp_path / "bad.pam"
    bad.write_text(json.dumps(value))
    with pytest.raises((MalformedError, VerificationError)):
        bring(bad, bank="to")


# -- rules of the log -----------------------------------------------------------------------------


def _redaction_and_form(record: Sealed) -> tuple[Sealed, Sealed]:
    """Return the redaction of a memory, and its redacted form."""
    value = {**record.value, "text": "[REDACTED:email:1]"}
    del value["nonce"]
    body = canonical_checked(value)
    redaction = Redaction(entry=record.id, result=digest(body), fields=("/text",), at=now())
    return seal(redaction), Sealed(record.id, record.type, body)


def test_attack_an_import_cannot_redact_a_memory_of_the_bank() -> None:
    """A file could make a memory of the bank unreadable."""
    ledger = created(InMemoryStore())
    (there,) = memories(1)
    source = seal(Source(provider="test", format="test"))
    ledger.append([there, source])
    redaction, form = _redaction_and_form(there)
    for records in ([redaction], [redaction, form]):
        with pytest.raises(RedactionRefusedError, match="only its own records"):
            ledger.append(records, batch=source.id)
    with ledger.reading() as view:
        assert view.get([there.id])[there.id].record.body == there.body


def test_a_redacted_form_is_logged_only_with_its_own_redaction() -> None:
    """Without it, with another one, or outside of an import the form is refused."""
    ledger = created(InMemoryStore())
    source = seal(Source(provider="test", format="test"))
    ledger.append([source])
    redaction, form = _redaction_and_form(seal(Semantic(text="one", kind="note")))
    another, _ = _redaction_and_form(seal(Semantic(text="two", kind="note")))
    with ledger.reading() as view:
        size = view.head.size
    for records, batch in (([form], source.id), ([another, form], source.id)):
        with pytest.raises(MalformedError):
            ledger.append(records, batch=batch)
    with pytest.raises((MalformedError, RedactionRefusedError)):
        ledger.append([redaction, form])
    with ledger.reading() as view:
        assert view.head.size == size
    ledger.append([redaction, form], batch=source.id)


def test_an_unredacted_memory_is_refused_after_its_redaction() -> None:
    """A killed import leaves no memory that cannot be read."""
    ledger = created(InMemoryStore())
    source = seal(Source(provider="test", format="test"))
    ledger.append([source])
    whole = seal(Semantic(text="one", kind="note"))
    redaction, _ = _redaction_and_form(whole)
    ledger.append([redaction], batch=source.id)
    with pytest.raises(RedactionRefusedError, match="cannot be imported in another form"):
        ledger.append([whole])
