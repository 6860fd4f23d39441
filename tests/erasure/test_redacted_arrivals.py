"""Redacted memories that go from bank to bank: they come in, stay redacted, and are proved."""

import json
from pathlib import Path

import pytest
from bank_kit import filled, keep, owner, texts
from import_kit import bring
from ledger_kit import created, memories

from satchel.admin.bank_copy import copy_bank
from satchel.config.settings import load_settings
from satchel.crypto.canonical import canonical_checked
from satchel.crypto.sealed_records import Sealed, digest, seal
from satchel.erasure.redaction import redact
from satchel.erasure.selection import RedactOptions
from satchel.errors import MalformedError, RedactionRefusedError, VerificationError
from satchel.ledger.examination import examine
from satchel.model.records import Entry, Redaction, Semantic, Source
from satchel.model.values import now
from satchel.stores.memory import InMemoryStore
from satchel.transfer.export_records import ExportOptions
from satchel.transfer.exports import export
from satchel.transfer.imports import undo_import
from satchel.transfer.verification import VerifyOptions, verify

PLAIN, TOKEN = "write to ada@analytical.example", "write to [REDACTED:email:1]"


@pytest.fixture
def exported(tmp_path: Path) -> tuple[Path, Path, str]:
    """Two files of one bank, before and after a memory was redacted that another hangs on."""
    before, after = tmp_path / "before.pam", tmp_path / "after.pam"
    with filled("from") as bank:
        name = keep(bank, PLAIN)
        keep(bank, "wrote to her", parents=[name])
        export(bank, before, ExportOptions(key=owner()))
        assert redact.run(bank, RedactOptions(ids=(name,))).redacted
        export(bank, after, ExportOptions(key=owner()))
    return before, after, name


def _told(name: str, wanted: str) -> str:
    with filled(wanted) as bank, bank.ledger.reading() as view:
        assert view.redaction(name) is not None
        model = view.get([name])[name].model
    assert isinstance(model, Entry)
    return str(model.text)


@pytest.mark.usefixtures("any_store")
def test_a_file_with_redacted_memories_is_imported_and_they_stay_redacted(
    exported: tuple[Path, Path, str], tmp_path: Path
) -> None:
    """Under the same id, with the record that allows it; what hangs on them does so still."""
    _, after, name = exported
    done = bring(after, bank="to").banks[0].done
    assert (done.added, done.left.get("redaction")) == (2, None)
    assert _told(name, "to") == TOKEN
    again = tmp_path / "again.pam"
    with filled("to") as bank:
        assert sorted(map(str, texts(bank))) == [TOKEN, "wrote to her"]
        assert examine(bank.store, bank.id).is_sound
        export(bank, again, ExportOptions(key=owner()))
    assert verify(again, load_settings(), VerifyOptions(deep=True)).outcome == "good"
    assert bring(after, bank="to").banks[0].done.known == 3


def test_a_redacted_memory_is_not_made_whole_by_a_later_file(
    exported: tuple[Path, Path, str],
) -> None:
    """Whoever has it whole keeps it; that it stayed redacted is counted, never passed over."""
    before, after, name = exported
    bring(after, bank="to")
    done = bring(before, bank="to").banks[0].done
    assert (done.known, done.redacted) == (2, 1)
    assert _told(name, "to") == TOKEN


def test_a_whole_memory_is_not_replaced_by_a_form_that_arrives(
    exported: tuple[Path, Path, str],
) -> None:
    """Else whoever can have a file imported could take texts away."""
    before, after, _ = exported
    bring(before, bank="to")
    done = bring(after, bank="to").banks[0].done
    assert (done.known, done.added, done.left["redaction"]) == (2, 0, 1)
    with filled("to") as bank:
        assert sorted(map(str, texts(bank))) == [PLAIN, "wrote to her"]
        assert examine(bank.store, bank.id).is_sound


def test_an_import_of_forms_is_undone_and_done_again(exported: tuple[Path, Path, str]) -> None:
    """As any other."""
    _, after, name = exported
    source = bring(after, bank="to").banks[0].source
    assert source is not None
    undo_import(load_settings(), "to", source)
    with filled("to") as bank:
        assert texts(bank) == []
    assert bring(after, bank="to").banks[0].done.restored == 3  # and its redaction
    assert _told(name, "to") == TOKEN


def test_a_bank_with_redacted_memories_is_copied(exported: tuple[Path, Path, str]) -> None:
    """A second bank of the same store has them as they are."""
    *_, name = exported
    copy_bank(load_settings(), "from", "copied", owner())
    assert _told(name, "copied") == TOKEN


def test_a_redacted_form_without_its_redaction_record_is_refused(
    exported: tuple[Path, Path, str], tmp_path: Path
) -> None:
    """Also where every verdict is put up with: nobody could ever read it."""
    _, after, _ = exported
    value = json.loads(after.read_bytes())
    del value["redactions"]
    bad = tmp_path / "bad.pam"
    bad.write_text(json.dumps(value))
    with pytest.raises((MalformedError, VerificationError)):
        bring(bad, bank="to")


# -- what the log takes ---------------------------------------------------------------------------


def _form(record: Sealed) -> tuple[Sealed, Sealed]:
    """Return the redaction of a memory, and its form."""
    value = {**record.value, "text": "[REDACTED:email:1]"}
    del value["nonce"]
    body = canonical_checked(value)
    redaction = Redaction(entry=record.id, result=digest(body), fields=("/text",), at=now())
    return seal(redaction), Sealed(record.id, record.type, body)


def test_a_redaction_of_what_is_here_never_comes_with_an_import() -> None:
    """Else a file could make a memory of the bank unreadable."""
    ledger = created(InMemoryStore())
    (there,) = memories(1)
    source = seal(Source(provider="test", format="test"))
    ledger.append([there, source])
    redaction, form = _form(there)
    for records in ([redaction], [redaction, form]):
        with pytest.raises(RedactionRefusedError, match="only its own records"):
            ledger.append(records, batch=source.id)
    with ledger.reading() as view:
        assert view.get([there.id])[there.id].record.body == there.body


def test_a_form_is_taken_with_its_own_redaction_only() -> None:
    """None, that of another form, and outside an import: refused, and nothing is logged."""
    ledger = created(InMemoryStore())
    source = seal(Source(provider="test", format="test"))
    ledger.append([source])
    redaction, form = _form(seal(Semantic(text="one", kind="note")))
    another, _ = _form(seal(Semantic(text="two", kind="note")))
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


def test_a_whole_memory_is_refused_after_its_redaction() -> None:
    """An import that was killed in between leaves no memory that cannot be read."""
    ledger = created(InMemoryStore())
    source = seal(Source(provider="test", format="test"))
    ledger.append([source])
    whole = seal(Semantic(text="one", kind="note"))
    redaction, _ = _form(whole)
    ledger.append([redaction], batch=source.id)
    with pytest.raises(RedactionRefusedError, match="cannot be imported in another form"):
        ledger.append([whole])
