"""One journey, by the command line and by Python: the same work gives the same memory."""

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
    """Run a command with --json and return what it prints."""

    def call(*words: str | Path, status: int = 0) -> Any:
        capsys.readouterr()
        assert run([*map(str, words), "--json"]) == status, capsys.readouterr().err
        return json.loads(capsys.readouterr().out)

    return call


def _later(path: Path) -> Path:
    """Return a newer export of the sample: one memory is gone, one says something else."""
    content = json.loads(SAMPLE.read_text("utf-8"))
    gone = content["results"].pop()
    content["results"][0]["memory"] += " (changed)"
    content["results"][0].pop("hash", None)
    assert gone
    path.write_text(json.dumps(content, ensure_ascii=False), "utf-8")
    return path


def _by_commands(cli: Callable[..., Any], folder: Path) -> Iterator[Any]:
    bank = ["--bank", "journey"]
    yield cli("import", SAMPLE, *bank)["banks"][0]["done"]
    tea = cli("remember", "Ada takes tea without sugar", "--tag", "tea", "--key", "tea", *bank)
    yield cli("recall", "sugar", *bank)["memories"][0]["text"]
    cli("update", tea["id"], "Ada takes tea with milk", *bank)
    yield [one["text"] for one in cli("recall", "tea", *bank)["memories"]]
    yield cli("import", _later(folder / "later.json"), "--mirror", *bank)["banks"][0]["done"]
    yield _exported(cli("export", *bank, "--output", folder / "cli.json", "--to", "mem0", status=1))
    cli("undo", *bank)
    milk = cli("recall", "milk", *bank)["memories"][0]["id"]
    yield len(cli("history", milk, *bank)["versions"])
    cli("forget", milk, *bank)
    yield cli("recall", "milk", *bank)["memories"]
    cli("export", *bank, "--output", folder / "cli.pam.jsonl")
    yield cli("verify", folder / "cli.pam.jsonl", "--deep")["outcome"]


def _by_python(folder: Path) -> Iterator[Any]:
    with satchel.Satchel.open() as here:
        bank = here.create_bank("other journey")
        yield _built(bank.import_(SAMPLE).banks[0].done)
        tea = bank.remember("Ada takes tea without sugar", tags=["tea"], key="tea")
        yield bank.recall("sugar").memories[0].text
        bank.update(tea.id, "Ada takes tea with milk")
        yield [one.text for one in bank.recall("tea").memories]
        later = _later(folder / "later.json")
        yield _built(bank.import_(later, mirror=True).banks[0].done)
        path = folder / "py.json"
        yield _exported(_built(bank.export(path, to="mem0")))
        bank.undo()
        milk = bank.recall("milk").memories[0].id
        yield len(bank.history(milk).versions)
        bank.forget(milk)
        yield _built(bank.recall("milk").memories)
        bank.export(folder / "py.pam.jsonl")
        yield satchel.verify(folder / "py.pam.jsonl", deep=True).outcome


def _built(value: Any) -> Any:
    import msgspec

    return msgspec.to_builtins(value)


def _exported(done: Any) -> Any:
    return {name: done[name] for name in ("entries", "records", "format")}


def test_the_command_line_and_python_do_the_same_work(
    cli: Callable[..., Any], tmp_path: Path
) -> None:
    """Step by step: import, remember, recall, update, mirror, export, undo, forget, verify."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    ours, theirs = list(_by_commands(cli, tmp_path / "one")), list(_by_python(tmp_path / "two"))
    assert len(ours) == 8
    for one, other in zip(ours, theirs, strict=True):
        assert one == other
    mine, other = (
        json.loads((tmp_path / folder / f"{name}.json").read_text("utf-8"))
        for folder, name in (("one", "cli"), ("two", "py"))
    )
    assert [row["memory"] for row in mine["results"]] == [row["memory"] for row in other["results"]]
    cli("diff", "journey", "other journey")  # which exits with 1 where there is a difference


def test_a_mem0_file_comes_out_as_it_went_in(tmp_path: Path) -> None:
    """Every field of every memory, and the fields around them."""
    with satchel.Satchel.open() as here:
        bank = here.create_bank("b")
        bank.import_(SAMPLE)
        bank.export(tmp_path / "out.json", to="mem0")
    before, after = (json.loads(p.read_text("utf-8")) for p in (SAMPLE, tmp_path / "out.json"))
    assert after == before


def test_later_updates_and_deletions_of_the_source_are_in_the_history(tmp_path: Path) -> None:
    """What a mirror replaced, and what it deleted, each with the state it is in."""
    with satchel.Satchel.open() as here:
        bank = here.create_bank("b")
        bank.import_(SAMPLE)
        before = {one.text: one.id for one in bank.list(limit=1000)}
        bank.import_(_later(tmp_path / "later.json"), mirror=True)
        after = {one.text: one.id for one in bank.list(limit=1000)}
        changed = next(text for text in after if text.endswith("(changed)"))
        versions = bank.history(after[changed]).versions
        assert [version.state for version in versions] == ["superseded", "current"]
        gone = next(text for text in before if text not in after and f"{text} (changed)" != changed)
        assert bank.history(before[gone]).versions[-1].state == "deleted"


@pytest.mark.parametrize("verb", ["export", "import_"])
def test_a_path_of_unknown_origin_is_refused(tmp_path: Path, verb: str) -> None:
    """Attack: a model that is asked where to write says /etc/passwd."""
    (tmp_path / "exports").mkdir()
    with satchel.Satchel.open(roots=tmp_path / "exports") as here:
        bank = here.create_bank("b")
        with pytest.raises(PathRefusedError):
            getattr(bank, verb)(tmp_path / "x.pam")
    assert not (tmp_path / "x.pam").exists()


def test_what_cannot_be_meant_is_refused_by_name(tmp_path: Path) -> None:
    """A mistyped option does not do something else in silence."""
    later = _later(tmp_path / "later.json")
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
