"""One piece of work that is under way or was cut short, as a value."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec
from blake3 import blake3

from satchel.jobs.journal import Journal

_DIGITS = 12


class Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a job has done to one bank."""

    bank: str
    """Its id."""

    source: str
    """Id of the source record of the import."""

    done: int
    """Records that are logged, which nobody sees yet."""

    total: int
    """Records that are to be logged; 0 where that was not kept."""

    name: str | None = None


class Job(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An import that is not complete."""

    id: str
    kind: Literal["import"]
    state: Literal["running", "waiting"]
    """``waiting`` to be resumed or cancelled."""

    at: str
    """When it began."""

    input: str | None
    """What is imported, when that is known."""

    options: dict[str, Any]
    """As it was asked for, where it differs from the defaults."""

    parts: list[Part]

    @property
    def done(self) -> int:
        """Records that are logged."""
        return sum(one.done for one in self.parts)

    @property
    def total(self) -> int:
        """Records that are to be logged, in the banks that it reached."""
        return sum(one.total for one in self.parts)


def job_id(journal: Journal) -> str:
    """Return by what a job is called; its parts in several banks share it."""
    return blake3(journal.seed, derive_key_context="satchel 2026 job id").hexdigest()[:_DIGITS]


def jobs_of(
    found: Iterable[tuple[Journal, Part]], running: Mapping[str, bool] | None = None
) -> list[Job]:
    """Return the jobs that journals tell of, the oldest first.

    Args:
        found: Each journal, with what it did to its bank.
        running: By the id of a job, whether a process is at it.
    """
    parts = dict[str, list[Part]]()
    first = dict[str, Journal]()
    for journal, part in found:
        name = job_id(journal)
        parts.setdefault(name, []).append(part)
        first.setdefault(name, journal)
    jobs = [
        Job(
            id=name,
            kind="import",
            state="running" if (running or {}).get(name) else "waiting",
            at=journal.at,
            input=journal.request.get("input"),
            options={k: v for k, v in journal.request.items() if k != "input"},
            parts=parts[name],
        )
        for name, journal in first.items()
    ]
    return sorted(jobs, key=lambda job: (job.at, job.id))
