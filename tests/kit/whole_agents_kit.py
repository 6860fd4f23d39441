"""An agent of a test's home: settings, files, memory and sessions."""

import json
from pathlib import Path
from typing import Any

from bank_kit import filled, keep, owner

from satchel.agents.export import AgentExportOptions, AgentExportResult, export_agent
from satchel.agents.imports import AgentImportOptions, AgentImportResult, import_agent, undo
from satchel.bank.banks import create_bank
from satchel.bank.open_bank import open_bank
from satchel.config.files import to_toml
from satchel.config.settings import Settings, load_settings
from satchel.crypto.sealed_records import Sealed
from satchel.model.text import Message, Note, SessionChange
from satchel.sessions.drafts import LogHead, Recorder, new_session
from satchel.sessions.elements import Tip
from satchel.transfer.imports import UndoResult

SAMPLES = Path(__file__).parent.parent / "data" / "formats" / "aletheia"
CONFIG = {"domains": ["tea"], "limits": {"turns": 7}, "private": True}


def settings() -> Settings:
    """Return the current settings of the configuration file."""
    return load_settings()


def undo_import_into(bank: str, source: str | None = None) -> UndoResult:
    """Undo an import into a bank, the last one by default."""
    with open_bank(settings(), bank, writes=True) as opened:
        return undo(opened, source)


def configured(agent: str, **said: Any) -> Path:
    """Configure an agent in the default configuration file; return the file."""
    file = settings().file
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("# by hand\n\n" + to_toml({"agents": {agent: said}}))
    return file


def workspace(folder: Path, **files: str | bytes) -> Path:
    """Create files; ``__`` in a name stands for a slash, ``_`` before a suffix for a dot."""
    for name, content in files.items():
        path = folder / name.replace("__", "/").replace("_md", ".md").replace("_bin", ".bin")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def talk(*texts: str, name: str = "main", distilled_after: int = 0) -> list[Sealed]:
    """Return the records of a session: messages, other changes, one distillation."""
    start = new_session(name)
    recorder = Recorder(Tip(start.id, start.id))
    head = LogHead(size=1, root="blake3:" + "0" * 64)
    records = [start]
    for number, text in enumerate(texts, 1):
        records.append(recorder.message(Message(role="user", content=text)))
        if number == distilled_after:
            changed = SessionChange(thread_summary="so far", working_state={"at": number})
            records.append(recorder.change(changed))
            records.append(recorder.checkpoint(head, distillation={"number": 1}))
    note = Note(content="Buy ice", category="task")
    records.append(recorder.change(SessionChange(note=note, working_state={"task": "tea"})))
    return records


def syn(folder: Path, *talks: list[Sealed], **more: Any) -> Path:
    """Create an agent with two memories, some files and sessions; return its workspace."""
    files = workspace(folder / "syn", SOUL_md="Be kind.\n", notes__tea_md="Grünes für Gäste\n")
    configured("syn", name="Syn", model="small-1", workspace=str(files), config=CONFIG, **more)
    create_bank(settings(), "syn", owner())
    with filled("syn") as bank:
        first = keep(bank, "Guests get green tea.", tags=["tea"], metadata={"cups": 2})
        keep(bank, "So there is ice in summer.", parents=[first])
        for records in talks or (talk("hello", "which tea?"),):
            bank.ledger.append(records)
    return files


def leave(agent: str, output: Path, **options: Any) -> AgentExportResult:
    """Export an agent."""
    return export_agent(settings(), agent, output, AgentExportOptions(**options))


def arrive(source: Path, **options: Any) -> AgentImportResult:
    """Import an agent."""
    options.setdefault("embed", False)
    return import_agent(settings(), source, owner, AgentImportOptions(**options))


def written(path: Path) -> Any:
    """Return the content of an agent file."""
    return json.loads(path.read_bytes())


def agent_file(path: Path, **changed: Any) -> Path:
    """Write a small agent file with some members changed."""
    value = json.loads((SAMPLES / "good-small.agent.json").read_bytes())
    path.write_text(json.dumps({**value, **changed}))
    return path


def without_ids(value: Any) -> Any:
    """Return the content of an agent file, without IDs and times of a transfer."""
    names = dict[str, str]()

    def renamed(part: Any) -> Any:
        if isinstance(part, str):
            for start in sorted(names, key=len, reverse=True):
                part = part.replace(start, names[start])
            return part
        if isinstance(part, list):
            return [renamed(one) for one in part]
        if isinstance(part, dict):
            return {key: renamed(one) for key, one in part.items()}
        return part

    value = json.loads(json.dumps(value))
    for edge in value["memory"]["graph"]["edges"]:
        edge.get("record", {}).get("origin", {}).pop("id", None)
        if edge.get("record") == {"origin": {}}:
            del edge["record"]
    sessions = [value["sessions"]["primary"], *value["sessions"].get("others", [])]
    rows = [*value["memory"]["vectors"], *value["memory"]["graph"]["nodes"]]
    for place, row in enumerate([*rows, *(one for one in sessions if one)]):
        names[row["id"]] = f"#{place}"
    kept = {name: one for name, one in value.items() if name not in ("exportedAt", "generator")}
    kept["nous"] = {k: v for k, v in value["nous"].items() if k not in ("id", "cameFrom")}
    for one in kept["sessions"]["background"]:
        one.pop("lastActivity", None)
    return renamed(kept)
