"""An agent out of one file: new ids, contained files, all or nothing, and taken back again."""

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


def banks() -> dict[str | None, int | None]:
    """Return the banks there are, and how long their logs are."""
    return {one.name: one.records for one in list_banks(settings())}


def said(bank: str) -> list[str | None]:
    """Return the texts of a bank's memories."""
    with open_bank(settings(), bank) as opened:
        return texts(opened)


def files_in(folder: Path) -> dict[str, bytes]:
    """Return the files below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("name", ["syn.agent.json", "syn.agent.json.gz", "syn.pam"])
def test_a_copy_has_everything_and_the_original_is_never_touched(tmp_path: Path, name: str) -> None:
    """Memory, conversations, files and settings; the source's log is as long as it was."""
    files = workspace(syn(tmp_path), a_bin=bytes(range(256)) * 2000)
    key = owner() if name.endswith(".pam") else None
    leave("syn", tmp_path / name, full=True, rules=ALL, export=ExportOptions(key=key))
    before = banks()["syn"], files_in(files)
    done = arrive(tmp_path / name, name="copy")
    assert (done.how, done.agent, done.came_as, done.bank) == ("new", "copy", "syn", "copy")
    assert said("copy") == said("syn")
    assert (banks()["syn"], files_in(files)) == before
    assert files_in(Path(str(done.files.folder))) == files_in(files)
    there = settings().options.agents["copy"]
    assert (there.name, there.model, there.config) == ("Syn", "small-1", CONFIG)
    assert done.memory is not None
    assert done.memory.losses == []


def test_every_id_is_new_and_the_old_one_is_kept_as_origin(tmp_path: Path) -> None:
    """What came as which is told, of conversations and of memories."""
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


def test_conversations_can_be_continued(tmp_path: Path) -> None:
    """Messages, state, summary, notes and points to return to stand where they stood."""
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
def test_a_sample_comes_out_as_it_went_in(tmp_path: Path, sample: str) -> None:
    """Field for field, but for ids and times of the transfer."""
    came = SAMPLES / f"good-{sample}.agent.json"
    done = arrive(came, name="a")
    leave("a", tmp_path / "out.agent.json", full=True, rules=ALL)
    before, after = without_ids(written(came)), without_ids(written(tmp_path / "out.agent.json"))
    after.pop("exportMetadata")
    assert {*done.files.not_in_file} == {*before["workspace"]["binaryFiles"]}
    for one in (before, after):  # only their names came
        one["workspace"]["binaryFiles"] = []
        one["sessions"].pop("background")
    assert after == before


def test_the_same_file_a_second_time_is_recognized(tmp_path: Path) -> None:
    """Nothing is changed, and it is said."""
    syn(tmp_path)
    leave("syn", tmp_path / "syn.agent.json")
    arrive(tmp_path / "syn.agent.json", name="copy")
    before = banks()
    done = arrive(tmp_path / "syn.agent.json", name="copy")
    assert (done.how, done.memory) == ("known", None)
    assert banks() == before


def test_nobody_is_asked_without_a_terminal(tmp_path: Path) -> None:
    """An agent that is there, and no word on what to do, is an error that names the choices."""
    syn(tmp_path)
    leave("syn", tmp_path / "syn.agent.json")
    before = banks()
    with pytest.raises(AgentExistsError, match="already") as refusal:
        arrive(tmp_path / "syn.agent.json")
    assert "--on-conflict" in str(refusal.value.hint)
    assert banks() == before
    asked: list[str] = []

    def ask(name: str) -> OnAgent:
        asked.append(name)
        return OnAgent.RENAME

    done = arrive(tmp_path / "syn.agent.json", ask=ask)
    assert (asked, done.agent) == (["syn"], "syn-2")


def test_overwriting_keeps_what_was_there(tmp_path: Path) -> None:
    """Another bank and another folder take its place; undo puts the old ones back."""
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
    assert {*said("syn")} == {"Guests get green tea.", "So there is ice in summer."}
    undone = undo_import_into("syn-2", done.undo)
    assert undone.agent == "syn"
    assert settings().options.agents["syn"].name == "Syn"
    assert {*files_in(files)} == {"SOUL.md", "notes/tea.md"}


def test_a_merge_skips_near_duplicates_which_can_be_imported_later(tmp_path: Path) -> None:
    """They are listed with what they are like; the same file brings them where that is asked."""
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
    assert vectors[1]["text"] in said("syn")
    assert vectors[0]["text"] not in said("syn")
    assert (files / "NEW.md").read_text() == "new"
    assert (files / "SOUL.md").read_text() == "Be kind.\n"
    assert done.files.differ == ["SOUL.md"]
    assert settings().options.agents["syn"].config == {**CONFIG, "more": 1}
    undo_import_into("syn", done.undo)
    assert not (files / "NEW.md").exists()
    assert settings().options.agents["syn"].config == CONFIG
    arrive(file, on_conflict=OnAgent.MERGE, near_duplicates=NearDuplicateMode.OFF)
    assert vectors[0]["text"] in said("syn")


def test_undo_takes_all_of_an_agent_back() -> None:
    """Memory, settings and files; its folder is kept aside: there may be more in it by now."""
    file = configured("other", name="Other")
    before = file.read_text()
    done = arrive(SAMPLES / "good-whole.agent.json")
    folder = Path(str(done.files.folder))
    assert "syn" in settings().options.agents
    undo_import_into("syn")
    assert file.read_text() == before
    assert not folder.exists()
    assert len([*folder.parent.glob("workspace.undone-*")]) == 1
    assert said("syn") == []


def test_an_import_that_was_stopped_is_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the memory and the configuration: the second run completes it."""
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
    assert said("copy") == said("syn")
    assert done.files.same == 2


def test_a_dry_run_changes_nothing() -> None:
    """It says what would become of it."""
    done = arrive(SAMPLES / "good-whole.agent.json", dry_run=True)
    assert (done.how, done.agent, done.dry_run) == ("new", "syn", True)
    assert done.memory is not None
    assert done.memory.banks[0].done.added == 3
    assert settings().options.agents == {}
    assert not settings().home.joinpath("agents").exists()


def test_comments_in_the_configuration_stay() -> None:
    """Only the table of the agent is written."""
    file = configured("other", name="Other")
    arrive(SAMPLES / "good-small.agent.json")
    text = file.read_text()
    assert text.startswith("# by hand\n")
    assert "[agents.other]" in text
    assert settings().options.agents["a-1"].model == "m"


@pytest.mark.parametrize("program", ["typescript", "rust"])
def test_files_of_the_programs_become_agents(program: str) -> None:
    """As they really write them."""
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
def test_a_path_that_leads_out_of_the_workspace_writes_nothing(
    tmp_path: Path, path: str, member: str
) -> None:
    """Path traversal: the whole file is refused before anything is made."""
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
def test_an_id_that_would_be_a_path_is_refused(tmp_path: Path, name: str) -> None:
    """A folder is made of it: nothing but letters, digits, _ and - is one."""
    nous = {"id": name, "name": "x", "model": "m", "config": {}}
    file = agent_file(tmp_path / "evil.agent.json", nous=nous)
    with pytest.raises((UsageError, MalformedError)):
        arrive(file)
    assert not settings().home.joinpath("agents").exists()


def test_a_file_that_claims_the_ids_of_another_agent_steals_nothing(tmp_path: Path) -> None:
    """Id theft: same ids of memories, sessions and messages; the other's stay as they are."""
    syn(tmp_path)
    leave("syn", tmp_path / "syn.agent.json", full=True)
    stolen = written(tmp_path / "syn.agent.json")
    for one in stolen["memory"]["vectors"]:
        one["text"] = "owned"
    for one in stolen["sessions"]["primary"]["messages"]:
        one["content"] = "owned"
    (tmp_path / "evil.agent.json").write_text(json.dumps(stolen))
    before = banks()["syn"]
    for how, name in ((OnAgent.FAIL, "thief"), (OnAgent.MERGE, "thief")):
        arrive(tmp_path / "evil.agent.json", name=name, on_conflict=how)
    assert banks()["syn"] == before
    assert "owned" not in said("syn")


def test_a_merge_of_other_versions_replaces_nothing(tmp_path: Path) -> None:
    """Id theft in the same bank: what is there stays, and the other version is counted."""
    first = arrive(SAMPLES / "good-whole.agent.json")
    stolen = written(SAMPLES / "good-whole.agent.json")
    stolen["memory"]["vectors"][0]["text"] = "owned"
    (tmp_path / "evil.agent.json").write_text(json.dumps(stolen))
    done = arrive(tmp_path / "evil.agent.json", on_conflict=OnAgent.MERGE)
    assert done.bank == first.bank
    assert "Guests get green tea." in said("syn")
    assert "owned" not in said("syn")
    assert done.memory is not None
    assert done.memory.banks[0].done.skipped >= 1


def test_tool_code_and_hooks_in_the_settings_are_data(tmp_path: Path) -> None:
    """Tool code: it is kept where the agent's settings are, and nothing reads it as ours."""
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


def test_a_bomb_is_stopped_at_its_bound(tmp_path: Path) -> None:
    """Bombs: what expands without end is refused, and nothing is left of it."""
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


def test_a_binary_file_that_is_not_what_it_says_is_refused(tmp_path: Path) -> None:
    """Its hash is of something else: nothing of the agent is made."""
    contents = [{"path": "a.bin", "sha256": "0" * 64, "contentsBase64": "ZXZpbA=="}]
    file = agent_file(tmp_path / "evil.agent.json", workspace={"binaryFileContents": contents})
    with pytest.raises(MalformedError, match="SHA-256"):
        arrive(file)
    assert banks() == {}
    assert settings().options.agents == {}


def test_a_file_and_a_folder_of_one_name_leave_nothing_behind(tmp_path: Path) -> None:
    """No staging folder, no bank, no agent."""
    held = {"files": {"a": "x", "a/b": "y"}, "binaryFiles": []}
    file = agent_file(tmp_path / "evil.agent.json", workspace=held)
    with pytest.raises(Exception, match="a"):
        arrive(file)
    assert banks() == {}
    assert [*settings().home.joinpath("agents").rglob("*.satchel-*")] == []


def test_a_link_that_waits_in_the_folder_is_not_written_through(tmp_path: Path) -> None:
    """A merge into a folder with a link in it leaves what is behind the link alone."""
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


def test_memory_alone_is_no_agent(tmp_path: Path) -> None:
    """A file of memory is imported by satchel import, and the error says so."""
    (tmp_path / "m.json").write_text('[{"id": "1", "memory": "x", "user_id": "u"}]')
    with pytest.raises(UnknownFormatError, match="no whole agent") as refusal:
        arrive(tmp_path / "m.json")
    assert "satchel import" in str(refusal.value.hint)


def test_a_yaml_configuration_names_the_agent_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The seeds' kind of file is written as well as read."""
    file = tmp_path / "satchel.yaml"
    file.write_text("store:\n  bank: main\n")
    monkeypatch.setenv("SATCHEL_CONFIG", str(file))
    arrive(SAMPLES / "good-small.agent.json")
    assert settings().options.agents["a-1"].model == "m"
    assert settings().options.store.bank == "main"


def test_a_table_inside_another_is_not_changed_by_guessing() -> None:
    """Where a text cannot be changed in place, nothing is written, and the error says how."""
    text = 'agents = { "a-1" = { name = "x" } }\n'
    with pytest.raises(UsageError, match="edited in place") as refusal:
        with_table(text, ("agents", "a-1"), {"name": "y"})
    assert "[agents.a-1]" in str(refusal.value.hint)
