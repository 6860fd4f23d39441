"""``-`` as the output: the document alone is on standard output, the report on standard error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from whole_agents_kit import agent_file

from satchel.config.settings import load_settings
from satchel.transfer.verification import verify

if TYPE_CHECKING:
    from tests.cli.conftest import CommandResult, Run

_ADA = "Ada is allergic to hazelnuts"


@pytest.fixture
def memory(satchel: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The id of a memory in the bank `b`; the working directory is empty."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return str(satchel("remember", _ADA, "--bank", "b", "--json").json["id"])


def _alone(ran: CommandResult) -> Any:
    """Return the document on standard output, beside which no file was made."""
    assert ran.status == 0, ran.err
    assert list(Path.cwd().iterdir()) == []
    return json.loads(ran.out)


def _verifies(path: Path, text: str) -> None:
    path.write_text(text)
    found = verify(path, load_settings())
    assert found.outcome.value in ("good", "trusted", "valid"), found


@pytest.mark.parametrize("more", [(), ("--json",)])
@pytest.mark.usefixtures("memory")
def test_the_configuration_of_a_bank_is_written_to_standard_output(
    satchel: Run, more: tuple[str, ...]
) -> None:
    """It is the same document as in a file; the report goes to standard error."""
    assert satchel("bank", "config", "set", "b", "recall_limit=20").status == 0
    ran = satchel("bank", "config", "export", "b", "-", *more)
    assert "recall_limit" in json.dumps(_alone(ran))
    assert '"output": "-"' in ran.err if more else ran.err == ""
    assert satchel("bank", "config", "export", "b", "c.json").status == 0
    assert Path("c.json").read_text() == ran.out


@pytest.mark.parametrize("more", [(), ("--json",)])
@pytest.mark.usefixtures("memory")
def test_memory_files_are_written_to_standard_output(satchel: Run, more: tuple[str, ...]) -> None:
    """The report says how many, on standard error."""
    assert satchel("file", "write", "user/a.md", "likes tea\n").status == 0
    ran = satchel("file", "export", *more)
    (found,) = _alone(ran)["data"]
    assert (found["path"], found["content"]) == ("/user/a.md", "likes tea\n")
    assert "moved" in ran.err


@pytest.mark.parametrize("more", [(), ("--json",)])
@pytest.mark.usefixtures("memory")
def test_an_agent_is_written_to_standard_output(
    satchel: Run, tmp_path: Path, more: tuple[str, ...]
) -> None:
    """As an agent file where no format is named, and what was written can be imported."""
    source = agent_file(tmp_path / "first.agent.json")
    brought = satchel("agent", "import", "--no-embed", "--json", source)
    name = brought.json["agent"]
    ran = satchel("agent", "export", name, "--output", "-", *more)
    document = _alone(ran)
    assert document["nous"]["id"] == json.loads(source.read_bytes())["nous"]["id"]
    assert name in ran.err
    again = tmp_path / "again.agent.json"
    again.write_text(ran.out)
    words = ("--on-conflict", "rename", "--dry-run")
    assert satchel("agent", "import", "--no-embed", *words, again).status == 0


@pytest.mark.usefixtures("memory")
def test_a_sealed_agent_is_written_to_standard_output(satchel: Run, tmp_path: Path) -> None:
    """In the format that is named."""
    source = agent_file(tmp_path / "first.agent.json")
    name = satchel("agent", "import", "--no-embed", "--json", source).json["agent"]
    ran = satchel("agent", "export", name, "--output", "-", "--to", "pam_jsonl")
    assert ran.status == 0
    assert all(json.loads(line) for line in ran.out.splitlines())
    _verifies(tmp_path / "a.pam.jsonl", ran.out)


@pytest.mark.usefixtures("memory")
def test_an_agent_for_amplihack_is_written_to_standard_output(satchel: Run) -> None:
    """`memory export`: it is its JSON, the report is beside it."""
    shown = satchel("amplihack", "export", "--agent", "b", "--output", "-")
    document = _alone(shown)
    assert document["agent_name"] == "b"
    assert _ADA in json.dumps(document)
    assert "Exported memory" in shown.err


def test_a_disclosure_is_written_to_standard_output(
    satchel: Run, memory: str, tmp_path: Path
) -> None:
    """It verifies without the bank."""
    ran = satchel("disclose", "--entry", memory, "--bank", "b", "--output", "-")
    assert (ran.status, list(Path.cwd().iterdir())) == (0, [])
    _verifies(tmp_path / "d.pam", ran.out)


@pytest.mark.usefixtures("memory")
def test_the_revocations_of_tokens_are_written_to_standard_output(satchel: Run) -> None:
    """The signed list alone is on standard output."""
    ran = satchel("token", "revocations", "--bank", "b", "--output", "-")
    assert "0 revoked" in ran.err
    assert _alone(ran)["format"] == "satchel-revocations/1"


def test_what_was_redacted_is_recovered_to_standard_output(satchel: Run, memory: str) -> None:
    """`-` and no name are the same; an age file needs a file."""
    words = ("redact", memory, "--field", "/text", "--bank", "b", "--recover-for", "default")
    assert satchel(*words).status == 0
    ran = satchel("recover", memory, "--bank", "b", "--output", "-")
    assert _alone(ran)["text"] == _ADA
    assert satchel("recover", memory, "--bank", "b").out == ran.out
    assert satchel("recover", memory, "--bank", "b", "--sealed").status == 2


def test_nothing_is_printed_of_a_file_that_was_not_finished(satchel: Run) -> None:
    """An error is no document."""
    for words in (("bank", "config", "export", "none", "-"), ("agent", "export", "x", "-o", "-")):
        ran = satchel(*words)
        assert (ran.status != 0, ran.out) == (True, "")
