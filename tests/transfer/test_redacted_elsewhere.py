"""A bank with a redacted memory goes wherever one without goes; what has no place is named.

Every format that is written is in it by itself.
"""

from pathlib import Path

import pytest
from bank_kit import filled
from matrix_kit import WRITABLE, back, held, lost_by, opened, out, output_of, put, rich

from satchel.actions.config import load_settings
from satchel.actions.converting import ConvertOptions, convert
from satchel.actions.erasing.redacting import RedactOptions, redact
from satchel.actions.inspecting import inspect
from satchel.actions.memories.remembering import remember
from satchel.actions.moving.comparing import compare
from satchel.actions.moving.exported import ExportOptions
from satchel.actions.moving.exporting import export
from satchel.actions.signing import signing_key
from satchel.errors import LossError
from satchel.transfer.writing import is_own

SECRET, TOKEN = "bob@example.com", "[REDACTED:email:1]"


@pytest.fixture
def bank(tmp_path: Path) -> str:
    """A bank with something of everything, and a redacted memory of each type of entry."""
    put(rich(), "start", tmp_path)
    with filled("start") as found:
        ids = [
            remember(found, {"text": f"q2{n} mail {SECRET} of {kind}", "type": kind}).id
            for n, kind in enumerate(["semantic", "episodic", "procedural", "working", "identity"])
        ]
        parent = ids[0]
        remember(found, {"text": "q30 so write to him", "type": "semantic"}, parents=[parent])
        assert redact(found, RedactOptions(ids=tuple(ids), kinds=("email",))).redacted == 5
    return "start"


def _key() -> object:
    return signing_key(load_settings())[0]


@pytest.mark.parametrize("name", WRITABLE)
def test_a_bank_with_redacted_memories_goes_to_every_format(
    name: str, bank: str, tmp_path: Path
) -> None:
    """The words that are left go; that they were redacted, by whom and when, is a named loss."""
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


@pytest.mark.parametrize("name", [name for name in WRITABLE if not is_own(name)])
def test_who_wants_all_or_nothing_is_told_of_the_redaction(
    name: str, bank: str, tmp_path: Path
) -> None:
    """And a dry run names it; accepted, it goes."""
    path = output_of(name, tmp_path, "out")
    assert "redaction" in {loss.name for loss in out(bank, path, name, dry_run=True).losses}
    with pytest.raises(LossError, match="redaction"):
        out(bank, path, name, fail_on_loss=True)
    assert out(bank, path, name, fail_on_loss=True, accept_loss=("all",)).entries


@pytest.mark.parametrize("name", WRITABLE)
def test_a_redacted_memory_goes_with_a_sidecar(name: str, bank: str, tmp_path: Path) -> None:
    """All others come back as they were; the redaction stays a named loss."""
    path = output_of(name, tmp_path, "out")
    more = {"key": _key()} if is_own(name) else {"sidecar": True}
    done = out(bank, path, name, **more)
    if not is_own(name):
        assert {loss.name for loss in done.losses} == {"redaction"}
    back(path, name, "there")
    texts = {value.get("text") for value in held("there")}
    assert any(TOKEN in str(text) for text in texts)
    assert "q02 plain happening" in texts


@pytest.mark.parametrize("name", WRITABLE)
def test_a_sealed_file_with_redacted_memories_is_converted_to_every_format(
    name: str, bank: str, tmp_path: Path
) -> None:
    """And inspected, and compared with another."""
    sealed = tmp_path / "sealed.pam.jsonl"
    with opened(bank) as found:
        export(found, sealed, ExportOptions(key=_key(), keeps_receipt=False))  # type: ignore[arg-type]
    path = output_of(name, tmp_path, "out")
    done = convert(sealed, path, load_settings(), ConvertOptions(target_format=name))
    losses = {loss.name: loss.count for loss in done.losses}
    assert losses.get("redaction", 0) == (0 if is_own(name) else 5)


def test_a_file_with_redacted_memories_is_inspected_and_compared(bank: str, tmp_path: Path) -> None:
    """As any other."""
    sealed, settings = tmp_path / "sealed.pam.jsonl", load_settings()
    with opened(bank) as found:
        export(found, sealed, ExportOptions(key=_key(), keeps_receipt=False))  # type: ignore[arg-type]
    assert inspect(sealed, settings).records["semantic"] > 1
    compared = compare(settings, str(sealed), "start")
    assert compared.is_same
