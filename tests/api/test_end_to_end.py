"""The same work by the command line and by Python gives the same memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import satchel
from satchel.cli.main import run
from satchel.errors import ConflictError, PathRefusedError, UsageError

ROOT = Path(__file__).parent.parent.parent
SAMPLE = ROOT / "examples" / "mem0_export.json"


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Run a command with --json and return its output."""

    def call(*words: str | Path, status: int = 0) -> Any:
        capsys.readouterr()
        assert run([*map(str, words), "--json"]) == status, capsys.readouterr().err
        return json.loads(capsys.readouterr().out)

    return call


def _write_newer_export(path: Path) -> Path:
    """Write a newer export of the sample: one memory is deleted, one is changed."""
    content = json.loads(SAMPLE.read_text("utf-8"))
    gone = content["results"].pop()
    content["results"][0]["memory"] += " (changed)"
    content["results"][0].pop("hash", None)
    assert gone
    path.write_text(json.dumps(content, ensure_ascii=False), "utf-8")
    return path


def _run_commands(cli: Callable[..., Any], folder: Path) -> Iterator[Any]:
    bank = ["--bank", "journey"]
    yield cli("import", SAMPLE, *bank)["banks"][0]["done"]
    tea = cli("remember", "Ada takes tea without sugar", "--tag", "tea", "--key", "tea", *bank)
    yield cli("recall", "sugar", *bank)["memories"][0]["text"]
    cli("update", tea["id"], "Ada takes tea with milk", *bank)
    yield [one["text"] for one in cli("recall", "tea", *bank)["memories"]]
    yield cli("import", _write_newer_export(folder / "later.json"), "--mirror", *bank)["banks"][0][
        "done"
    ]
    yield _export_counts(
        cli("export", *bank, "--output", folder / "cli.json", "--to", "mem0", status=1)
    )
    cli("undo", *bank)
    milk = cli("recall", "milk", *bank)["memories"][0]["id"]
    yield len(cli("history", milk, *bank)["versions"])
    cli("forget", milk, *bank)
    yield cli("recall", "milk", *bank)["memories"]
    cli("export", *bank, "--output", folder / "cli.pam.jsonl")
    yield cli("verify", folder / "cli.pam.jsonl", "--deep")["outcome"]


def _run_python(folder: Path) -> Iterator[Any]:
    with satchel.Satchel.open() as here:
        bank = here.create_bank("other journey")
        yield _builtins(bank.import_(SAMPLE).banks[0].done)
        tea = bank.remember("Ada takes tea without sugar", tags=["tea"], key="tea")
        yield bank.recall("sugar").memories[0].text
        bank.update(tea.id, "Ada takes tea with milk")
        yield [one.text for one in bank.recall("tea").memories]
        later = _write_newer_export(folder / "later.json")
        yield _builtins(bank.import_(later, mirror=True).banks[0].done)
        path = folder / "py.json"
        yield _export_counts(_builtins(bank.export(path, to="mem0")))
        bank.undo()
        milk = bank.recall("milk").memories[0].id
        yield len(bank.history(milk).versions)
        bank.forget(milk)
        yield _builtins(bank.recall("milk").memories)
        bank.export(folder / "py.pam.jsonl")
        yield satchel.verify(folder / "py.pam.jsonl", deep=True).outcome


def _builtins(value: Any) -> Any:
    import msgspec

    return msgspec.to_builtins(value)


def _export_counts(done: Any) -> Any:
    return {name: done[name] for name in ("entries", "records", "format")}


def test_the_command_line_and_python_give_the_same_results(
    cli: Callable[..., Any], tmp_path: Path
) -> None:
    """Import, remember, recall, update, mirror, export, undo, forget, verify."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    ours, theirs = list(_run_commands(cli, tmp_path / "one")), list(_run_python(tmp_path / "two"))
    assert len(ours) == 8
    for one, other in zip(ours, theirs, strict=True):
        assert one == other
    mine, other = (
        json.loads((tmp_path / folder / f"{name}.json").read_text("utf-8"))
        for folder, name in (("one", "cli"), ("two", "py"))
    )
    assert [row["memory"] for row in mine["results"]] == [row["memory"] for row in other["results"]]
    cli("diff", "journey", "other journey")  # exits with 1 if they differ


def test_a_mem0_file_is_equal_after_import_and_export(tmp_path: Path) -> None:
    """Every field of every memory, and the fields around them."""
    with satchel.Satchel.open() as here:
        bank = here.create_bank("b")
        bank.import_(SAMPLE)
        bank.export(tmp_path / "out.json", to="mem0")
    before, after = (json.loads(p.read_text("utf-8")) for p in (SAMPLE, tmp_path / "out.json"))
    assert after == before


def test_updates_and_deletions_by_a_mirror_are_in_the_history(tmp_path: Path) -> None:
    """Each version with its state."""
    with satchel.Satchel.open() as here:
        bank = here.create_bank("b")
        bank.import_(SAMPLE)
        before = {one.text: one.id for one in bank.list(limit=1000)}
        bank.import_(_write_newer_export(tmp_path / "later.json"), mirror=True)
        after = {one.text: one.id for one in bank.list(limit=1000)}
        changed = next(text for text in after if text.endswith("(changed)"))
        versions = bank.history(after[changed]).versions
        assert [version.state for version in versions] == ["superseded", "current"]
        gone = next(text for text in before if text not in after and f"{text} (changed)" != changed)
        assert bank.history(before[gone]).versions[-1].state == "deleted"


@pytest.mark.parametrize("verb", ["export", "import_"])
def test_attack_a_path_outside_the_roots_of_a_store_is_refused(tmp_path: Path, verb: str) -> None:
    """As when a model chooses the path."""
    (tmp_path / "exports").mkdir()
    with satchel.Satchel.open(roots=tmp_path / "exports") as here:
        bank = here.create_bank("b")
        with pytest.raises(PathRefusedError):
            getattr(bank, verb)(tmp_path / "x.pam")
    assert not (tmp_path / "x.pam").exists()


def test_unknown_options_and_values_are_refused_by_name(tmp_path: Path) -> None:
    """They are not ignored."""
    later = _write_newer_export(tmp_path / "later.json")
    with satchel.Satchel.open() as here:
        bank = here.create_bank("b")
        with pytest.raises(
            TypeError, match=r"^import\(\) got an unexpected keyword argument 'onconflict'"
        ):
            bank.import_(SAMPLE, onconflict="skip")  # type: ignore[call-arg]
        with pytest.raises(UsageError, match="unknown value 'later'"):
            bank.import_(SAMPLE, on_conflict="later")  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="unknown value"):
            bank.recall("x", trust="all")  # type: ignore[arg-type]
        bank.import_(SAMPLE)
        with pytest.raises(ConflictError):
            bank.import_(later, on_conflict="error")
