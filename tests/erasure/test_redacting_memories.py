"""Redacting: tokens in the place of personal data, with id, lineage, proofs and standing kept."""

import asyncio
import json
import re
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from bank_kit import filled, keep, owner, texts
from token_kit import HOLDER, SEMANTIC, may

from satchel import Satchel, aio
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
from satchel.model.records import Redaction, Semantic, Status
from satchel.model.values import now
from satchel.ports.rows import Filter, derive_row
from satchel.ports.store import InspectableStore, Store
from satchel.recall.query import Query
from satchel.recall.search import recall_memories
from satchel.transfer.disclosure import disclose_to
from satchel.transfer.export_records import ExportOptions
from satchel.transfer.exports import export
from satchel.transfer.verification import VerifyOptions, verify

pytestmark = pytest.mark.usefixtures("private_umask")

ADA = "Dr. Ada Lovelace, ada@analytical.example, reads at +44 20 7946 0958"
TOKENS = "Dr. [REDACTED:name:1], [REDACTED:email:1], reads at [REDACTED:phone:1]"
_REDACTIONS = Filter(types=frozenset({"redaction"}))


def out(bank: OpenBank, *ids: str, **options: object) -> RedactionResult:
    """Redact memories by their ids."""
    return redact.run(bank, RedactOptions(ids=ids, **options))  # type: ignore[arg-type]


def holds(store: Store, text: str) -> bool:
    """Tell whether a store has a text in its raw bytes."""
    assert isinstance(store, InspectableStore)
    return any(text.encode() in b"".join(extent.pieces()) for extent in store.laid_open())


def shown(bank: OpenBank, identity: str) -> Memory:
    """Return a memory as it is shown."""
    return show(bank, identity)


def size_of(bank: OpenBank) -> int:
    """Return how many records the log has."""
    with bank.ledger.reading() as view:
        return view.head.size


@pytest.mark.usefixtures("any_store")
def test_personal_data_is_redacted_and_the_rest_unchanged_on_any_store(tmp_path: Path) -> None:
    """Id, type, parents, times, standing, owner; the bytes are gone, words find tokens only."""
    with filled() as bank:
        root = keep(bank, "the root of it")
        mine = keep(bank, ADA, parents=[root], scope={"user": "ada"}, metadata={"tel": ADA})
        child = keep(bank, "drawn from her words", parents=[mine])
        before = shown(bank, mine)
        size = size_of(bank)

        plan = out(bank, mine, dry_run=True)
        assert (plan.redacted, plan.kinds) == (1, {"email": 2, "name": 2, "phone": 2})
        assert size_of(bank) == size
        done = out(bank, mine)
        assert done.entries[0].fields == ["/metadata/tel", "/text"]
        assert done.finished
        after = shown(bank, mine)
        assert after.text == TOKENS
        assert after.metadata == {"tel": TOKENS}
        for name in ("id", "type", "created_at", "scope", "state", "position"):
            assert getattr(after, name) == getattr(before, name), name
        assert not holds(bank.store, "ada@analytical.example")
        assert not holds(bank.store, "7946 0958")
        found = recall_memories(bank, Query(text="analytical lovelace"))
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
        assert out(bank, mine).redacted == 0


def test_old_versions_are_redacted_with_the_current_one(bank: OpenBank) -> None:
    """What an update replaced says the same to whoever reads the history."""
    first = keep(bank, ADA, key="ada")
    newer = update(bank, first, MemoryEdit(add_tags=["x"])).id
    other = update(bank, newer, MemoryEdit(members={"text": "nothing personal"})).id
    assert out(bank, other).redacted == 2
    assert texts(bank, everything=True) == ["nothing personal", TOKENS, TOKENS]
    assert texts(bank) == ["nothing personal"]


def test_words_members_and_kinds_can_be_named(bank: OpenBank) -> None:
    """Only these are replaced then; a member as a whole, also one that tells whose it is."""
    mine = keep(
        bank,
        "ada told ADA that Adam knows ada@x.example",
        metadata={"a/b": "secret plan", "n": 12345678},
        scope={"user": "ada"},
    )
    assert out(bank, mine, kinds=["phone"]).redacted == 0
    assert out(bank, mine, texts=["Ada"], dry_run=True).kept == 1
    done = out(bank, mine, texts=["Ada"], fields=["/metadata/a~1b", "/scope/user"])
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
            out(bank, mine, **bad)
    with pytest.raises(UsageError):
        out(bank)


def test_conditions_select_from_the_whole_bank(
    bank: OpenBank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group at a time; only those that hold something are touched."""
    monkeypatch.setattr("satchel.erasure.redaction._TOGETHER", 3)
    for number in range(7):
        keep(bank, f"mail{number}@x.example", scope={"user": "ada"})
        keep(bank, f"mail{number}@y.example", scope={"user": "bob"})
        keep(bank, f"nothing {number}", scope={"user": "ada"})
    done = redact.run(bank, RedactOptions(where=conditions_of(["user=ada"])))
    assert (done.looked_at, done.redacted) == (14, 7)
    assert sum("[REDACTED" in str(text) for text in texts(bank)) == 7
    assert sum("@y.example" in str(text) for text in texts(bank)) == 7


def test_named_keys_recover_the_original_and_nobody_else(bank: OpenBank) -> None:
    """Its id is that of the bytes; erasing the memory takes what was sealed along."""
    settings = load_settings()
    mine, plain = keep(bank, ADA), keep(bank, f"{ADA}, too")
    with bank.ledger.reading() as view:
        was = view.get([mine])[mine].record.value
    friend = create_key(settings, "friend")
    done = out(bank, mine, recover_for=["friend", owner().did])
    assert done.recoverable_by == [friend.did, owner().did]
    out(bank, plain)
    for key in (friend, owner()):
        assert recover_by_key(bank, mine, key).record == was
    with pytest.raises(SigningKeyError, match="not sealed for"):
        recover_by_key(bank, mine, HOLDER)
    with pytest.raises(SigningKeyError, match="the original of this memory was not stored"):
        recover_by_key(bank, plain, friend)
    out(bank, mine, texts=["reads"])
    assert recover_by_key(bank, mine, friend).record == was
    erase.run(bank, EraseOptions(ids=[mine]))
    with bank.store.reading() as reader:
        assert reader.side(bank.id, "redacted/") == {}


def test_a_sealed_original_that_was_changed_or_exchanged_is_refused(bank: OpenBank) -> None:
    """Attack: whoever writes the store puts another original in the place of one."""
    friend = create_key(load_settings(), "friend")
    one, other = keep(bank, ADA), keep(bank, f"{ADA}, too")
    out(bank, one, other, recover_for=["friend"])
    with bank.store.reading() as reader:
        kept = reader.side(bank.id, "redacted/")
    names = sorted(kept, key=lambda name: int(name.rpartition("/")[2]))
    with bank.store.writing() as writing:
        writing.put_side(bank.id, {names[0]: kept[names[1]], names[1]: kept[names[0]][:-9] + b'"}'})
    with pytest.raises(VerificationError):
        recover_by_key(bank, one, friend)
    with pytest.raises(SatchelError):
        recover_by_key(bank, other, friend)


# -- what nobody gets away with -------------------------------------------------------------------


def changed_row(bank: OpenBank, identity: str, body: bytes) -> None:
    """Put other bytes in the place of a record, as one who writes the store."""
    with bank.store.writing() as writing:
        (row,) = writing.get(bank.id, [identity])
        own = derive_row(decode_record(body), seq=row.seq, at=row.at, body=body, batch=row.batch)
        writing.rewrite(bank.id, [own])


def test_a_whole_entry_in_the_place_of_its_redacted_form_is_refused(bank: OpenBank) -> None:
    """Attack: un-redacting by an old copy of the row. It verifies by its id, and is refused."""
    mine = keep(bank, ADA)
    with bank.ledger.reading() as view:
        whole = view.get([mine])[mine].record.body
    out(bank, mine)
    changed_row(bank, mine, whole)
    with pytest.raises(VerificationError, match="redacted"):
        show(bank, mine)
    found = examine(bank.store, bank.id)
    assert found.counts[Flaw.RETURNED] == 1
    done = repair(bank.store, bank.ledger, at=now())
    assert done.after.is_sound
    assert not holds(bank.store, "ada@analytical.example")


def test_another_form_than_the_one_that_was_logged_is_refused(bank: OpenBank) -> None:
    """Attack: a form whose tokens, or whose rest, say something else."""
    mine = keep(bank, ADA)
    out(bank, mine)
    with bank.ledger.reading() as view:
        form = view.get([mine])[mine].record.value
    forged = canonical_checked({**form, "text": "Dr. [REDACTED:name:1] owes me a million"})
    changed_row(bank, mine, forged)
    with pytest.raises(VerificationError):
        show(bank, mine)
    assert not examine(bank.store, bank.id).is_sound


def test_a_form_without_its_redaction_record_is_refused(bank: OpenBank) -> None:
    """Attack: anything at all, said to be a redacted form."""
    mine = keep(bank, ADA)
    with bank.ledger.reading() as view:
        value = dict(view.get([mine])[mine].record.value)
    del value["nonce"]
    changed_row(bank, mine, canonical_checked({**value, "text": "[REDACTED:text:1]"}))
    with pytest.raises(VerificationError):
        show(bank, mine)


def test_a_redaction_cannot_change_lineage_times_or_type(bank: OpenBank) -> None:
    """Attack: rewriting history under the name of redaction; nothing is logged."""
    root = keep(bank, "root")
    mine = keep(bank, ADA, parents=[root])
    with bank.ledger.reading() as view:
        value = dict(view.get([mine])[mine].record.value)
    nonce = value.pop("nonce")
    size = size_of(bank)
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
    assert size_of(bank) == size
    assert shown(bank, mine).text == ADA


def test_the_redacted_value_cannot_be_guessed_from_the_id_it_keeps(bank: OpenBank) -> None:
    """Attack: every birth date tried against the id. The nonce is gone from form and store."""
    mine = keep(bank, "born on 1815-12-10")
    with bank.ledger.reading() as view:
        nonce = view.get([mine])[mine].record.value["nonce"]
    out(bank, mine)
    assert shown(bank, mine).text == "born on [REDACTED:birth-date:1]"
    assert not holds(bank.store, nonce)


def test_an_erased_memory_is_not_redacted_and_a_redacted_one_can_be_erased(bank: OpenBank) -> None:
    """Each in its turn, and the log holds; a current form is erased like any current memory."""
    one, other = keep(bank, ADA), keep(bank, f"{ADA}!")
    out(bank, one)
    with bank.ledger.reading() as view:
        form = view.get([one])[one]
    assert erase.run(bank, EraseOptions(ids=[one, other])).erased == 2
    body = form.record.body
    said = seal(Redaction(entry=one, result=digest(body), fields=("/text",), at=now()))
    with pytest.raises(RedactionRefusedError):
        bank.ledger.append([said], forms={one: body})
    assert examine(bank.store, bank.id).is_sound


def test_a_redacted_memory_is_forgotten_restored_and_updated_like_any_other(bank: OpenBank) -> None:
    """Its standing is of the log; a new version holds the tokens."""
    mine = keep(bank, ADA)
    out(bank, mine)
    bank.ledger.append([seal(Status(target=mine, state="deleted"))])
    assert texts(bank) == []
    bank.ledger.append([seal(Status(target=mine, state="restored"))])
    assert texts(bank) == [TOKENS]
    newer = update(bank, mine, MemoryEdit(add_tags=["seen"])).id
    assert newer != mine
    assert shown(bank, newer).text == TOKENS
    assert examine(bank.store, bank.id).is_sound


# -- where it goes --------------------------------------------------------------------------------


def test_a_disclosure_of_a_redacted_memory_verifies_against_the_signed_head(
    bank: OpenBank, tmp_path: Path
) -> None:
    """With its proof, its redaction record and the ancestors, offline."""
    mine = keep(bank, ADA)
    child = keep(bank, "drawn from it", parents=[mine])
    out(bank, mine)
    file = tmp_path / "shown.pam.jsonl"
    disclose_to(bank, [child], file, ExportOptions(key=owner()))
    found = verify(file, load_settings(), VerifyOptions(deep=True))
    assert found.outcome == "good"
    lines = [json.loads(line) for line in file.read_bytes().splitlines()]
    assert any(one.get("type") == "redaction" for one in lines)
    assert b"Lovelace" not in file.read_bytes()


def test_a_copy_of_the_log_has_the_form_too(bank: OpenBank, tmp_path: Path) -> None:
    """Carried before and after: what was carried whole becomes the form there as well."""
    from satchel.replication.operations import push

    mine, later = keep(bank, ADA), keep(bank, f"{ADA} twice")
    settings, other = load_settings(), tmp_path / "other.db"
    push(settings, str(other))
    out(bank, mine)
    push(settings, str(other))
    out(bank, later)
    push(settings, str(other))
    with Satchel.open(other) as there:
        assert sorted(str(one.text) for one in there.bank().list()) == [TOKENS, f"{TOKENS} twice"]
    assert b"ada@analytical" not in other.read_bytes()


def test_a_holder_may_redact_by_id_what_the_token_covers_without_reading_it(
    bank: OpenBank,
) -> None:
    """Only that: no conditions, no originals, nothing outside of the scope, nothing added."""
    mine = keep(bank, ADA)
    outside = keep(bank, f"{ADA} outside", type="working")
    holder = may(bank, SEMANTIC, allow=["redact"])
    with pytest.raises(SatchelError):
        out(holder, outside)
    with pytest.raises(PermissionRefusedError):
        redact.run(holder, RedactOptions(where=conditions_of(["user=ada"])))
    with pytest.raises(PermissionRefusedError):
        out(holder, mine, recover_for=[owner().did])
    done = out(holder, mine)
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


def test_a_program_redacts_and_recovers_as_the_commands_do() -> None:
    """From Python, and awaited."""
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


def test_a_row_of_a_form_is_that_of_no_whole_entry(bank: OpenBank) -> None:
    """A record without a nonce is not appended like any other."""
    value = dict(seal(Semantic(text="x")).value)
    del value["nonce"]
    body = canonical_checked(value)
    with pytest.raises(MalformedError, match="redacted"):
        bank.ledger.append([Sealed(value["id"], "semantic", body)])


def test_an_original_is_stored_as_an_age_file_for_its_recipients(
    bank: OpenBank, tmp_path: Path
) -> None:
    """Any age tool opens it; what comes out has the id that the form kept."""
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
