"""Export of a whole agent to one file: contents, limits, omissions and the report on them."""

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from bank_kit import filled, owner
from sessions_kit import say
from whole_agents_kit import (
    CONFIG,
    arrive,
    configured,
    leave,
    settings,
    syn,
    talk,
    workspace,
    written,
)

from satchel.agents.agents import list_agents, show_agent
from satchel.agents.export import TAIL
from satchel.agents.workspace import WorkspaceRules
from satchel.errors import ConfigError, PathRefusedError, UnknownAgentError, UsageError
from satchel.sessions.distillation import distill
from satchel.sessions.queries import list_sessions
from satchel.transfer.export_records import ExportOptions

SECRET = "AKIA" + "IOSFODNN7EXAMPLQ"


def omitted(report: dict[str, Any], section: str) -> dict[str, int]:
    """Return the counts of omitted items of a section by reason."""
    found = [one for one in report["omittedSections"] if one["section"] == section]
    return {one["reason"]: one["count"] for one in found}


def test_an_agent_file_has_the_members_of_version_1(tmp_path: Path) -> None:
    """With the agent's own data."""
    syn(tmp_path)
    done = leave("syn", tmp_path / "syn.agent.json")
    found = written(tmp_path / "syn.agent.json")
    assert found["version"] == 1
    assert found["nous"] == {"id": "syn", "name": "Syn", "model": "small-1", "config": CONFIG}
    assert found["workspace"]["files"] == {
        "SOUL.md": "Be kind.\n",
        "notes/tea.md": "Grünes für Gäste\n",
    }
    assert [one["text"] for one in found["memory"]["vectors"]] == [
        "Guests get green tea.",
        "So there is ice in summer.",
    ]
    primary = found["sessions"]["primary"]
    assert [one["content"] for one in primary["messages"]] == ["hello", "which tea?"]
    assert primary["workingState"] == {"task": "tea"}
    assert [(one["content"], one["category"]) for one in primary["notes"]] == [("Buy ice", "task")]
    assert found["distillation"] == {"receipts": [], "reflections": []}
    assert found["exportMetadata"]["lossless"] is True
    assert done.lossless
    assert done.export.losses == []


def test_distilled_messages_are_replaced_by_their_summary(tmp_path: Path) -> None:
    """The file includes the receipt of the distillation."""
    syn(tmp_path, talk(*"abcdef", distilled_after=4))
    done = leave("syn", tmp_path / "syn.agent.json")
    found = written(tmp_path / "syn.agent.json")
    primary = found["sessions"]["primary"]
    assert [one["content"] for one in primary["messages"]] == ["e", "f"]
    assert primary["threadSummary"] == "so far"
    assert [one["number"] for one in found["distillation"]["receipts"]] == [1]
    cut = found["exportMetadata"]["truncations"]
    assert [(one["section"], one["original"]) for one in cut] == [("sessions.primary.messages", 6)]
    assert (done.messages, done.messages_there, done.lossless) == (2, 6, False)


def test_the_last_ten_receipts_are_exported_and_the_others_counted(tmp_path: Path) -> None:
    """Of distillations and of reflections; a copy continues the numbering."""
    syn(tmp_path, talk("hello"))
    with filled("syn") as bank:
        (session,) = list_sessions(bank)
        for number in range(12):
            say(bank, session.id, f"I live in town {number}.")
            distill(bank, session.id)
    leave("syn", tmp_path / "syn.agent.json")
    found = written(tmp_path / "syn.agent.json")
    assert [one["number"] for one in found["distillation"]["receipts"]] == [*range(3, 13)]
    cuts = {one["section"]: one for one in found["exportMetadata"]["truncations"]}
    cut = cuts["distillation.receipts"]
    assert (cut["original"], cut["kept"]) == (12, 10)
    assert not found["exportMetadata"]["lossless"]
    found["distillation"]["reflections"] = [{"id": f"r{number}"} for number in range(11)]
    (tmp_path / "more.agent.json").write_text(json.dumps(found))
    arrive(tmp_path / "more.agent.json", name="copy")
    with filled("copy") as bank:
        (session,) = list_sessions(bank)
        say(bank, session.id, "I live in Oslo.")
        assert distill(bank, session.id).number == 13
    leave("copy", tmp_path / "copy.agent.json")
    again = written(tmp_path / "copy.agent.json")
    assert [one["number"] for one in again["distillation"]["receipts"]] == [*range(4, 14)]
    assert [one["id"] for one in again["distillation"]["reflections"]] == [
        f"r{number}" for number in range(1, 11)
    ]
    cuts = {one["section"]: one for one in again["exportMetadata"]["truncations"]}
    assert cuts["distillation.receipts"]["original"] == 13
    assert cuts["distillation.reflections"]["original"] == 11


def test_500_messages_are_exported_by_default_and_all_with_full(tmp_path: Path) -> None:
    """The newest messages are exported."""
    texts = [f"m{number}" for number in range(TAIL + 20)]
    syn(tmp_path, talk(*texts))
    leave("syn", tmp_path / "tail.agent.json")
    done = leave("syn", tmp_path / "full.agent.json", full=True)
    tail, full = (
        [one["content"] for one in written(tmp_path / name)["sessions"]["primary"]["messages"]]
        for name in ("tail.agent.json", "full.agent.json")
    )
    assert tail == texts[20:]
    assert full == texts
    assert done.lossless


def test_other_recent_conversations_are_listed_or_exported_with_full(tmp_path: Path) -> None:
    """By key, number of messages and last activity."""
    syn(tmp_path, talk("hello"), talk("tick", "tock", name="cron"))
    done = leave("syn", tmp_path / "a.agent.json")
    leave("syn", tmp_path / "b.agent.json", full=True)
    short, full = (written(tmp_path / f"{name}.agent.json")["sessions"] for name in "ab")
    assert [(one["key"], one["messageCount"]) for one in short["background"]] == [("cron", 2)]
    assert "others" not in short
    assert [one["name"] for one in full["others"]] == ["cron"]
    assert omitted(done.report, "sessions") == {
        "mentioned, not included: active in the last 7 days": 1
    }


def test_text_files_are_recognized_by_content(tmp_path: Path) -> None:
    """Not by extension; other files are listed by name."""
    files = syn(tmp_path)
    workspace(files, a_bin=b"\x00\x01", b_bin="plain text")
    (files / "main.rs").write_text("fn main() {}")
    (files / "noname").write_bytes(b"\xff\xfe")
    leave("syn", tmp_path / "syn.agent.json")
    found = written(tmp_path / "syn.agent.json")["workspace"]
    assert {"main.rs", "b.bin"} <= {*found["files"]}
    assert found["binaryFiles"] == ["a.bin", "noname"]
    assert "binaryFileContents" not in found


def test_binary_files_are_exported_with_their_hashes_on_request(tmp_path: Path) -> None:
    """With size and SHA-256, also files of several chunks."""
    files, data = syn(tmp_path), bytes(range(256)) * 1500
    workspace(files, a_bin=data)
    done = leave("syn", tmp_path / "syn.agent.json", rules=WorkspaceRules(binary=True))
    (found,) = written(tmp_path / "syn.agent.json")["workspace"]["binaryFileContents"]
    assert found["sha256"] == hashlib.sha256(data).hexdigest()
    assert (found["path"], found["sizeBytes"]) == ("a.bin", len(data))
    assert done.export.losses == []


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (".env", "A=1"),
        (".env.production", "A=1"),
        ("deploy/id_ed25519", "x"),
        ("server.pem", "x"),
        (".netrc", "x"),
        (".ssh/config", "Host x"),
        ("notes.md", f"the key is {SECRET}"),
        ("blob.bin", b"\x00-----BEGIN PRIVATE KEY-----\x00"),
    ],
)
def test_files_with_secrets_are_omitted_and_reported(
    tmp_path: Path, name: str, content: str | bytes
) -> None:
    """By name or by content; the report has the path but not the content."""
    files = syn(tmp_path)
    path = files / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    done = leave("syn", tmp_path / "syn.agent.json", rules=WorkspaceRules(binary=True))
    text = (tmp_path / "syn.agent.json").read_text()
    left = name.split("/", maxsplit=1)[0] if name.startswith(".ssh") else name
    assert left in {one.path for one in done.left_out}
    assert name not in written(tmp_path / "syn.agent.json")["workspace"]["files"]
    assert SECRET not in text
    assert not done.lossless


def test_a_secret_in_the_agent_settings_is_replaced_and_reported(tmp_path: Path) -> None:
    """Credentials of the program that runs an agent are not the agent's memory."""
    files = syn(tmp_path)
    configured("syn", workspace=str(files), config={"aws": SECRET})
    done = leave("syn", tmp_path / "syn.agent.json")
    assert SECRET not in (tmp_path / "syn.agent.json").read_text()
    assert omitted(done.report, "nous.config") == {"secrets in its settings (replaced)": 1}


def test_symbolic_links_are_listed_and_never_followed(tmp_path: Path) -> None:
    """To a file and to a folder."""
    files = syn(tmp_path)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.md").write_text("not mine")
    (files / "folder").symlink_to(tmp_path / "outside")
    (files / "passwd").symlink_to("/etc/passwd")
    done = leave("syn", tmp_path / "syn.agent.json")
    found = written(tmp_path / "syn.agent.json")["workspace"]
    assert [one["path"] for one in found["symlinks"]] == ["folder", "passwd"]
    assert {*found["files"]} == {"SOUL.md", "notes/tea.md"}
    assert omitted(done.report, "workspace") == {"a symbolic link (reported, not followed)": 2}


def test_a_workspace_that_is_a_symbolic_link_is_refused(tmp_path: Path) -> None:
    """Its target may change before it is read."""
    files = syn(tmp_path)
    (tmp_path / "link").symlink_to(files)
    configured("syn", workspace=str(tmp_path / "link"))
    with pytest.raises(PathRefusedError):
        leave("syn", tmp_path / "syn.agent.json")
    assert not (tmp_path / "syn.agent.json").exists()


def test_ignored_and_oversized_files_are_omitted_and_counted(tmp_path: Path) -> None:
    """By reason."""
    files = syn(tmp_path)
    workspace(files, draft_md="x", node_modules__a_md="x", big_md="y" * 2000)
    (files / ".gitignore").write_text("draft.md\n")
    done = leave("syn", tmp_path / "syn.agent.json", rules=WorkspaceRules(file_bytes=1000))
    assert omitted(done.report, "workspace") == {"ignored": 2, "larger than 1,000 bytes": 1}
    done = leave("syn", tmp_path / "b.agent.json", rules=WorkspaceRules(files=1, total_bytes=9))
    assert sum(omitted(done.report, "workspace").values()) >= 3


def test_a_gz_extension_compresses_the_agent_file(tmp_path: Path) -> None:
    """The contents are the same."""
    syn(tmp_path)
    leave("syn", tmp_path / "syn.agent.json.gz")
    data = gzip.decompress((tmp_path / "syn.agent.json.gz").read_bytes())
    assert json.loads(data)["nous"]["id"] == "syn"


def test_an_agent_is_exported_to_a_signed_artifact(tmp_path: Path) -> None:
    """It verifies and has the files and conversations as records."""
    syn(tmp_path)
    done = leave("syn", tmp_path / "syn.pam", export=ExportOptions(key=owner()))
    assert done.export.read_back == "good"
    assert done.export.records["files"] == 2
    assert done.export.records["sessions"] == 4


def test_an_unknown_agent_or_format_is_refused(tmp_path: Path) -> None:
    """The error names it."""
    syn(tmp_path)
    with pytest.raises(UnknownAgentError, match="nobody"):
        leave("nobody", tmp_path / "x.agent.json")
    with pytest.raises(UsageError, match="whole agent"):
        leave("syn", tmp_path / "x.mem0.json")


def test_agents_are_listed_with_their_bank_and_workspace(tmp_path: Path) -> None:
    """Active means not archived; a missing bank is reported."""
    files = syn(tmp_path)
    (line,) = list_agents(settings())
    assert (line.id, line.name, line.bank, line.workspace) == ("syn", "Syn", "syn", str(files))
    assert show_agent(settings(), "syn").config == CONFIG
    configured("old", archived=True)
    (line,) = list_agents(settings())
    assert line.archived
    assert line.problem is not None


def test_a_relative_workspace_path_is_refused(tmp_path: Path) -> None:
    """It would depend on the working directory."""
    syn(tmp_path)
    configured("syn", workspace="files")
    with pytest.raises(ConfigError, match="absolute"):
        leave("syn", tmp_path / "x.agent.json")
