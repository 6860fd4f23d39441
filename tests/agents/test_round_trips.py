"""Export, import, export: equal for every field but ids and times of the transfer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
from bank_kit import filled, keep
from hypothesis import given
from hypothesis import strategies as st
from sessions_kit import say
from whole_agents_kit import (
    SAMPLES,
    arrive,
    leave,
    settings,
    syn,
    talk,
    without_ids,
    workspace,
    written,
)

from satchel.agents.workspace import WorkspaceRules
from satchel.bank.open_bank import OpenBank, open_bank
from satchel.conformance.strategies import json_objects
from satchel.errors import EmptyInputError
from satchel.model.text import Note, SessionChange
from satchel.sessions.branches import archive_session, create_checkpoint, fork, rename_session
from satchel.sessions.distillation import distill
from satchel.sessions.record import record

if TYPE_CHECKING:
    from pathlib import Path

ALL = WorkspaceRules(binary=True)
STEPS = st.tuples(
    st.sampled_from(["say", "state", "note", "point", "fork", "distill", "rename", "archive"]),
    st.integers(0, 3),
    st.sampled_from(["I live in Oslo.", "We decided to go.", "x", "\u2603 \x1b[1m", "TODO: a"]),
)


def copies(folder: Path, **options: Any) -> list[Any]:
    """Export an agent, and a copy of it, and a copy of that; return what the files say."""
    for agent, copy in (("syn", "copy"), ("copy", "third"), ("third", None)):
        leave(agent, folder / f"{agent}.agent.json", **options)
        if copy is not None:
            arrive(folder / f"{agent}.agent.json", name=copy)
    files = (folder / f"{agent}.agent.json" for agent in ("syn", "copy", "third"))
    return [without_ids(written(path)) for path in files]


def step(bank: OpenBank, names: list[str], what: str, which: int, text: str) -> None:
    """Do one thing with one of the conversations."""
    name = names[which % len(names)]
    if what == "say":
        say(bank, name, text, f"and {text}")
    elif what == "state":
        record(bank, name, [SessionChange(working_state={"at": text}, thread_summary=text)])
    elif what == "note":
        record(bank, name, [SessionChange(note=Note(content=text, category="task"))])
    elif what == "point":
        create_checkpoint(bank, name, name=text, at=None if which else "1")
    elif what == "fork":
        names.append(f"fork {len(names)}")
        fork(
            bank,
            name,
            name=names[-1],
            at=None if which else "1",
            memories="as-of" if which == 1 else "all",
        )
    elif what == "distill":
        try:
            distill(bank, name)
        except EmptyInputError:
            say(bank, name, text)
    elif what == "rename":
        names[names.index(name)] = f"renamed {len(names)} {which}"
        rename_session(bank, name, names[which % len(names)])
    else:
        archive_session(bank, name, restore=which % 2 == 0)


@pytest.mark.prove
@pytest.mark.timeout(900)
@hypothesis.settings(max_examples=15)
@given(
    texts=st.lists(st.text(max_size=20).filter(str.strip), min_size=1, max_size=3, unique=True),
    metadata=json_objects(),
    said=st.lists(st.text(max_size=20), min_size=1, max_size=4),
    steps=st.lists(STEPS, max_size=8),
    how=st.sampled_from(["short", "full"]),
)
def test_export_import_export_is_equal(
    tmp_path_factory: pytest.TempPathFactory,
    texts: list[str],
    metadata: dict[str, Any],
    said: list[str],
    steps: list[tuple[str, int, str]],
    how: str,
) -> None:
    """Whatever it remembers, said, went back to and forked; all of it, or the last of it."""
    folder = tmp_path_factory.mktemp("agents")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("SATCHEL_HOME", "SATCHEL_WITNESS", "XDG_CONFIG_HOME"):
            patch.setenv(name, str(folder / name))
        syn(folder, talk(*said, distilled_after=1))
        with filled("syn") as bank:
            for text in texts:
                keep(bank, text, metadata=metadata)
            names = ["main"]
            for one in steps:
                step(bank, names, *one)
        first, second, third = copies(folder, full=how == "full")
    if how == "full":
        assert second == first
    assert third == second


@pytest.mark.parametrize("fork_first", [False, True])
def test_a_checkpoint_of_an_earlier_message_is_in_the_fork_of_every_copy(
    tmp_path: Path, *, fork_first: bool
) -> None:
    """Created long after the message that it names: before the fork, or after it."""
    syn(tmp_path, talk("a", "b", distilled_after=1))
    with filled("syn") as bank:
        steps = [("point", 0, "at the first message"), ("fork", 1, "x"), ("rename", 0, "x")]
        names = ["main"]
        for each in (steps[1], steps[0], steps[2]) if fork_first else steps:
            step(bank, names, *each)

    first, second, third = copies(tmp_path, full=True)

    conversations = [first["sessions"]["primary"], *first["sessions"]["others"]]
    (forked,) = (row for row in conversations if "forkedFrom" in row)
    points = [moment.get("checkpoint", {}).get("name") for moment in forked["timeline"]]
    assert "at the first message" in points
    assert second == first
    assert third == first


@pytest.mark.parametrize("how", ["short", "full"])
def test_a_copy_of_a_copy_says_the_same(tmp_path: Path, how: str) -> None:
    """Also what was left out of the first file: that is missing in the copies as well."""
    files = syn(tmp_path, talk(*"abcdef", distilled_after=4), talk("tick", name="cron"))
    workspace(files, a_bin=b"\x00\x01", draft_md="x")
    (files / ".env").write_text("A=1")
    (files / ".gitignore").write_text("draft.md\n")
    first, second, third = copies(tmp_path, full=how == "full")
    assert second == first
    assert third == first
    assert first["workspace"]["binaryFiles"] == ["a.bin"]
    assert first["exportMetadata"]["lossless"] is False
    if how == "short":
        assert [one["key"] for one in first["sessions"]["background"]] == ["cron"]
        (cut,) = first["exportMetadata"]["truncations"]
        assert (cut["original"], cut["kept"], cut["itemId"]) == (6, 2, "#2")


@pytest.mark.parametrize("program", ["typescript", "rust"])
def test_an_agent_of_a_program_stays_what_it_is(tmp_path: Path, program: str) -> None:
    """Its first file as version 1, and those of copies, say the same."""
    arrive(SAMPLES / f"other-{program}.agent.json", name="syn")
    first, second, third = copies(tmp_path, full=True, rules=ALL)
    assert second == first
    assert third == first


def test_messages_after_the_cut_are_counted_with_those_before(tmp_path: Path) -> None:
    """A copy of a cut conversation goes on: the report still says how much is missing."""
    syn(tmp_path, talk(*"abcdef", distilled_after=4))
    leave("syn", tmp_path / "a.agent.json")
    arrive(tmp_path / "a.agent.json", name="copy")
    with open_bank(settings(), "copy", writes=True) as bank:
        say(bank, "main", "g")
    done = leave("copy", tmp_path / "b.agent.json", full=True)
    (cut,) = done.report["truncations"]
    assert (cut["original"], cut["kept"]) == (7, 3)
    assert not done.lossless
