"""A bank with redacted memories in exports, conversions, merges, replicas and migrations.

Every writable format takes part automatically.
"""

from pathlib import Path

import pytest
from bank_kit import filled
from matrix_kit import WRITABLE, back, held, lost_by, opened, out, output_of, put, rich

from satchel.bank.changes import remember
from satchel.bank.listings import ListRequest, list_memories
from satchel.bank.machine_keys import signing_key
from satchel.bank.open_bank import open_bank
from satchel.cli.main import run
from satchel.config.settings import load_settings
from satchel.erasure.redaction import redact
from satchel.erasure.selection import RedactOptions
from satchel.errors import LossError
from satchel.ledger.examination import examine
from satchel.ports.rows import Filter
from satchel.transfer.comparison import diff
from satchel.transfer.conversion import ConvertOptions, convert
from satchel.transfer.export_records import ExportOptions
from satchel.transfer.exports import export
from satchel.transfer.outputs import is_own
from satchel.transfer.verification import inspect

SECRET, TOKEN = "bob@example.com", "[REDACTED:email:1]"


@pytest.fixture
def bank(tmp_path: Path) -> str:
    """A bank with every type of record, and a redacted memory of each type of entry."""
    put(rich(), "start", tmp_path)
    with filled("start") as found:
        ids = [
            remember(found, {"text": f"q2{n} mail {SECRET} of {kind}", "type": kind}).id
            for n, kind in enumerate(["semantic", "episodic", "procedural", "working", "identity"])
        ]
        parent = ids[0]
        remember(found, {"text": "q30 so write to him", "type": "semantic"}, parents=[parent])
        assert redact.run(found, RedactOptions(ids=tuple(ids), kinds=("email",))).redacted == 5
    return "start"


def _key() -> object:
    return signing_key(load_settings())[0]


@pytest.mark.in_check(8)
@pytest.mark.parametrize("name", WRITABLE)
def test_a_bank_with_redacted_memories_exports_to_every_format(
    name: str, bank: str, tmp_path: Path
) -> None:
    """The remaining words are exported; who redacted them and when is a named loss."""
    path = output_of(name, tmp_path, "out")
    more = {"key": _key()} if is_own(name) else {}
    done = out(bank, path, name, **more)
    losses = {loss.name: loss.count for loss in done.losses}
    assert losses.get("redaction", 0) == (0 if is_own(name) else 5)
    assert all(one.count for one in lost_by(done.account))
    imported = back(path, name, "there")
    words = [str(value) for value in held("there")]
    assert not any(SECRET in one for one in words)
    assert sum(TOKEN in one for one in words) + losses.get("semantic", 0) >= 1 or losses
    assert imported.banks


@pytest.mark.in_check(7)
@pytest.mark.parametrize("name", [name for name in WRITABLE if not is_own(name)])
def test_fail_on_loss_reports_the_redaction(name: str, bank: str, tmp_path: Path) -> None:
    """A dry run names it; accepted, the export succeeds."""
    path = output_of(name, tmp_path, "out")
    assert "redaction" in {loss.name for loss in out(bank, path, name, dry_run=True).losses}
    with pytest.raises(LossError, match="redaction"):
        out(bank, path, name, fail_on_loss=True)
    assert out(bank, path, name, fail_on_loss=True, accept_loss=("all",)).entries


@pytest.mark.in_check(7)
@pytest.mark.parametrize("name", WRITABLE)
def test_a_bank_with_redacted_memories_exports_with_a_sidecar(
    name: str, bank: str, tmp_path: Path
) -> None:
    """All others round trip; the redaction stays a named loss."""
    path = output_of(name, tmp_path, "out")
    more = {"key": _key()} if is_own(name) else {"sidecar": True}
    done = out(bank, path, name, **more)
    if not is_own(name):
        assert {loss.name for loss in done.losses} == {"redaction"}
    back(path, name, "there")
    texts = {value.get("text") for value in held("there")}
    assert any(TOKEN in str(text) for text in texts)
    assert "q02 plain happening" in texts


@pytest.mark.in_check(7)
@pytest.mark.parametrize("name", WRITABLE)
def test_a_sealed_file_with_redacted_memories_is_converted_to_every_format(
    name: str, bank: str, tmp_path: Path
) -> None:
    """It can also be inspected and compared."""
    sealed = tmp_path / "sealed.pam.jsonl"
    with opened(bank) as found:
        export(found, sealed, ExportOptions(key=_key(), keeps_receipt=False))  # type: ignore[arg-type]
    path = output_of(name, tmp_path, "out")
    done = convert(sealed, path, load_settings(), ConvertOptions(target_format=name))
    losses = {loss.name: loss.count for loss in done.losses}
    assert losses.get("redaction", 0) == (0 if is_own(name) else 5)


def test_a_file_with_redacted_memories_is_inspected_and_compared(bank: str, tmp_path: Path) -> None:
    """Like any other file."""
    sealed, settings = tmp_path / "sealed.pam.jsonl", load_settings()
    with opened(bank) as found:
        export(found, sealed, ExportOptions(key=_key(), keeps_receipt=False))  # type: ignore[arg-type]
    assert inspect(sealed, settings).records["semantic"] > 1
    compared = diff(settings, str(sealed), "start")
    assert compared.is_same


@pytest.fixture
def memory_to_redact(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Bank `a` with a memory to redact, and bank `b`; return the ID of the memory."""
    monkeypatch.chdir(tmp_path)
    assert run(["init", "a"]) == 0
    assert run(["bank", "create", "b"]) == 0
    with filled("a") as found:
        remember(found, {"text": "nothing personal"})
        return remember(found, {"text": f"mail {SECRET} today", "scope": {"user": "bob"}}).id


def _redact(bank: str) -> None:
    assert run(["redact", "--bank", bank, "--where", "user=bob"]) == 0


def _texts(bank: str, store: str | None = None) -> list[str]:
    with open_bank(load_settings(store=store), bank) as found:
        shown = list_memories(found, ListRequest())
        assert examine(found.store, found.id).is_sound
        with found.ledger.reading() as view:
            bodies = [one.record.body for one in view.scan(Filter())]
    assert not any(SECRET.encode() in body for body in bodies)
    return sorted(one.text or "" for one in shown)


LEFT = [f"mail {TOKEN} today", "nothing personal"]


def test_banks_with_redacted_memories_are_merged_and_copied(
    memory_to_redact: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The redacted form is copied once; an older full copy stays as its owner left it."""
    _redact("a")
    assert run(["bank", "merge", "a", "b"]) == 0
    assert run(["bank", "copy", "a", "c"]) == 0
    assert _texts("b") == _texts("c") == LEFT
    assert run(["bank", "merge", "a", "b"]) == 0
    assert _texts("b") == LEFT
    capsys.readouterr()
    assert run(["show", memory_to_redact, "--bank", "b"]) == 0
    assert "redacted" in capsys.readouterr().out


@pytest.mark.usefixtures("memory_to_redact")
def test_attack_a_merge_from_an_unredacted_copy_does_not_restore_the_text() -> None:
    """Attack: the bank redacted it; another bank still has the full memory."""
    assert run(["bank", "merge", "a", "b"]) == 0
    _redact("a")
    assert run(["bank", "merge", "b", "a"]) == 0
    assert _texts("a") == LEFT


@pytest.mark.usefixtures("memory_to_redact")
@pytest.mark.parametrize("place", ["other.db", "ladybug:///other"])
def test_a_redaction_reaches_replicas(
    place: str,
) -> None:
    """An older replica, pushed or pulled, restores nothing."""
    assert run(["push", "--bank", "a", place]) == 0
    assert run(["push", "--bank", "a", "old.db"]) == 0
    _redact("a")
    for _ in range(2):
        assert run(["pull", "--bank", "a", "old.db"]) == 0
        assert _texts("a") == LEFT
        assert run(["push", "--bank", "a", place]) == 0
        assert _texts("a", place) == LEFT
    assert run(["--store", "old.db", "push", "--bank", "a", place]) == 3  # it is an old copy
    assert _texts("a", place) == LEFT


@pytest.mark.usefixtures("memory_to_redact")
@pytest.mark.parametrize("place", ["new.db", "ladybug:///new"])
def test_a_store_with_redacted_memories_is_migrated(tmp_path: Path, place: str) -> None:
    """Completely, with the same redactions."""
    _redact("a")
    store = load_settings().store
    (tmp_path / "old.toml").write_text(f'store.address = "{store}"\n')
    (tmp_path / "new.toml").write_text(f'store.address = "{place}"\n')
    assert run(["migrate", "--from-config", "old.toml", "--to-config", "new.toml"]) == 0
    assert _texts("a", place) == LEFT


@pytest.mark.usefixtures("memory_to_redact")
def test_a_migration_to_a_product_reports_the_lost_redaction(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is switched until it is accepted; the remaining words are migrated."""
    _redact("a")
    assert run(["bank", "delete", "b", "--yes"]) == 0
    store = load_settings().store
    product = f'provider = "mem0"\nprovider_config = {{path = "{tmp_path / "m0"}"}}\n'
    (tmp_path / "old.toml").write_text(f'store.address = "{store}"\n')
    (tmp_path / "new.toml").write_text(product)
    capsys.readouterr()
    assert run(["migrate", "--from-config", "old.toml", "--to-config", "new.toml"]) == 1
    said = capsys.readouterr()
    assert "redaction" in said.out + said.err
    assert "switched" not in said.out + said.err
