"""What the page on Astrocyte's archives asks for, where it was kept only in part."""

import json
from pathlib import Path
from typing import Any

import pytest
from import_kit import bring

import satchel
from satchel.api.store import Satchel
from satchel.cli.main import run
from satchel.errors import ContainmentError, LimitError, MalformedError, TargetExistsError
from satchel.transfer import import_stage

_ANYWHERE: Any = {"allow_uncontained": True}


def _archive(path: Path, *texts: str, bank: str = "user-123", **more: Any) -> Path:
    header = {
        "_ama_version": 1,
        "bank_id": bank,
        "exported_at": "2026-04-03T12:00:00Z",
        "provider": "mem0",
        "memory_count": len(texts),
    }
    rows = [{"id": f"m{number}", "text": text, **more} for number, text in enumerate(texts)]
    path.write_text("".join(json.dumps(one) + "\n" for one in (header, *rows)))
    return path


def _header(path: Path) -> Any:
    return json.loads(path.read_text().splitlines()[0])


def test_an_archive_names_the_bank_unless_all_of_it_came_with_one_archive(tmp_path: Path) -> None:
    """Memories of the bank's own are not said to be somebody else's."""
    with Satchel.open() as there:
        there.import_bank("emb", _archive(tmp_path / "a.ama.jsonl", "tea"), **_ANYWHERE)
        there.export_bank("emb", tmp_path / "same.ama.jsonl", **_ANYWHERE)
        there.bank("emb").remember("coffee")
        there.export_bank("emb", tmp_path / "more.ama.jsonl", **_ANYWHERE)
    assert _header(tmp_path / "same.ama.jsonl")["bank_id"] == "user-123"
    assert _header(tmp_path / "more.ama.jsonl")["bank_id"] == "emb"
    done = bring(tmp_path / "more.ama.jsonl", "emb")
    assert not done.changed


def test_the_loop_of_the_page_makes_its_folder_and_replaces_its_own_file(tmp_path: Path) -> None:
    """Run twice; a file that is none of its own stays."""
    folder = tmp_path / "backup" / "all"
    with Satchel.open() as there:
        for name in ("user-123", "team-support"):
            there.import_bank(name, _archive(tmp_path / "a.ama.jsonl", name), **_ANYWHERE)
        for _ in range(2):
            for name in ("user-123", "team-support"):
                there.export_bank(name, folder / f"{name}.ama.jsonl", **_ANYWHERE)
        for _ in range(2):
            roots: Any = {"allowed_roots": [tmp_path]}
            there.export_bank("user-123", tmp_path / "in" / "roots" / "x.ama.jsonl", **roots)
        other = tmp_path / "notes.ama.jsonl"
        other.write_text("my own notes")
        with pytest.raises(TargetExistsError, match="overwrite=True"):
            there.export_bank("user-123", other, **_ANYWHERE)
        with pytest.raises(TargetExistsError):
            there.export_bank(
                "user-123", folder / "user-123.ama.jsonl", overwrite=False, **_ANYWHERE
            )
    assert other.read_text() == "my own notes"
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("sign", ["\x1b", "\n", "\x7f", "\x00"])
def test_control_characters_are_refused_in_every_mode(tmp_path: Path, sign: str) -> None:
    """Before any file is looked at, as a ValueError."""
    path = f"{tmp_path}/a{sign}b.ama.jsonl"
    with Satchel.open() as there:
        there.import_bank("b", _archive(tmp_path / "a.ama.jsonl", "tea"), **_ANYWHERE)
        modes: list[Any] = [_ANYWHERE, {"allowed_roots": [tmp_path]}]
        for mode in modes:
            with pytest.raises(ContainmentError) as caught:
                there.export_bank("b", path, **mode)
            assert isinstance(caught.value, ValueError)
            with pytest.raises(ContainmentError):
                there.import_bank("b", path, **mode)
    assert [one.name for one in tmp_path.glob("*b.ama*")] == []


def test_a_relative_root_of_a_call_is_below_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the page's own calls have them; it still contains."""
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path)
    inside: Any = {"allowed_roots": ["in"]}
    with Satchel.open() as there:
        there.import_bank("b", _archive(tmp_path / "in" / "a.ama.jsonl", "tea"), **inside)
        there.export_bank("b", "./in/o.ama.jsonl", **inside)
        with pytest.raises(ContainmentError):
            there.export_bank("b", tmp_path / "out" / "o.ama.jsonl", **inside)
        up: Any = {"allowed_roots": ["in/.."]}
        with pytest.raises(ContainmentError):
            there.export_bank("b", tmp_path / "out" / "o.ama.jsonl", **up)


def test_an_archive_without_a_header_is_reported_as_one(tmp_path: Path) -> None:
    """The name says what it should be, and the error what is missing."""
    path = tmp_path / "cut.ama.jsonl"
    path.write_text('{"id": "m1", "text": "tea"}\n')
    with pytest.raises(MalformedError, match="_ama_version"):
        bring(path)


def test_entities_that_are_found_have_the_types_of_the_archive(tmp_path: Path) -> None:
    """PERSON, ORG, LOCATION, as the page has them."""
    path = _archive(tmp_path / "a.ama.jsonl", "Ada Lovelace works at Acme Corp in Lisbon.")
    bring(path, re_extract_entities=True)
    with Satchel.open() as there:
        there.export_bank("b", tmp_path / "o.ama.jsonl", **_ANYWHERE)
    row = json.loads((tmp_path / "o.ama.jsonl").read_text().splitlines()[1])
    types = {one["entity_type"] for one in row["entities"]}
    assert "PERSON" in types
    assert all(one == one.upper() for one in types)


def test_progress_is_reported_while_the_input_is_read(tmp_path: Path) -> None:
    """Every hundred records, not only when all of it is planned."""
    path = _archive(tmp_path / "a.ama.jsonl", *(f"memory {number}" for number in range(1000)))
    steps = list[Any]()
    bring(path, on_step=steps.append)
    reading = [one.total for one in steps if one.done == 0]
    assert reading == [*range(100, 1001, 100), 1000]
    assert steps[-1].done == 1000


def test_progress_is_reported_while_records_are_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Group by group; all of them are reported as done when they are durable."""
    monkeypatch.setattr(import_stage, "GROUP", 100)
    path = _archive(tmp_path / "a.ama.jsonl", *(f"memory {number}" for number in range(1000)))
    seen = list[tuple[int, int]]()

    def note(step: Any) -> None:
        with Satchel.open() as there:
            visible = len(there.bank("b").list(limit=1).memories) if there.list_banks() else 0
        seen.append((step.done, visible))

    bring(path, on_step=note)
    logging = [(done, visible) for done, visible in seen if done]
    assert logging == [*((done, 0) for done in range(100, 1000, 100)), (1000, 1)]


@pytest.mark.parametrize("known", [False, True])
def test_an_id_that_occurs_twice_in_a_file_is_counted_once_for_each_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, known: bool
) -> None:
    """Of the memories that are added, some are in the place of another version."""
    path = _archive(tmp_path / "a.ama.jsonl", "tea", "green tea")
    path.write_text(path.read_text().replace('"m1"', '"m0"'))
    if known:
        bring(_archive(tmp_path / "b.ama.jsonl", "tea"))
    assert run(["import", str(path), "--bank", "b", "--on-conflict", "overwrite"]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert lines[0].startswith("imported 2 records")
    counts = ["1 memory added"] if known else ["2 memories added"]
    counts.append("of these, 1 memory superseding another version")
    counts += ["1 memory unchanged"] * known
    assert [line for line in lines if "memor" in line] == counts


def test_a_forgotten_memory_is_reported_as_forgotten(tmp_path: Path) -> None:
    """A file that is imported again says what it does not bring back."""
    path = _archive(tmp_path / "a.ama.jsonl", "tea", "coffee")
    bring(path)
    with Satchel.open() as there:
        bank = there.bank("b")
        bank.forget(bank.list().memories[0].id)
    done = bring(path).banks[0].done
    assert (done.known, done.forgotten) == (1, 1)


def test_a_memory_that_is_too_long_names_the_setting(tmp_path: Path) -> None:
    """Skipping it is not the only way."""
    path = _archive(tmp_path / "a.ama.jsonl", "x" * 2_000_000)
    with pytest.raises(LimitError) as caught:
        bring(path)
    assert "limits.entry_bytes" in str(caught.value.hint)


def test_standard_output_is_a_minus_sign(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Only the file is on it; reports go to standard error, and no file is called `-`."""
    source = str(_archive(tmp_path / "a.ama.jsonl", "tea"))
    assert run(["import", source, "--bank", "b"]) == 0
    for command in (
        ["export", "--bank", "b", "--to", "ama"],
        ["export", "--bank", "b", "--to", "ama", "--output", "-", "--json"],
        ["convert", source, "-", "--to", "ama"],
    ):
        capfdbinary.readouterr()
        assert run(command) == 0, command
        out, err = capfdbinary.readouterr()
        lines = out.decode().splitlines()
        assert "_ama_version" in json.loads(lines[0])
        assert json.loads(lines[1])["text"] == "tea"
        assert len(lines) == 2
        assert err or "--json" in command
    assert not Path("-").exists()


def test_the_module_has_what_its_guide_names() -> None:
    """A name in the guide is one that can be called."""
    assert hasattr(Satchel, "export_bank_config")
    assert not hasattr(satchel, "export_bank_config")
    text = (Path(__file__).parents[2] / "docs" / "guides" / "configuration.md").read_text()
    assert "`satchel.export_bank_config" not in text
