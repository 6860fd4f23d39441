"""Import of a whole agent from one file: new IDs, contained paths, all or nothing, undo."""

import json
from pathlib import Path
from typing import Any

import pytest
from bank_kit import owner, texts
from whole_agents_kit import (
    CONFIG,
    SAMPLES,
    agent_file,
    arrive,
    configured,
    leave,
    settings,
    syn,
    talk,
    undo_import_into,
    without_ids,
    workspace,
    written,
)

from satchel.agents.imports import OnAgent
from satchel.agents.workspace import WorkspaceRules
from satchel.bank.banks import list_banks
from satchel.bank.open_bank import open_bank
from satchel.config.files import with_table
from satchel.errors import (
    AgentExistsError,
    InputError,
    MalformedError,
    UnknownFormatError,
    UsageError,
)
from satchel.recall.duplicates import NearDuplicateMode
from satchel.sessions.chains import tip_of
from satchel.sessions.lookup import checkpoints, find, messages, sessions, state
from satchel.transfer.export_records import ExportOptions

ALL = WorkspaceRules(binary=True)


def bank_sizes() -> dict[str | None, int | None]:
    """Return the number of records of each bank."""
    return {one.name: one.records for one in list_banks(settings())}


def texts_in(bank: str) -> list[str | None]:
    """Return the texts of a bank's memories."""
    with open_bank(settings(), bank) as opened:
        return texts(opened)


def files_in(folder: Path) -> dict[str, bytes]:
    """Return the contents of the files below a folder by relative path."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.in_check(1)
@pytest.mark.parametrize("name", ["syn.agent.json", "syn.agent.json.gz", "syn.pam"])
def test_a_copy_is_complete_and_the_original_is_unchanged(tmp_path: Path, name: str) -> None:
    """Memory, conversations, files and settings; the source's log does not grow."""
    files = workspace(syn(tmp_path), a_bin=bytes(range(256)) * 2000)
    key = owner() if name.endswith(".pam") else None
    leave("syn", tmp_path / name, full=True, rules=ALL, export=ExportOptions(key=key))
    before = bank_sizes()["syn"], files_in(files)
    done = arrive(tmp_path / name, name="copy")
    assert (done.how, done.agent, done.came_as, done.bank) == ("new", "copy", "syn", "copy")
    assert texts_in("copy") == texts_in("syn")
    assert (bank_sizes()["syn"], files_in(files)) == before
    assert files_in(Path(str(done.files.folder))) == files_in(files)
    there = settings().options.agents["copy"]
    assert (there.name, there.model, there.config) == ("Syn", "small-1", CONFIG)
    assert done.memory is not None
    assert done.memory.losses == []


def test_import_assigns_new_ids_and_records_the_old_ones_as_origin(tmp_path: Path) -> None:
    """Of conversations and of memories; the result maps old to new."""
    syn(tmp_path)
    leave("syn", tmp_path / "syn.agent.json")
    done = arrive(tmp_path / "syn.agent.json", name="copy")
    ids, came = dict[str, set[str]](), set[str]()
    for bank in ("syn", "copy"):
        with open_bank(settings(), bank) as opened, opened.ledger.reading() as view:
            ids[bank] = {one.record.id for one in view.scan()}
            origins = [getattr(one.model, "origin", None) for one in view.scan()]
            came |= {one.id for one in origins if one is not None and bank == "copy"}
    assert not ids["syn"] & ids["copy"]
    assert came & ids["syn"]
    assert {*done.sessions} <= ids["syn"]
    assert {*done.sessions.values()} <= ids["copy"]


def test_imported_conversations_can_be_continued(tmp_path: Path) -> None:
    """Messages, state, summary, notes and checkpoints are restored."""
    syn(tmp_path, talk(*"abcdef", distilled_after=3))
    leave("syn", tmp_path / "syn.agent.json", full=True)
    arrive(tmp_path / "syn.agent.json", name="copy")
    with open_bank(settings(), "copy") as opened, opened.ledger.reading() as view:
        start = find(view, "main")
        last = tip_of(view, start).element
        element = view.get([last])[last]
        shown = sessions(view)[0]
        told = [one.content for one in messages(view, element)]
        now, (point,) = state(view, element), checkpoints(view, start)
        then = state(view, view.get([point.element])[point.element])
    assert told == list("fedcba")
    assert (shown.messages, shown.name, shown.distillations) == (6, "main", 1)
    assert now.working_state == {"task": "tea"}
    assert now.thread_summary == "so far"
    assert [note.content for note in now.notes] == ["Buy ice"]
    assert (point.number, then.working_state, then.notes) == (3, {"at": 3}, [])


@pytest.mark.parametrize("sample", ["whole", "small"])
def test_samples_are_equal_after_import_and_export(tmp_path: Path, sample: str) -> None:
    """Field by field, except for IDs and transfer times."""
    came = SAMPLES / f"good-{sample}.agent.json"
    done = arrive(came, name="a")
    leave("a", tmp_path / "out.agent.json", full=True, rules=ALL)
    before, after = without_ids(written(came)), without_ids(written(tmp_path / "out.agent.json"))
    after.pop("exportMetadata")
    assert {*done.files.not_in_file} == {*before["workspace"]["binaryFiles"]}
    for one in (before, after):  # the file has only their names
        one["workspace"]["binaryFiles"] = []
        one["sessions"].pop("background")
    assert after == before


def test_a_second_import_of_the_same_file_changes_nothing(tmp_path: Path) -> None:
    """The result reports a known file."""
    syn(tmp_path)
    leave("syn", tmp_path / "syn.agent.json")
    arrive(tmp_path / "syn.agent.json", name="copy")
    before = bank_sizes()
    done = arrive(tmp_path / "syn.agent.json", name="copy")
    assert (done.how, done.memory) == ("known", None)
    assert bank_sizes() == before


def test_an_existing_agent_is_an_error_without_a_conflict_policy(tmp_path: Path) -> None:
    """The error lists the policies; with a terminal the caller is asked."""
    syn(tmp_path)
    leave("syn", tmp_path / "syn.agent.json")
    before = bank_sizes()
    with pytest.raises(AgentExistsError, match="already") as refusal:
        arrive(tmp_path / "syn.agent.json")
    assert "--on-conflict" in str(refusal.value.hint)
    assert bank_sizes() == before
    asked: list[str] = []

    def ask(name: str) -> OnAgent:
        asked.append(name)
        return OnAgent.RENAME

    done = arrive(tmp_path / "syn.agent.json", ask=ask)
    assert (asked, done.agent) == (["syn"], "syn-2")


def test_overwrite_keeps_the_previous_agent_for_undo(tmp_path: Path) -> None:
    """It uses a new bank and workspace; undo restores the old ones."""
    files = syn(tmp_path)
    file = agent_file(
        tmp_path / "new.agent.json",
        nous={"id": "syn", "name": "New", "model": "m2", "config": {}},
        workspace={"files": {"NEW.md": "new"}, "binaryFiles": []},
    )
    done = arrive(file, on_conflict=OnAgent.OVERWRITE)
    there = settings().options.agents["syn"]
    assert (there.name, there.bank, there.model) == ("New", "syn-2", "m2")
    assert files_in(files) == {"NEW.md": b"new"}
    assert {*texts_in("syn")} == {"Guests get green tea.", "So there is ice in summer."}
    undone = undo_import_into("syn-2", done.undo)
    assert undone.agent == "syn"
    assert settings().options.agents["syn"].name == "Syn"
    assert {*files_in(files)} == {"SOUL.md", "notes/tea.md"}


def test_merge_skips_near_duplicates_that_can_be_imported_later(tmp_path: Path) -> None:
    """They are listed with their similarity; with the check off, the same file adds them."""
    files = syn(tmp_path)
    vectors = [
        {"id": "v1", "text": "Guests get green tea", "metadata": {}},
        {"id": "v2", "text": "The printer is on the second floor.", "metadata": {}},
    ]
    file = agent_file(
        tmp_path / "new.agent.json",
        memory={"vectors": vectors, "graph": {}},
        workspace={"files": {"NEW.md": "new", "SOUL.md": "Be rude."}, "binaryFiles": []},
        nous={"id": "syn", "name": "New", "model": "m2", "config": {"domains": [], "more": 1}},
    )
    done = arrive(file, on_conflict=OnAgent.MERGE)
    assert done.memory is not None
    assert done.memory.banks[0].done.near == 1
    assert [one.text for one in done.memory.near] == ["Guests get green tea"]
    assert done.memory.near[0].similarity >= 0.92
    assert vectors[1]["text"] in texts_in("syn")
    assert vectors[0]["text"] not in texts_in("syn")
    assert (files / "NEW.md").read_text() == "new"
    assert (files / "SOUL.md").read_text() == "Be kind.\n"
    assert done.files.differ == ["SOUL.md"]
    assert settings().options.agents["syn"].config == {**CONFIG, "more": 1}
    undo_import_into("syn", done.undo)
    assert not (files / "NEW.md").exists()
    assert settings().options.agents["syn"].config == CONFIG
    arrive(file, on_conflict=OnAgent.MERGE, near_duplicates=NearDuplicateMode.OFF)
    assert vectors[0]["text"] in texts_in("syn")


def test_undo_removes_an_imported_agent() -> None:
    """Memory, settings and files; the workspace is renamed, because it may have new files."""
    file = configured("other", name="Other")
    before = file.read_text()
    done = arrive(SAMPLES / "good-whole.agent.json")
    folder = Path(str(done.files.folder))
    assert "syn" in settings().options.agents
    undo_import_into("syn")
    assert file.read_text() == before
    assert not folder.exists()
    assert len([*folder.parent.glob("workspace.undone-*")]) == 1
    assert texts_in("syn") == []


def test_an_interrupted_import_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between memory and configuration: the second run completes it."""
    syn(tmp_path)
    leave("syn", tmp_path / "syn.agent.json")

    class StoppedError(BaseException):
        pass

    def stop(*_: object) -> bool:
        raise StoppedError

    with monkeypatch.context() as patch:
        patch.setattr("satchel.agents.imports.write_agent_config", stop)
        with pytest.raises(StoppedError):
            arrive(tmp_path / "syn.agent.json", name="copy")
    assert "copy" not in settings().options.agents
    done = arrive(tmp_path / "syn.agent.json", name="copy")
    assert (done.how, done.configured) == ("resume", True)
    assert texts_in("copy") == texts_in("syn")
    assert done.files.same == 2


def test_a_dry_run_changes_nothing() -> None:
    """It reports the expected result."""
    done = arrive(SAMPLES / "good-whole.agent.json", dry_run=True)
    assert (done.how, done.agent, done.dry_run) == ("new", "syn", True)
    assert done.memory is not None
    assert done.memory.banks[0].done.added == 3
    assert settings().options.agents == {}
    assert not settings().home.joinpath("agents").exists()


def test_import_preserves_comments_in_the_configuration() -> None:
    """Only the table of the agent is written."""
    file = configured("other", name="Other")
    arrive(SAMPLES / "good-small.agent.json")
    text = file.read_text()
    assert text.startswith("# by hand\n")
    assert "[agents.other]" in text
    assert settings().options.agents["a-1"].model == "m"


@pytest.mark.parametrize("program", ["typescript", "rust"])
def test_agent_files_of_other_programs_are_imported(program: str) -> None:
    """As those programs write them."""
    done = arrive(SAMPLES / f"other-{program}.agent.json", name=program)
    assert done.how == "new"
    assert len(done.sessions) == {"typescript": 2, "rust": 1}[program]
    assert "SOUL.md" in files_in(Path(str(done.files.folder)))


# -- attacks -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    ["../../x", "/etc/cron.d/x", "a/../../x", "a//b", "..\\x", "a/\0", "~/../../x", "a/./b"],
)
@pytest.mark.parametrize("member", ["files", "binaryFileContents"])
def test_attack_a_path_outside_the_workspace_is_refused(
    tmp_path: Path, path: str, member: str
) -> None:
    """Path traversal: the whole file is refused before anything is written."""
    if path == "~/../../x":
        path = "~/../../../x"
    held: Any = {path: "* * * * * evil"}
    if member != "files":
        held = [{"path": path, "contentsBase64": "ZXZpbA=="}]
    file = agent_file(tmp_path / "evil.agent.json", workspace={member: held})
    with pytest.raises(InputError):
        arrive(file)
    assert settings().options.agents == {}
    assert {path.name for path in tmp_path.iterdir()} <= {"evil.agent.json", "satchel-home"}


@pytest.mark.parametrize("name", ["../up", "a/b", "", ".", "..", "x" * 65, "a\nb", "-rf", "a b"])
def test_attack_an_agent_id_that_is_a_path_is_refused(tmp_path: Path, name: str) -> None:
    """An ID becomes the name of a folder: only letters, digits, _ and - are accepted."""
    nous = {"id": name, "name": "x", "model": "m", "config": {}}
    file = agent_file(tmp_path / "evil.agent.json", nous=nous)
    with pytest.raises((UsageError, MalformedError)):
        arrive(file)
    assert not settings().home.joinpath("agents").exists()


def test_attack_reused_ids_do_not_change_another_agent(tmp_path: Path) -> None:
    """ID theft: the IDs of memories, sessions and messages of another agent."""
    syn(tmp_path)
    leave("syn", tmp_path / "syn.agent.json", full=True)
    stolen = written(tmp_path / "syn.agent.json")
    for one in stolen["memory"]["vectors"]:
        one["text"] = "owned"
    for one in stolen["sessions"]["primary"]["messages"]:
        one["content"] = "owned"
    (tmp_path / "evil.agent.json").write_text(json.dumps(stolen))
    before = bank_sizes()["syn"]
    for how, name in ((OnAgent.FAIL, "thief"), (OnAgent.MERGE, "thief")):
        arrive(tmp_path / "evil.agent.json", name=name, on_conflict=how)
    assert bank_sizes()["syn"] == before
    assert "owned" not in texts_in("syn")


def test_attack_merge_does_not_replace_a_memory_with_the_same_id(tmp_path: Path) -> None:
    """ID theft in the same bank: the existing memory stays and the other one is counted."""
    first = arrive(SAMPLES / "good-whole.agent.json")
    stolen = written(SAMPLES / "good-whole.agent.json")
    stolen["memory"]["vectors"][0]["text"] = "owned"
    (tmp_path / "evil.agent.json").write_text(json.dumps(stolen))
    done = arrive(tmp_path / "evil.agent.json", on_conflict=OnAgent.MERGE)
    assert done.bank == first.bank
    assert "Guests get green tea." in texts_in("syn")
    assert "owned" not in texts_in("syn")
    assert done.memory is not None
    assert done.memory.banks[0].done.skipped >= 1


def test_attack_tool_code_and_hooks_in_agent_settings_are_stored_as_data(tmp_path: Path) -> None:
    """They are never run or merged into the configuration of Satchel."""
    trap = tmp_path / "ran"
    config = {
        "hooks": {"on_import": [{"command": ["touch", str(trap)]}]},
        "tools": [{"source_code": f"open({str(trap)!r}, 'w')"}],
        "store": {"address": "sqlite:////tmp/elsewhere.db"},
    }
    nous = {"id": "evil", "name": "x", "model": "m", "config": config}
    arrive(agent_file(tmp_path / "evil.agent.json", nous=nous))
    arrive(SAMPLES / "good-small.agent.json", name="next")
    assert not trap.exists()
    assert settings().options.store.address == ""
    assert settings().options.agents["evil"].config == config


def test_attack_a_decompression_bomb_is_refused(tmp_path: Path) -> None:
    """Nothing of it is stored."""
    import gzip

    head = b'{"version":1,"nous":{"id":"bomb"},"workspace":{"files":{"a":"'
    with gzip.open(tmp_path / "bomb.agent.json.gz", "wb") as stream:
        stream.write(head)
        for _ in range(80):
            stream.write(b"x" * (1 << 20))
        stream.write(b'"}}}')
    with pytest.raises(InputError):
        arrive(tmp_path / "bomb.agent.json.gz")
    assert not settings().home.joinpath("agents").exists()


def test_attack_a_binary_file_with_a_wrong_hash_is_refused(tmp_path: Path) -> None:
    """Nothing of the agent is created."""
    contents = [{"path": "a.bin", "sha256": "0" * 64, "contentsBase64": "ZXZpbA=="}]
    file = agent_file(tmp_path / "evil.agent.json", workspace={"binaryFileContents": contents})
    with pytest.raises(MalformedError, match="SHA-256"):
        arrive(file)
    assert bank_sizes() == {}
    assert settings().options.agents == {}


def test_attack_a_file_and_a_folder_with_one_name_leave_no_files(tmp_path: Path) -> None:
    """No staging folder, no bank, no agent."""
    held = {"files": {"a": "x", "a/b": "y"}, "binaryFiles": []}
    file = agent_file(tmp_path / "evil.agent.json", workspace=held)
    with pytest.raises(Exception, match="a"):
        arrive(file)
    assert bank_sizes() == {}
    assert [*settings().home.joinpath("agents").rglob("*.satchel-*")] == []


def test_attack_merge_does_not_write_through_a_symbolic_link(tmp_path: Path) -> None:
    """The target outside the workspace is unchanged."""
    files = syn(tmp_path)
    outside = tmp_path / "outside.md"
    outside.write_text("mine")
    (files / "trap.md").symlink_to(outside)
    held = {"files": {"trap.md": "owned"}, "binaryFiles": []}
    nous = {"id": "syn", "name": "x", "model": "m", "config": {}}
    file = agent_file(tmp_path / "evil.agent.json", workspace=held, nous=nous)
    with pytest.raises(Exception, match="link"):
        arrive(file, on_conflict=OnAgent.MERGE)
    assert outside.read_text() == "mine"


def test_a_file_without_an_agent_is_refused(tmp_path: Path) -> None:
    """The error suggests ``satchel import``."""
    (tmp_path / "m.json").write_text('[{"id": "1", "memory": "x", "user_id": "u"}]')
    with pytest.raises(UnknownFormatError, match="no whole agent") as refusal:
        arrive(tmp_path / "m.json")
    assert "satchel import" in str(refusal.value.hint)


def test_import_adds_the_agent_to_a_yaml_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other settings are preserved."""
    file = tmp_path / "satchel.yaml"
    file.write_text("store:\n  bank: main\n")
    monkeypatch.setenv("SATCHEL_CONFIG", str(file))
    arrive(SAMPLES / "good-small.agent.json")
    assert settings().options.agents["a-1"].model == "m"
    assert settings().options.store.bank == "main"


def test_an_inline_table_is_not_edited() -> None:
    """Nothing is written, and the error shows the table to write instead."""
    text = 'agents = { "a-1" = { name = "x" } }\n'
    with pytest.raises(UsageError, match="edited in place") as refusal:
        with_table(text, ("agents", "a-1"), {"name": "y"})
    assert "[agents.a-1]" in str(refusal.value.hint)
