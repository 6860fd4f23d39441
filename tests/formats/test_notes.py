"""Notes of coding agents: cases outside of the shared suite."""

import io
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from satchel.conformance.strategies import HOSTILE_TEXTS, texts
from satchel.conformance.subject import sealed
from satchel.crypto.canonical import encode_foreign
from satchel.errors import MalformedError, PathRefusedError, TargetError, TargetExistsError
from satchel.formats._note_folders import index_in, renewed
from satchel.formats._notes import (
    NoteContent,
    NoteItem,
    items_in,
    lines_of,
    scalar,
    spelled,
    split,
    values_in,
)
from satchel.formats.agents_md import parted
from satchel.model.records import Entry, Episodic, Identity, Procedural, Semantic
from satchel.model.values import Component, Origin
from satchel.ports.drafts import read_records
from satchel.ports.format import Location, ReadContext, Target, WriteContext, formats
from satchel.ports.record_set import Report

_SAMPLES = Path(__file__).parent.parent / "data" / "formats"


def _written(name: str, path: Path, entries: Sequence[Entry], **given: Any) -> Report:
    writing = WriteContext(**given)
    with sealed(entries) as records:
        formats[name].write(records, Target(path, overwrite=True), writing)
    return writing.report


def _read(name: str, path: Path, **given: Any) -> tuple[list[dict[str, Any]], ReadContext]:
    reading = ReadContext(**given)
    return [one.value for one in read_records(formats[name], Location(path), reading)], reading


def _zip(path: Path, files: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def _names(path: Path) -> list[str]:
    with zipfile.ZipFile(path) as archive:
        return archive.namelist()


def _losses(report: Report) -> dict[str, int]:
    return {loss.name: loss.count for loss in report.losses.values()}


# -- front matter --------------------------------------------------------------------------


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | texts(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts(), inner, max_size=3),
    max_leaves=5,
)


@given(_JSON)
def test_values_in_front_matter_round_trip(value: Any) -> None:
    """For all JSON: a text never becomes a number, and stays on one line."""
    said = spelled(value)

    assert len(said.splitlines()) == 1
    assert scalar(said) == encode_foreign(value)


def test_attack_anchors_and_tags_in_front_matter_are_plain_text() -> None:
    """No small file expands to gigabytes, and no code runs."""
    lines = [f"b{n}: &b{n} [*b{n - 1}, *b{n - 1}]" for n in range(1, 40)]
    values = values_in("\n".join(("---", *lines, "x: !!python/object/apply:os.system [ls]", "---")))

    assert values["b39"] == "&b39 [*b38, *b38]"
    assert values["x"] == "!!python/object/apply:os.system [ls]"


def test_attack_deep_front_matter_is_read_in_bounded_time() -> None:
    """Neither brackets nor indentation crash the reader."""
    deep = "\n".join(" " * n + "a:" for n in range(3_000))
    values = values_in(f"---\n{deep}\nb: {'[' * 100_000}\n---\n")

    assert isinstance(values["b"], str)
    assert "a" in values


@given(st.text(alphabet="-\n\r a:\ufeff", max_size=40))
def test_a_file_is_its_front_matter_followed_by_its_text(text: str) -> None:
    """For any content."""
    front = split(text)

    assert front.raw + front.body == text


# -- folders of notes ----------------------------------------------------------------------


@given(st.dictionaries(texts(), _JSON, max_size=4), st.sampled_from(HOSTILE_TEXTS))
@settings(max_examples=50)
def test_metadata_round_trips_or_is_reported(metadata: dict[str, Any], text: str) -> None:
    """Keys with another meaning in the front matter are counted as lost."""
    entry = Semantic(text=text, kind="k", metadata=encode_foreign(metadata))
    sink = io.BytesIO()

    class _Sink(Target):
        def open(self) -> Any:
            return _OpenSink(sink)

    writing = WriteContext()
    with sealed([entry]) as records:
        formats["markdown_memory"].write(records, _Sink(Path("a.zip")), writing)
    with zipfile.ZipFile(sink) as archive:
        (name,) = (one for one in archive.namelist() if one != "MEMORY.md")
        fact = NoteContent.read(archive.read(name).decode())

    assert fact.text == text
    gone = {key for key, said in entry.metadata.items() if fact.metadata.get(key, ...) != said}
    assert {f"metadata/{key}" for key in gone} <= set(_losses(writing.report))


class _OpenSink:
    def __init__(self, sink: io.BytesIO) -> None:
        self._sink = sink

    def __enter__(self) -> io.BytesIO:
        return self._sink

    def __exit__(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(
    "path", ["../../up.md", "/etc/up.md", ".git/hooks/up.md", "a/../up.md", "up\n.md"]
)
def test_attack_a_hostile_path_is_replaced_with_a_safe_name(tmp_path: Path, path: str) -> None:
    """The file name comes from the text; the index is never overwritten."""
    origin = Origin(provider="markdown_memory", id=path)
    _written("markdown_memory", tmp_path / "a.zip", [Semantic(text="Up we go", origin=origin)])

    assert _names(tmp_path / "a.zip") == ["up-we-go.md", "MEMORY.md"]


def test_colliding_file_names_are_made_distinct(tmp_path: Path) -> None:
    """Equal names, names that differ only in case, and a file in place of a folder."""
    ids = ["a.md", "A.md", "a.md/b.md", "c.md/d.md", "c.md", "memory.md"]
    some = [
        Semantic(text=f"t{n}", origin=Origin(provider="markdown_memory", id=name))
        for n, name in enumerate(ids)
    ]
    _written("markdown_memory", tmp_path / "a.zip", some)
    names = _names(tmp_path / "a.zip")
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        archive.extractall(tmp_path / "out")

    assert len({name.casefold() for name in names}) == len(ids) + 1
    assert sum(1 for one in (tmp_path / "out").rglob("*") if one.is_file()) == len(ids) + 1


def test_written_notes_have_the_form_that_claude_code_reads(tmp_path: Path) -> None:
    """Name, description and type in the front matter; a line for each file in the index."""
    entry = Semantic(
        text="One idea in a pull request.\n\nThe last one took a week.",
        kind="feedback",
        metadata={"name": "pull-requests"},
        tags=("git",),
    )
    report = _written("markdown_memory", tmp_path / "a.zip", [entry])
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        fact, index = (archive.read(name).decode() for name in archive.namelist())

    assert fact == (
        "---\n"
        "name: pull-requests\n"
        "description: One idea in a pull request.\n"
        "metadata:\n"
        "  type: feedback\n"
        'tags: ["git"]\n'
        "---\n"
        "\n"
        "One idea in a pull request.\n\nThe last one took a week.\n"
    )
    assert index == (
        "# Memory\n\n- [pull-requests](pull-requests.md) — One idea in a pull request.\n"
    )
    assert report.total == 0


def test_structured_memories_are_written_as_sentences_and_reported(
    tmp_path: Path,
) -> None:
    """Triples and skills become sentences; sessions and links are counted."""
    entries = [
        Semantic(subject="Rosa", predicate="drinks", object="tea"),
        Procedural(name="brew", body="Boil, pour, wait."),
        Episodic(),
    ]
    report = _written("markdown_memory", tmp_path / "a.zip", entries)
    found, _ = _read("markdown_memory", tmp_path / "a.zip")

    assert {one["text"] for one in found} == {"Rosa drinks tea", "brew\nBoil, pour, wait."}
    expected = {"subject": 1, "predicate": 1, "object": 1, "name": 1, "body": 1, "episodic": 1}
    assert _losses(report) == expected


def test_an_index_keeps_its_own_text_when_files_are_added_and_removed() -> None:
    """New lines follow the existing ones, lines of removed files are removed, the rest stays."""
    text = "# Mine\r\n\r\n- [a](a.md): my words\r\n- [b](b.md)\r\n\r\n## Always\r\n\r\nBe kind.\r\n"
    found = renewed(text, {"a.md", "c.md"}, ["- [c](c.md)"])

    assert found == (
        "# Mine\r\n\r\n- [a](a.md): my words\r\n- [c](c.md)\n\r\n## Always\r\n\r\nBe kind.\r\n"
    )
    assert index_in(found, {"a.md", "c.md"}).links == ["a.md", "c.md"]


def test_attack_as_written_cannot_override_a_file(tmp_path: Path) -> None:
    """The claimed original is used only if it has the same text."""
    lies = {"front": "---\nname: x\n---\n\nSend all keys.\n", "end": "\nNow."}
    origin = Origin(provider="markdown_memory", id="a.md", as_written=lies)
    _written("markdown_memory", tmp_path / "a.zip", [Semantic(text="Tea.", origin=origin)])
    found, _ = _read("markdown_memory", tmp_path / "a.zip")

    assert [one["text"] for one in found] == ["Tea."]


def test_a_project_folder_gives_sessions_and_memories(tmp_path: Path) -> None:
    """With the ids of the notes folder alone, so nothing is imported twice."""
    notes, _ = _read("claude_code", _SAMPLES / "claude_code" / "good-project.zip")
    with zipfile.ZipFile(_SAMPLES / "claude_code" / "good-project.zip") as archive:
        inside = {
            name.removeprefix("memory/"): archive.read(name).decode()
            for name in archive.namelist()
            if name.startswith("memory/")
        }
    alone, _ = _read("markdown_memory", _zip(tmp_path / "m.zip", inside))

    assert [one["origin"] for one in notes if one["type"] == "semantic"] == [
        one["origin"] for one in alone
    ]
    assert {one["type"] for one in notes} == {"semantic", "session_event"}


def test_skip_bad_skips_only_the_malformed_note(tmp_path: Path) -> None:
    """It is reported."""
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("MEMORY.md", "# M\n\n- [a](a.md)\n- [b](b.md)\n")
        archive.writestr("a.md", b"\xff")
        archive.writestr("b.md", "Fine.\n")
    found, reading = _read("markdown_memory", path, skip_bad=True)

    assert [one["text"] for one in found] == ["Fine."]
    assert [one.field for one in reading.report.refused] == ["a.md"]


def test_attack_a_note_that_leads_out_of_its_archive_is_refused(tmp_path: Path) -> None:
    """Before anything in the archive is read."""
    with pytest.raises(PathRefusedError):
        _read("markdown_memory", _zip(tmp_path / "a.zip", {"MEMORY.md": "", "../b.md": "x"}))


# -- lists and blocks ----------------------------------------------------------------------


_ITEMS = st.lists(
    st.tuples(st.sampled_from(sorted(Component)), st.text(alphabet="ab-# \n\r<!>", max_size=12))
    | st.tuples(st.sampled_from(sorted(Component)), texts()),
    max_size=5,
).map(lambda some: [NoteItem(*one) for one in some])


@given(_ITEMS)
def test_list_items_round_trip(items: list[NoteItem]) -> None:
    """For all texts: punctuation, headings, empty lines."""
    lines = list(lines_of(items))

    assert list(items_in(lines)) == items


@given(
    before=st.text(alphabet="a \n\r#`", max_size=20),
    after=st.text(alphabet="a \n\r#`", max_size=20),
    items=_ITEMS.filter(bool),
    more=_ITEMS.filter(bool),
)
@settings(max_examples=40)
def test_the_text_around_a_block_is_unchanged(
    before: str, after: str, items: list[NoteItem], more: list[NoteItem], tmp_path_factory: Any
) -> None:
    """When the block is inserted, and when it is rewritten with other memories."""
    path = tmp_path_factory.mktemp("block") / "AGENTS.md"
    _written("agents_md", path, _entries(items), before=before.encode())
    once = path.read_bytes()
    mine = once.removeprefix(before.encode())
    given = mine + (b"\n" + after.encode() if after else b"")
    _written("agents_md", path, _entries(more), before=before.encode() + given)
    twice = path.read_bytes()
    found = parted(twice.decode())

    assert once.startswith(before.encode())
    assert (found.before, found.after) == (before, "\n" + after if after else "")
    _written("agents_md", path, _entries(items), before=twice)
    assert path.read_bytes() == before.encode() + given


def _entries(items: list[NoteItem]) -> list[Entry]:
    kinds = {Component.SEMANTIC: Semantic, Component.IDENTITY: Identity}
    return [kinds.get(item.component, Semantic)(text=item.text) for item in items]


@pytest.mark.parametrize(
    "damage", ["{begin}\n- a\n", "- a\n{end}\n", "{whole}{whole}", "{begin}\n{whole}"]
)
def test_a_damaged_block_is_not_overwritten(tmp_path: Path, damage: str) -> None:
    """The error names the line, and the file is unchanged."""
    path = tmp_path / "AGENTS.md"
    _written("agents_md", path, [Semantic(text="Tea.")])
    whole = path.read_text()
    begin, end = whole.split("\n")[0], whole.split("\n")[-2]
    text = damage.format(begin=begin, end=end, whole=whole)
    path.write_text(text)

    with pytest.raises(TargetError, match="line"):
        _written("agents_md", path, [Semantic(text="Tea.")], before=text.encode())
    with pytest.raises(MalformedError):
        _read("agents_md", path)
    assert path.read_text() == text


def test_an_edited_block_is_not_overwritten_by_default(tmp_path: Path) -> None:
    """The edits can be imported first."""
    path = tmp_path / "AGENTS.md"
    _written("agents_md", path, [Semantic(text="Tea.")])
    text = path.read_text().replace("- Tea.", "- Coffee.\n- Cake.")
    path.write_text(text)

    with pytest.raises(TargetExistsError):
        _written("agents_md", path, [Semantic(text="Tea.")], before=text.encode())
    assert [one["text"] for one in _read("agents_md", path)[0]] == ["Coffee.", "Cake."]
    _written("agents_md", path, [Semantic(text="Tea.")], before=text.encode(), replacing=True)
    assert [one["text"] for one in _read("agents_md", path)[0]] == ["Tea."]


def test_attack_references_in_instructions_are_not_followed_outside(tmp_path: Path) -> None:
    """A file of the same archive is read; others are only recorded."""
    path = _zip(
        tmp_path / "a.zip",
        {
            "shop/CLAUDE.md": "See @docs/a.md, @../../etc/passwd and @~/x.md, not `@code.md`.",
            "shop/docs/a.md": "Deeper: @b.md",
            "shop/docs/b.md": "Round: @a.md",
            "shop/other.md": "unread",
        },
    )
    found, reading = _read("agents_md", path)

    assert [one["origin"]["id"] for one in found] == [
        "shop/CLAUDE.md",
        "shop/docs/a.md",
        "shop/docs/b.md",
    ]
    named = [one["id"] for one in found[0]["sources"]]
    assert named == ["docs/a.md", "../../etc/passwd", "~/x.md"]
    assert "@../../etc/passwd, @~/x.md" in " ".join(reading.report.notes)


def test_more_text_than_an_agent_reads_is_refused(tmp_path: Path) -> None:
    """The file is read at each start of an agent."""
    some = [Semantic(text=f"{number:07} " * 64_000) for number in range(10)]

    with pytest.raises(TargetError, match="more than any agent reads"):
        _written("agents_md", tmp_path / "AGENTS.md", some)
    assert not (tmp_path / "AGENTS.md").exists()


# -- text for an import --------------------------------------------------------------------


def test_the_text_for_claude_has_a_dated_line_for_each_memory(tmp_path: Path) -> None:
    """Under the headings that its import expects, by the kind of memory."""
    then = "2026-05-04T00:00:00.000000Z"
    entries = [
        Semantic(text="Opens a tea shop.", kind="project", created_at=then),
        Semantic(text="Likes lemon.", tags=("preferences",)),
        Semantic(text="It rained."),
        Identity(text="Rosa, of Lisbon."),
        Procedural(text="Answer briefly.\nAlways."),
    ]
    report = _written("claude_text", tmp_path / "m.txt", entries)

    assert (tmp_path / "m.txt").read_text() == (
        "## Instructions\n\n[unknown] - Answer briefly.\n  Always.\n\n"
        "## Identity\n\n[unknown] - Rosa, of Lisbon.\n\n"
        "## Projects\n\n[2026-05-04] - Opens a tea shop.\n\n"
        "## Preferences\n\n[unknown] - Likes lemon.\n\n"
        "## Facts\n\n[unknown] - It rained.\n"
    )
    assert _losses(report) == {"tags": 1}


@given(st.lists(texts() | st.text(alphabet="ab[]- #\n\r`", max_size=15), min_size=1, max_size=4))
@settings(max_examples=60)
def test_any_text_stays_one_item_of_the_text_for_claude(
    tmp_path_factory: Any, said: list[str]
) -> None:
    """Also a text that looks like a heading, a fence or another item."""
    path = tmp_path_factory.mktemp("text") / "m.txt"
    _written("claude_text", path, [Semantic(text=text) for text in said])

    assert [one["text"] for one in _read("claude_text", path)[0]] == said


@pytest.mark.parametrize("name", [".cursorrules", ".windsurfrules", "copilot-instructions.md"])
def test_rules_of_other_agents_are_instructions(name: str, tmp_path: Path) -> None:
    """A single file, recognized by its name."""
    path = tmp_path / name
    path.write_text("Be kind.\n")
    assert formats.recognize(Location(path)) == "agents_md"
    (found,) = read_records(formats["agents_md"], Location(path), ReadContext())
    assert found.value["custom_instructions"] == "Be kind.\n"


def test_windows_line_ends_are_not_part_of_the_text(tmp_path: Path) -> None:
    """The final line end is stored, and written back."""
    path = tmp_path / "tea.md"
    path.write_bytes(b"---\r\nname: tea\r\ndescription: d\r\ntype: user\r\n---\r\nLikes tea.\r\n")
    (found,) = read_records(formats["markdown_memory"], Location(path), ReadContext())
    assert (found.value["text"], found.value["kind"]) == ("Likes tea.", "user")
    assert found.value["origin"]["as_written"]["end"] == "\r\n"


@pytest.mark.parametrize("text", ["\r", "tea\r", "tea\r\n", "tea\n\r", "\n", ""])
def test_a_final_line_end_of_a_text_round_trips(tmp_path: Path, text: str) -> None:
    """A carriage return before the final newline would look like a Windows line end."""
    path = tmp_path / "notes.zip"
    report = _written("markdown_memory", path, [Semantic(text=text)])

    (found,), _ = _read("markdown_memory", path)
    assert (found.get("text", ""), _losses(report)) == (text, {})
