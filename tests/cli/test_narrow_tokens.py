"""Every command with a token that does not allow it: refused, and nothing told or changed."""

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from canary_kit import OTHER, OWN, Canaries, filled, store_bytes

import satchel as package
from satchel.cli import main
from satchel.cli._console import state

if TYPE_CHECKING:
    from tests.cli.conftest import Run

COMMANDS = json.loads((Path(package.__file__).parent / "cli" / "commands.json").read_text())

FOR_ANYBODY = {
    "completion": "a script, the same for everybody",
    "config show": "settings that the process has read for itself",
    "convert": "files of the caller's",
    "decrypt": "files of the caller's",
    "encrypt": "files of the caller's",
    "formats": "what the program can read",
    "inspect": "a file of the caller's",
    "mcp": "its tools ask, each for itself",
    "token attenuate": "a part of the holder's own token",
    "token inspect": "a token says what it allows to whoever has it",
    "verify": "a file of the caller's",
}
"""Commands that need no permission of a bank, with the reason."""

MORE = {
    "bank delete": ["--yes"],
    "code query": ["--name", "x"],
    "erase": ["--yes"],
}
"""What a command needs besides its arguments to do something."""

FILES = {
    "in.json": '[{"id": "1", "memory": "a wren"}]',
    "files.json": '[{"path": "/a.md", "content": "a wren"}]',
    "talk.json": '{"role": "user", "content": "a wren"}',
}


def line(name: str, canaries: Canaries, folder: Path, bank: str | None) -> list[str]:
    """Return a command line of a command that would do something for the owner."""
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
    return [*name.split(), *words, *flags, *MORE.get(name, ()), "--json"]


@pytest.fixture
def canaries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Canaries:
    """Two banks, and a folder with a file for the commands that read one."""
    folder = tmp_path / "work"
    (folder / "synced").mkdir(parents=True)
    for name, text in FILES.items():
        (folder / name).write_text(text)
    monkeypatch.chdir(folder)
    return filled(tmp_path)


def every_command() -> list[str]:
    """Return the commands, groups left out."""
    return [name for name, said in COMMANDS.items() if not said.get("is_group")]


def run_with(satchel: "Run", token: Path, words: list[str], patch: pytest.MonkeyPatch) -> Any:
    """Run a command by a token, with what a host would say on its standard input."""
    said = b'{"session_id": "s1", "output": "a wren"}' if words[0] == "hook" else b""
    patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(said)))
    return satchel("--token", token, *words)


def told(ran: Any, canaries: Canaries) -> list[str]:
    """Return what an answer tells that the caller did not say."""
    return [each for each in canaries.secrets if each in ran.out]


@pytest.mark.timeout(300)
def test_a_token_to_redact_is_refused_by_every_other_command(
    satchel: "Run", canaries: Canaries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Status 3, no word on standard output, and not a byte of the store changed."""
    before, wrong = store_bytes(), list[str]()
    for name in every_command():
        if name in FOR_ANYBODY or name == "redact":
            continue
        words = line(name, canaries, tmp_path / "work", None)
        ran = run_with(satchel, canaries.tokens["redacts"], words, monkeypatch)
        if ran.status != 3 or ran.out or ran.error["code"] != "permission.refused":
            wrong.append(f"{' '.join(words)}: {ran.status} {ran.out[:200]} {ran.err[:200]}")
    assert "\n".join(wrong) == ""
    assert store_bytes() == before
    assert sorted(each.name for each in (tmp_path / "work").iterdir()) == sorted([*FILES, "synced"])


@pytest.mark.timeout(300)
@pytest.mark.parametrize("bank", [None, OWN, OTHER])
def test_a_token_for_another_part_learns_nothing_by_any_command(
    satchel: "Run",
    canaries: Canaries,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    bank: str | None,
) -> None:
    """It may do everything, with memories that are not there. Also where another bank is named."""
    before, wrong = store_bytes(), list[str]()
    for name in every_command():
        words = line(name, canaries, tmp_path / "work", bank)
        ran = run_with(satchel, canaries.tokens["elsewhere"], words, monkeypatch)
        if name not in FOR_ANYBODY and told(ran, canaries):
            wrong.append(f"{' '.join(words)}: {ran.out[:300]}")
        if "Traceback" in ran.err:
            wrong.append(f"{' '.join(words)}: {ran.err[:300]}")
    assert "\n".join(wrong) == ""
    assert store_bytes() == before


def test_attack_a_comparison_reveals_no_bank_with_the_same_name(
    satchel: "Run", canaries: Canaries, tmp_path: Path
) -> None:
    """``diff`` answered "no such bank", "not yours", or the IDs of both, whichever it was."""
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


def test_attack_a_shell_completes_nothing_of_the_owners_to_a_holder(
    satchel: "Run", canaries: Canaries, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Completion lists names of banks, keys and destinations, for whoever owns them."""
    assert satchel("config", "show", "--json").status == 0
    assert OTHER in main.values_of("bank")
    assert "holder" in main.values_of("key")
    monkeypatch.setenv("SATCHEL_TOKEN", str(canaries.tokens["elsewhere"]))
    assert satchel("config", "show", "--json").status == 0
    assert state.settings.token is not None
    for kind in ("bank", "key", "destination"):
        assert main.values_of(kind) == []
