"""Tokens govern memory files: a holder does what the token allows, under the key's name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from bank_kit import filled, owner
from ledger_kit import WRITER
from token_kit import SEMANTIC, may

from satchel import Satchel
from satchel.bank.open_bank import OpenBank
from satchel.cli.main import run
from satchel.crypto.tokens import Wildcard
from satchel.errors import PermissionRefusedError, TokenRevokedError
from satchel.files import MemoryStore
from satchel.files.bank_files import files_of_bank, opened_files
from satchel.files.memory_tool import MemoryTool
from satchel.files.promotion import PromotionRule, promote_all
from satchel.ledger.authority import token_revocation_record
from satchel.ledger.ledger import Ledger
from satchel.model.values import now
from satchel.recall.query import Query
from satchel.recall.search import recall_memories


@pytest.fixture
def bank() -> Iterator[OpenBank]:
    """A bank with a memory file that its owner wrote."""
    with filled("ada") as opened:
        with opened_files(opened.settings, "ada", create=True) as store:
            store.write_text("a.md", "the lighthouse", actor="owner")
            store.write_text("user/b.md", "a proposal", actor="owner")
        yield opened


def _reader(bank: OpenBank) -> MemoryStore:
    return files_of_bank(may(bank, Wildcard(), allow=["read"]))


def test_a_reader_reads_and_changes_nothing(bank: OpenBank) -> None:
    """Each way to change one is refused, and nothing of it is written; neither are its rules."""
    store = _reader(bank)
    assert store.read_text("a.md") == "the lighthouse"
    assert (store.list_paths(), store.search("house")[0].path) == (["a.md", "user/b.md"], "a.md")
    store.append({"role": "user", "content": "x"})
    for change in (
        lambda: store.write_text("b.md", "x"),
        lambda: store.write_json("b.md", {}),
        lambda: store.write_bytes("b.md", b"x"),
        lambda: store.write_many([("b.md", "x")]),
        lambda: store.append_text("a.md", "x"),
        lambda: store.edit("a.md", "the", "a"),
        lambda: store.rename("a.md", "b.md"),
        lambda: store.restore("a.md", 1),
        lambda: store.delete("a.md"),
        lambda: store.erase("a.md"),
        lambda: store.promote("a.md", "b.md"),
        lambda: store.change_policy(audit=False),
        store.sync,
        store.save,
        store.flush_messages_sync,
        lambda: MemoryTool(store)(
            {"command": "insert", "path": "/memories/a.md", "insert_line": 0, "insert_text": "x"}
        ),
        lambda: promote_all(store, PromotionRule(staged="user", into="memory")),
    ):
        with pytest.raises(PermissionRefusedError):
            change()
    with opened_files(bank.settings, "ada") as whole:
        assert whole.list_paths() == ["a.md", "user/b.md"]
        assert {one["actor"] for one in whole.audit_tail_sync()} == {"owner"}


def test_a_writer_writes_under_the_name_of_its_key(bank: OpenBank) -> None:
    """Whoever it says that it is; rules, promotion and erasing stay the owner's."""
    holder = may(bank, Wildcard(), allow=["read", "write"])
    assert holder.bearer is not None
    store = files_of_bank(holder)
    assert store.write_text("b.md", "x", actor="owner").updated_by == holder.bearer.name
    store.edit("a.md", "light", "dark", actor="owner")
    assert store.history("a.md")[-1].actor == holder.bearer.name
    MemoryTool(store)({"command": "create", "path": "/memories/c.md", "file_text": "x"})
    assert {one["actor"] for one in store.audit_tail_sync(3)} == {holder.bearer.name}
    for refused in (
        lambda: store.erase("a.md"),
        lambda: store.promote("a.md", "b.md"),
        lambda: store.change_policy(audit=False),
    ):
        with pytest.raises(PermissionRefusedError, match="owner"):
            refused()


def test_a_token_for_a_part_of_the_bank_opens_no_file(bank: OpenBank) -> None:
    """A scope speaks of entries, and a file is none: neither opened, nor recalled."""
    with pytest.raises(PermissionRefusedError, match="not memory files"):
        files_of_bank(may(bank, SEMANTIC, allow=["read", "write"]))
    asked = Query(text="lighthouse", files=True)
    assert recall_memories(may(bank, SEMANTIC), asked).files == []
    assert [one.path for one in recall_memories(may(bank, Wildcard()), asked).files] == ["a.md"]


def test_an_open_store_sees_that_its_token_was_revoked(bank: OpenBank) -> None:
    """At the next call, and in threads, too."""
    holder = may(bank, Wildcard(), allow=["read", "write"])
    store = files_of_bank(holder)
    store.write_text("b.md", "x")
    assert holder.bearer is not None
    token = holder.bearer.chain.leaf.id
    bank.ledger.append([token_revocation_record(bank.id, token, owner(), now(), None)])
    for refused in (lambda: store.read_text("a.md"), lambda: store.write_text("b.md", "y")):
        with pytest.raises(TokenRevokedError):
            refused()


def test_the_files_of_a_name_that_two_banks_have_are_nobodys_by_token(bank: OpenBank) -> None:
    """Attack: a second bank of the name, whose token then opens the first one's files."""
    Ledger.create(bank.store, owner=owner(), writer=WRITER, name="ada")
    with pytest.raises(PermissionRefusedError, match="another bank"):
        _reader(bank)


def test_a_holder_has_the_files_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of the token's bank, and no others; what is written follows into the log."""
    with Satchel.open() as satchel:
        satchel.bank("first").remember("x")
        for name in ("ada", "other"):
            satchel.create_bank(name)
        satchel.bank("other").files.write_text("a.md", "not yours")
        satchel.bank("ada").files.write_text("a.md", "yours")
        for name, allow in (("read", ["read"]), ("write", ["read", "write"])):
            satchel.bank("ada").tokens.issue(
                audience="default",
                everything=True,
                permissions=allow,
                output=tmp_path / f"{name}.token",
            )
    reading, writing = (["--token", str(tmp_path / f"{one}.token")] for one in ("read", "write"))
    assert run([*reading, "file", "read", "a.md"]) == 0
    assert capsys.readouterr().out == "yours"
    assert run([*reading, "file", "write", "a.md", "changed"]) == 3
    assert run([*reading, "file", "ls", "--file-store", "other"]) == 3
    assert run([*reading, "file", "ls", "--root", str(tmp_path)]) == 3
    assert run([*writing, "file", "write", "a.md", "changed", "--actor", "owner"]) == 0
    assert run([*writing, "file", "promote", "a.md", "b.md"]) == 3
    for leaving in (
        ["export", "-o", str(tmp_path / "out.json")],
        ["sync", str(tmp_path / "notes")],
    ):
        assert run([*writing, "file", *leaving]) == 3
    assert not list(tmp_path.glob("out*")) + list(tmp_path.glob("notes*"))
    with Satchel.open() as satchel:
        found = satchel.bank("ada").recall("changed").files
    assert [(one.path, (one.actor or "")[:8]) for one in found] == [("a.md", "did:key:")]
