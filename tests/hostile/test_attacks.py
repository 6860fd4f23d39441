"""Attacks that no list has: each ends quickly in a typed error, and changes nothing."""

import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
import pytest
from bank_kit import filled, keep, texts
from canary_kit import OWN
from canary_kit import create_canaries as canaries_in
from fastapi.testclient import TestClient
from http_kit import running_gateway

from satchel.admin.bank_health import check_banks
from satchel.api.store import Satchel
from satchel.bank.open_bank import open_bank
from satchel.cli.main import run
from satchel.config.settings import load_settings
from satchel.errors import SatchelError, StoreError
from satchel.files import MemoryStore
from satchel.files.remote.store import RemoteFileStorage
from satchel.files.storage import file_storage

MCP = {"Accept": "application/json, text/event-stream"}

# -- a store with a changed schema ------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER t AFTER INSERT ON record BEGIN DELETE FROM record; END",
        "CREATE TRIGGER t AFTER INSERT ON record BEGIN UPDATE record SET retired = 1; END",
        "CREATE TRIGGER t AFTER UPDATE ON bank BEGIN DELETE FROM link; END",
        "ALTER TABLE record RENAME TO kept; CREATE VIEW record AS SELECT * FROM kept",
    ],
    ids=["delete-new", "retire-others", "delete-links", "view"],
)
def test_attack_a_trigger_or_view_in_the_store_removes_acknowledged_records(
    statement: str,
) -> None:
    """It would run with the next write: such a store is not opened."""
    with filled() as bank:
        keep(bank, "first")
    settings = load_settings()
    connection = apsw.Connection(settings.store)
    connection.execute(statement)
    connection.close()
    for writes in (False, True):
        with (
            pytest.raises(StoreError, match="triggers or views"),
            open_bank(settings, writes=writes),
        ):
            pass
    assert [check for check in check_banks(settings) if check.state == "problem"]
    connection = apsw.Connection(settings.store)
    if "VIEW" in statement:
        connection.execute("DROP VIEW record; ALTER TABLE kept RENAME TO record")
    else:
        connection.execute("DROP TRIGGER t")
    connection.close()
    with filled() as bank:
        assert texts(bank) == ["first"]


# -- a token that is not a file ---------------------------------------------------------------


def _fifo(path: Path) -> None:
    os.mkfifo(path)


TOKENS: dict[str, Callable[[Path], Any]] = {
    "an endless device": lambda path: path.symlink_to("/dev/zero"),
    "a pipe without a writer": _fifo,
    "a folder": lambda path: path.mkdir(),
    "a missing file": lambda _: None,
    "deep nesting": lambda path: path.write_text('{"a":' * 100_000),
    "a huge number": lambda path: path.write_text('{"tokens": 1' + "0" * 100_000 + "}"),
    "too many members": lambda path: path.write_text(
        '{"tokens": [' + ",".join("{}" for _ in range(50_000)) + "]}"
    ),
    "lone surrogates": lambda path: path.write_text('{"tokens": "\\ud800"}'),
}


@pytest.mark.parametrize("name", TOKENS)
@pytest.mark.timeout(60)
def test_attack_a_token_file_is_a_device_or_deeply_nested(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One typed error, and nothing of the bank."""
    with filled() as bank:
        keep(bank, "a canary")
    token = tmp_path / "token"
    TOKENS[name](token)
    capsys.readouterr()
    status = run(["--token", str(token), "list", "--json"])
    found = capsys.readouterr()
    assert status in (2, 3, 4, 5), found.err
    assert found.out == ""
    assert "canary" not in found.err
    assert json.loads(found.err)["error"]["code"] != "internal"


# -- a host with arbitrary tool arguments ------------------------------------------------------

TEXTS = ["\0", "\ud800", "../../etc/passwd", "x" * 300_000, "{}", "-1", "blake3:" + "0" * 64, " "]
OTHERS: list[Any] = [None, True, -1, 2**70, 1e308, [], [[]], {}, {"a": "b"}]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.prove), 4])
def test_attack_tool_arguments_crash_the_server(tmp_path: Path, step: int) -> None:
    """Every argument of every tool, as the owner: a result or a refusal, and no internal error.

    Each value of each argument, or a fourth of them, other ones for the next argument.
    """
    canaries_in(tmp_path)
    usual: dict[str, dict[str, Any]] = {
        "remember": {"text": "x"},
        "recall": {"query": "canary"},
        "list": {},
        "show": {"id": "x"},
        "update": {"id": "x"},
        "forget": {"ids": ["x"]},
        "rehydrate": {"task": "x"},
        "list_banks": {},
        "verify_memory": {},
        "pam_export_memory": {},
        "pam_import_memory": {"artifact": "eHg="},
        "memory": {"command": "view", "path": "/memories"},
        "session_fork": {"session": "x"},
    }
    values = [*TEXTS, *OTHERS]
    wrong, number, turn = list[str](), 0, 0
    with running_gateway() as served:
        client = served.client()
        for tool in _call(client, "tools/list", {})["result"]["tools"]:
            for argument in tool["inputSchema"]["properties"]:
                turn += 1
                for value in values[turn % step :: step]:
                    said = {"bank": OWN, **usual[tool["name"]], argument: value}
                    if "bank" not in tool["inputSchema"]["properties"]:
                        del said["bank"]
                    answer = _call(client, "tools/call", {"name": tool["name"], "arguments": said})
                    number += 1
                    told = json.dumps(answer)
                    if "internal" in told or "Traceback" in told or str(tmp_path) in told:
                        wrong.append(f"{tool['name']} {argument}={value!r:.40}: {told[:200]}")
    assert wrong == []
    assert number > 300 // step


def _call(client: TestClient, method: str, params: dict[str, Any]) -> dict[str, Any]:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    text = json.dumps(body).encode("utf-8", "surrogatepass")
    headers = {**MCP, "Content-Type": "application/json"}
    answer = client.post("/mcp", content=text, headers=headers)
    if answer.headers["Content-Type"].startswith("text/event-stream"):
        line = next(one for one in answer.text.splitlines() if one.startswith("data: "))
        found: dict[str, Any] = json.loads(line[6:])
        return found
    assert answer.status_code < 500, answer.text
    plain: dict[str, Any] = answer.json()
    return plain


# -- an object store of an attacker -----------------------------------------------------------

NAMES = [
    "../evil.txt",
    "/evil.txt",
    "a/../../evil.txt",
    "a\0b.txt",
    "audit/../../evil.txt",
    "..",
    ".",
]


@pytest.mark.parametrize("name", NAMES)
def test_attack_object_names_lead_out_of_the_folder(name: str, tmp_path: Path) -> None:
    """Anyone who can write to the object store can choose such a name."""
    root = f"sqlite://{tmp_path}/far/files.db"
    with MemoryStore.get_or_create("k", "o", "p", "d", storage_root=root) as store:
        store.write_text("a.txt", "mine")
        store.save()
    place = file_storage(MemoryStore.remote_path_for_key("k", "o", "p", "d", storage_root=root))
    assert isinstance(place, RemoteFileStorage)
    database = tmp_path / "far" / "files.db"
    connection = apsw.Connection(str(database))
    ((known,),) = connection.execute("SELECT name FROM object ORDER BY 1 LIMIT 1")
    start = known[: known.index("/k/") + 3]
    connection.execute("INSERT INTO object VALUES (?, 99, ?)", (start + name, b"evil"))
    connection.close()
    before = {path for path in tmp_path.rglob("*") if "far" not in path.parts}
    listed = list[str]()
    with (
        suppress(SatchelError),  # refused is as good
        MemoryStore.get_or_create("k", "o", "p", "d", storage_root=root) as store,
    ):
        listed = [*store.list_paths(), *(one.name for one in store.root.parent.iterdir())]
    assert not [path for path in listed if "evil" in path]
    after = {path for path in tmp_path.rglob("*") if "far" not in path.parts}
    assert not [path for path in after - before if "evil" in path.name]
    assert not Path("/evil.txt").exists()


# -- a folder of notes from an unknown author -------------------------------------------------


def _linked(folder: Path) -> None:
    (folder / "secret.md").symlink_to(folder.parent / "secret.txt")


def _above(folder: Path) -> None:
    (folder / "more").symlink_to(folder.parent)


def _pipe(folder: Path) -> None:
    os.mkfifo(folder / "pipe.md")


def _loop(folder: Path) -> None:
    (folder / "loop").symlink_to(folder)


@pytest.mark.parametrize("trap", [_linked, _above, _pipe, _loop])
@pytest.mark.timeout(60)
def test_attack_a_folder_of_notes_links_to_other_files(
    trap: Callable[[Path], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Links to files outside, a pipe, a link to itself: nothing is read through them."""
    (tmp_path / "secret.txt").write_text("the safe is behind the stove")
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "MEMORY.md").write_text("# Memory\n\n- a wren\n")
    trap(folder)
    run(["import", str(folder), "--bank", "notes", "--json"])
    capsys.readouterr()
    with Satchel.open() as satchel:
        for bank in satchel.list_banks():
            found = [one.text for one in satchel.bank(bank.id).list()]
            assert "the safe is behind the stove" not in found
            assert set(found) <= {"a wren"}


# -- a store mixed from two versions -----------------------------------------------------------


def test_attack_an_older_store_is_combined_with_a_newer_wal(tmp_path: Path) -> None:
    """The mixture is refused."""
    settings = load_settings()
    store = Path(settings.store)
    with filled() as bank:
        keep(bank, "first")
    older = tmp_path / "older.db"
    shutil.copy(store, older)
    with filled() as bank:
        keep(bank, "second")
        keep(bank, "third")
        log = store.with_name(store.name + "-wal")
        newer = log.read_bytes() if log.exists() else b""
    shutil.copy(older, store)
    if newer:
        log.write_bytes(newer)
    served = list[list[str | None]]()
    with suppress(SatchelError), open_bank(settings) as bank:
        served.append(texts(bank))
    assert served in ([], [["third", "second", "first"]])
