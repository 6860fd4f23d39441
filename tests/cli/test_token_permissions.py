"""Commands with a token that does not allow them are refused, and reveal and change nothing."""

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from canary_kit import OTHER, OWN, Canaries, create_canaries, store_bytes

import satchel as package
from satchel.cli import main
from satchel.cli._console import state

if TYPE_CHECKING:
    from tests.cli.conftest import Run

COMMANDS = json.loads((Path(package.__file__).parent / "cli" / "commands.json").read_text())

UNRESTRICTED = {
    "completion": "a script, the same for every caller",
    "config show": "settings of the process",
    "convert": "files of the caller",
    "decrypt": "files of the caller",
    "encrypt": "files of the caller",
    "formats": "the known formats",
    "inspect": "a file of the caller",
    "mcp": "each tool checks its permission",
    "token attenuate": "a part of the holder's own token",
    "token inspect": "the content of the holder's own token",
    "verify": "a file of the caller",
}
"""Commands that need no permission, with the reason."""

EXTRA_OPTIONS = {
    "bank delete": ["--yes"],
    "code query": ["--name", "x"],
    "erase": ["--yes"],
}
"""Options without which a command does nothing."""

FILES = {
    "in.json": '[{"id": "1", "memory": "a wren"}]',
    "files.json": '[{"path": "/a.md", "content": "a wren"}]',
    "talk.json": '{"role": "user", "content": "a wren"}',
}


def command_line(name: str, canaries: Canaries, folder: Path, bank: str | None) -> list[str]:
    """Return a command line that would succeed for the owner."""
    values = {
        "agent": "canary",
        "backup": "latest",
        "backups": "latest",
        "bank": bank or OWN,
        "about": "canary",
        "audience": "holder",
        "file": str(folder / "in.json"),
        "from_store": str(folder / "from.db"),
        "host": "claude-code",
        "hosts": "claude-code",
        "input": str(folder / "in.json"),
        "into": OWN,
        "job": "0123456789abcdef",
        "key": "default",
        "name": "x",
        "new": "y.md",
        "old": "canary",
        "output": str(folder / "out.json"),
        "receipt": canaries.receipt,
        "recipients": "x",
        "session": canaries.session,
        "other": canaries.session,
        "shell": "bash",
        "source": str(folder / "in.json"),
        "superseded_before": "1d",
        "symbol": "x",
        "target": str(folder / "out.pam"),
        "text": "wren",
        "threshold": "1",
        "to_store": str(folder / "to.db"),
        "token": str(canaries.tokens["elsewhere"]),
        "values": "recall.limit=3",
        "version": "1",
        "data": str(folder / "in.json"),
        "destination": str(folder / "backups"),
        "a": bank or OWN,
        "b": OWN,
    }
    ids = dict.fromkeys(("memory", "memories", "ids", "start", "end", "entry_ids"), canaries.memory)
    special = {
        ("convert", "output"): str(folder / "converted.pam.jsonl"),
        ("key create", "name"): "made",
        ("key identity create", "name"): "made",
        ("key export", "name"): "default",
        ("key import", "file"): str(folder / "in.json"),
        ("key rotate", "name"): "default",
        ("key hand-over", "name"): "default",
        ("formats", "name"): "mem0",
        ("code index", "path"): str(folder),
        ("file import", "file"): str(folder / "files.json"),
        ("session record", "file"): str(folder / "talk.json"),
        ("file diff", "old"): "1",
        ("file diff", "new"): "1",
        ("file sync", "folder"): str(folder / "synced"),
        ("import", "path"): str(folder / "in.json"),
        ("inspect", "path"): str(folder / "in.json"),
        ("pull", "source"): str(folder / "from.db"),
        ("store copy", "target"): str(folder / "copied.db"),
        ("token revoke", "token"): "blake3:" + "0" * 64,
        ("undo", "source"): "blake3:" + "0" * 64,
        ("verify", "path"): str(folder / "in.json"),
    }
    skipped = {("rehydrate", "file"), ("file ls", "prefix"), ("file search", "prefix")}
    flags, words = list[str](), list[str]()
    for each in COMMANDS[name]["parameters"]:
        is_needed = each.get("is_required") or not each.get("flags")
        if "--bank" in each.get("flags", ()) and bank is not None:
            flags += [each["flags"][0], bank]
        elif is_needed and (name, each["name"]) not in skipped:
            usual = {"path": "canary.md", **values, **ids}
            value = special.get((name, each["name"]), usual.get(each["name"], ""))
            assert value, f"say what {name} gets for {each['name']}"
            if each.get("flags"):
                flags += [each["flags"][0], value]
            else:
                words.append(value)
    return [*name.split(), *words, *flags, *EXTRA_OPTIONS.get(name, ()), "--json"]


@pytest.fixture
def canaries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Canaries:
    """Two banks, and a folder with input files."""
    folder = tmp_path / "work"
    (folder / "synced").mkdir(parents=True)
    for name, text in FILES.items():
        (folder / name).write_text(text)
    monkeypatch.chdir(folder)
    return create_canaries(tmp_path)


def all_commands() -> list[str]:
    """Return the names of all commands, without groups."""
    return [name for name, said in COMMANDS.items() if not said.get("is_group")]


def run_with_token(satchel: "Run", token: Path, words: list[str], patch: pytest.MonkeyPatch) -> Any:
    """Run a command with a token, and with a host's input on standard input."""
    said = b'{"session_id": "s1", "output": "a wren"}' if words[0] == "hook" else b""
    patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(said)))
    return satchel("--token", token, *words)


def leaked(ran: Any, canaries: Canaries) -> list[str]:
    """Return the secrets in the output of a command."""
    return [each for each in canaries.secrets if each in ran.out]


@pytest.mark.timeout(300)
def test_a_token_to_redact_is_refused_by_every_other_command(
    satchel: "Run", canaries: Canaries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit status 3, an empty standard output, and an unchanged store."""
    before, wrong = store_bytes(), list[str]()
    for name in all_commands():
        if name in UNRESTRICTED or name == "redact":
            continue
        words = command_line(name, canaries, tmp_path / "work", None)
        ran = run_with_token(satchel, canaries.tokens["redacts"], words, monkeypatch)
        if ran.status != 3 or ran.out or ran.error["code"] != "permission.refused":
            wrong.append(f"{' '.join(words)}: {ran.status} {ran.out[:200]} {ran.err[:200]}")
    assert "\n".join(wrong) == ""
    assert store_bytes() == before
    assert sorted(each.name for each in (tmp_path / "work").iterdir()) == sorted([*FILES, "synced"])


@pytest.mark.in_check(1)
@pytest.mark.timeout(300)
@pytest.mark.parametrize("bank", [None, OWN, OTHER])
def test_a_token_for_other_memories_reveals_nothing_in_any_command(
    satchel: "Run",
    canaries: Canaries,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    bank: str | None,
) -> None:
    """It has all permissions, but for tags that no memory has; also with other banks named."""
    before, wrong = store_bytes(), list[str]()
    for name in all_commands():
        words = command_line(name, canaries, tmp_path / "work", bank)
        ran = run_with_token(satchel, canaries.tokens["elsewhere"], words, monkeypatch)
        if name not in UNRESTRICTED and leaked(ran, canaries):
            wrong.append(f"{' '.join(words)}: {ran.out[:300]}")
        if "Traceback" in ran.err:
            wrong.append(f"{' '.join(words)}: {ran.err[:300]}")
    assert "\n".join(wrong) == ""
    assert store_bytes() == before


def test_attack_diff_reveals_whether_a_bank_exists(
    satchel: "Run", canaries: Canaries, tmp_path: Path
) -> None:
    """``diff`` once distinguished unknown banks from banks without permission."""
    token = canaries.tokens["elsewhere"]
    (tmp_path / "work" / OTHER).write_text('[{"id": "1", "memory": "a wren"}]')
    errors = set[str]()
    for name in ("no bank", OTHER[:6], canaries.other, canaries.other[:20]):
        ran = satchel("--token", token, "diff", OWN, name, "--json")
        assert (ran.status, ran.out) != (0, ""), name
        errors.add(ran.err.replace(f"{name!r}", "NAME"))
    assert len(errors) == 1, errors
    ran = satchel("--token", token, "diff", OWN, OTHER, "--json")
    assert canaries.other not in ran.err + ran.out


def test_attack_completion_reveals_names_to_a_token_holder(
    satchel: "Run", canaries: Canaries, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Completion lists banks, keys and destinations for the owner only."""
    assert satchel("config", "show", "--json").status == 0
    assert OTHER in main.values_of("bank")
    assert "holder" in main.values_of("key")
    monkeypatch.setenv("SATCHEL_TOKEN", str(canaries.tokens["elsewhere"]))
    assert satchel("config", "show", "--json").status == 0
    assert state.settings.token is not None
    for kind in ("bank", "key", "destination"):
        assert main.values_of(kind) == []
