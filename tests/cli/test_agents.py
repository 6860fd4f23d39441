"""``satchel agent``: import of agents with conflicts and with active files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from whole_agents_kit import agent_file

if TYPE_CHECKING:
    from tests.cli.conftest import Run

IMPORT = ("agent", "import", "--no-embed", "--json")


@pytest.fixture
def second_file(satchel: Run, tmp_path: Path) -> Path:
    """Another file of an agent that already exists."""
    first = agent_file(tmp_path / "first.agent.json")
    assert satchel(*IMPORT, first).status == 0
    vectors = [{"id": "n1", "text": "The printer is upstairs.", "metadata": {}}]
    memory = {"vectors": vectors, "graph": {"nodes": [], "edges": []}}
    return agent_file(tmp_path / "again.agent.json", memory=memory)


def agents(satchel: Run) -> dict[str, str]:
    """Return the banks of the agents by their ids."""
    return {one["id"]: one["bank"] for one in satchel("agent", "list", "--json").json["agents"]}


@pytest.mark.parametrize(
    ("how", "status", "expected"),
    [
        ("prompt", 1, {0: "{0}"}),
        ("fail", 1, {0: "{0}"}),
        ("rename", 0, {0: "{0}", 2: "{0}-2"}),
        ("overwrite", 0, {0: "{0}-2"}),
        ("merge", 0, {0: "{0}"}),
    ],
)
def test_an_existing_agent_is_handled_by_on_conflict(
    satchel: Run, second_file: Path, how: str, status: int, expected: dict[int, str]
) -> None:
    """All five policies without a terminal; ``undo`` reverts the import in one step."""
    before = agents(satchel)
    (agent,) = before
    done = satchel(*IMPORT, second_file, "--on-conflict", how)
    assert done.status == status
    wanted = {f"{agent}-{number}" if number else agent: name for number, name in expected.items()}
    assert agents(satchel) == {one: name.format(agent) for one, name in wanted.items()}
    if status:
        assert "--on-conflict" in done.err
        return
    assert done.json["how"] == how
    bank = done.json["bank"]
    assert "The printer is upstairs." in satchel("list", "--bank", bank).out
    assert (
        satchel(*IMPORT, second_file, "--on-conflict", how, "--name", done.json["agent"]).json["how"]
        == "known"
    )
    assert satchel("undo", "--bank", bank).status == 0
    assert agents(satchel) == before
    assert "The printer is upstairs." not in satchel("list", "--bank", bank).out


def test_agent_import_prompts_only_at_a_terminal(
    satchel: Run, second_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An invalid answer, and no answer, change nothing."""
    (agent,) = agents(satchel)

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    bring = ("agent", "import", "--no-embed", second_file)
    for answer, number in (("\n", 1), ("no idea\n", 1), ("rename\n", 2)):
        monkeypatch.setattr("sys.stdin", Terminal(answer))
        monkeypatch.setattr("sys.stderr", Terminal())
        assert (satchel(*bring).status == 0) is (number == 2)
        assert len(agents(satchel)) == number
    assert f"{agent}-2" in agents(satchel)
    monkeypatch.setattr("sys.stdin", Terminal("overwrite\n"))
    assert satchel(*bring, "--json").status == 1  # a program reads what is printed
