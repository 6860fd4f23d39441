"""Import jobs: an interrupted import is listed, and resumed or cancelled."""

from pathlib import Path

import pytest
from import_kit import KilledError, bring, killed, killing, owner, rows, size, texts, write

from satchel.bank.jobs import Job
from satchel.config.settings import load_settings
from satchel.errors import LockedError, UnknownJobError, UnreadableError, UsageError
from satchel.transfer import import_stage
from satchel.transfer.import_job import import_lock
from satchel.transfer.import_results import ConflictPolicy
from satchel.transfer.imports import cancel_job, list_jobs, resume_job


@pytest.fixture(autouse=True)
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Log seven records at a time."""
    monkeypatch.setattr(import_stage, "GROUP", 7)
    monkeypatch.setattr(import_stage, "COMMIT_BYTES", 1)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A file of twenty memories of each of two users."""
    parts = (
        rows(*((f"{user}.{n}", f"{user} {n}") for n in range(20)), user=user)
        for user in ("ada", "bob")
    )
    return write(tmp_path / "a.json", *parts)


def _jobs() -> list[Job]:
    return list_jobs(load_settings())


def test_no_jobs_are_listed_without_an_interrupted_import(source: Path) -> None:
    """Not even a store is created."""
    assert _jobs() == []
    bring(source)
    assert _jobs() == []


def test_a_job_reports_its_options_and_progress(source: Path) -> None:
    """With the options needed to resume it."""
    name = killed(source, at=1, on_conflict=ConflictPolicy.OVERWRITE)
    (job,) = _jobs()
    assert (job.id, job.kind, job.state) == (name, "import", "waiting")
    assert (job.done, job.total, job.input) == (14, 40, str(source))
    assert job.options == {"bank": "b", "on_conflict": "overwrite"}


def test_a_job_is_resumed_with_its_options(source: Path) -> None:
    """The caller need not know them."""
    name = killed(source, at=1, on_conflict=ConflictPolicy.OVERWRITE)
    done = resume_job(load_settings(), name[:6], owner)
    assert done.banks[0].resumed == 14
    assert len(texts()) == 40
    assert _jobs() == []


def test_an_import_into_several_banks_is_one_job(source: Path) -> None:
    """Its parts share an ID; any of their source records also identifies it."""
    name = killed(source, None, at=4, maps=("user:ada=x",))
    (job,) = _jobs()
    assert {part.name for part in job.parts} == {"x", "bob"}
    done = resume_job(load_settings(), job.parts[1].source, owner)
    assert [one.resumed for one in done.banks] == [20, 14]
    assert (job.id, len(texts("x")), len(texts("bob"))) == (name, 20, 20)


def test_a_cancelled_job_is_reverted_in_all_banks(source: Path) -> None:
    """The next import of the same file starts from the beginning."""
    name = killed(source, None, at=4)
    done = cancel_job(load_settings(), name)
    assert (done.records, _jobs()) == (34, [])
    assert [one.resumed for one in bring(source, None).banks] == [0, 0]
    with pytest.raises(UnknownJobError):
        cancel_job(load_settings(), name)


def test_a_job_with_other_options_is_still_listed(source: Path) -> None:
    """A completed import of the same file does not hide it."""
    name = killed(source, at=1)
    bring(source, on_conflict=ConflictPolicy.OVERWRITE)
    assert [job.id for job in _jobs()] == [name]
    cancel_job(load_settings(), name)
    assert len(texts()) == 40


def test_a_job_is_not_resumed_from_another_file(source: Path) -> None:
    """Fault: the file was replaced in the meantime. Nothing is changed."""
    name = killed(source, at=1)
    before = size()
    write(source, rows(("1", "other")))
    with pytest.raises(UsageError, match="changed since the import was started"):
        resume_job(load_settings(), name, owner)
    source.unlink()
    with pytest.raises(UnreadableError):
        resume_job(load_settings(), name, owner)
    assert size() == before


def test_a_job_with_an_unknown_option_is_refused_and_can_be_cancelled(source: Path) -> None:
    """Another version may have started it, with another option value."""
    name = killed(source, at=1, unsafe_accept=frozenset({"stranger"}))
    with pytest.raises(UsageError, match="'stranger'") as refused:
        resume_job(load_settings(), name, owner)
    assert f"satchel job cancel {name}" in str(refused.value.hint)
    cancel_job(load_settings(), name)
    assert _jobs() == []


def test_a_running_job_is_reported_as_running_and_cannot_be_cancelled(source: Path) -> None:
    """As long as its process runs."""
    name = killed(source, at=1)
    with import_lock(load_settings()):
        pass
    assert _jobs()[0].state == "waiting"
    seen = list[str]()

    def look(done: int, _total: int) -> None:
        seen.extend(job.state for job in _jobs())
        if done < 40:
            with pytest.raises(LockedError):
                cancel_job(load_settings(), name)

    bring(source, on_logging=look)
    assert set(seen) == {"running"}


def test_an_unknown_job_id_is_an_error(source: Path) -> None:
    """A prefix that is too short, or of no job."""
    name = killed(source, at=1)
    for wanted in ("", name[:5], "0" * 12, "nope nope"):
        with pytest.raises(UnknownJobError):
            cancel_job(load_settings(), wanted)


def test_the_error_that_ends_an_import_says_that_it_can_be_resumed(source: Path) -> None:
    """For example an error in a callback."""

    def angry(_done: int, _total: int) -> None:
        raise ValueError("enough")

    with pytest.raises(ValueError, match="enough") as caught:
        bring(source, on_logging=angry)
    (job,) = _jobs()
    assert any(f"satchel job cancel {job.id}" in note for note in caught.value.__notes__)
    assert (texts(), _jobs()[0].done) == ([], 7)
    assert bring(source).banks[0].resumed == 7


def test_progress_is_always_reported_at_the_end(source: Path) -> None:
    """For new records, for records logged before, and for none."""
    with pytest.raises(KilledError):
        bring(source, on_logging=killing(5))
    told = list[tuple[int, int]]()
    bring(source, on_logging=lambda done, total: told.append((done, total)))
    assert told == [(40, 40)]
    told.clear()
    bring(source, on_logging=lambda done, total: told.append((done, total)))
    assert told == [(40, 40)]
