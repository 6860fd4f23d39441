"""Backups at the configured destinations; requests cannot name other paths."""

from typing import Annotated

import msgspec
from fastapi import Response

from satchel.backup.destinations import (
    SetupOptions,
    backup_setup,
    backup_status,
)
from satchel.backup.drill import drill_backup
from satchel.backup.inventory import list_backups, verify_backups
from satchel.backup.options import (
    BackupListOptions,
    BackupOptions,
    BackupVerifyOptions,
    DrillOptions,
    PruneOptions,
    RestoreOptions,
)
from satchel.backup.prune import prune_backups
from satchel.backup.restore import restore_backup
from satchel.backup.run import run_backup
from satchel.http.admission import Owner, Served, routes
from satchel.http.answers import answer
from satchel.http.jobs import ReportProgress, start_job, with_progress
from satchel.http.operations import body, query
from satchel.ports.operations import NoOptions

router = routes(prefix="/v1/backups", tags=["backups"])


@router.get("")
def list_all(
    options: Annotated[BackupListOptions, query(list_backups)], gateway: Served, _: Owner
) -> Response:
    """List the backups at each destination, oldest first."""
    return answer(list_backups.run(gateway.settings, options))


@router.get("/freshness")
def freshness(
    options: Annotated[NoOptions, query(backup_status)], gateway: Served, _: Owner
) -> Response:
    """Report for each destination the last backup, and whether it is recent enough."""
    return answer(backup_status.json(backup_status.run(gateway.settings, options)))


@router.get("/setup")
def setup(
    options: Annotated[SetupOptions, query(backup_setup)], gateway: Served, _: Owner
) -> Response:
    """Show how backups are configured, and the lines to add to the configuration file."""
    return answer(backup_setup.run(gateway.settings, options))


@router.post("", status_code=202)
def run(options: Annotated[BackupOptions, body(run_backup)], gateway: Served, _: Owner) -> Response:
    """Back up the store to each destination, as a job; its result has the errors of each."""

    def work(tell: ReportProgress) -> object:
        return run_backup.run(gateway.settings, with_progress(options, tell))

    return start_job(gateway.jobs, "backup", work)


@router.post("/verify", status_code=202)
def verify(
    options: Annotated[BackupVerifyOptions, body(verify_backups)], gateway: Served, _: Owner
) -> Response:
    """Verify backups, as a job: the newest, the named ones, or all."""

    def work(tell: ReportProgress) -> object:
        return verify_backups.json(
            verify_backups.run(gateway.settings, with_progress(options, tell))
        )

    return start_job(gateway.jobs, "backup verify", work)


restore_router = routes(prefix="/v1/backups", tags=["backups"])


@restore_router.post("/drill", status_code=202)
def drill(
    options: Annotated[DrillOptions, body(drill_backup)], _: Owner, gateway: Served
) -> Response:
    """Test a restore, as a job: restore a backup temporarily, compare it, and delete it."""

    def work(tell: ReportProgress) -> object:
        found = drill_backup.run(gateway.settings, with_progress(options, tell))
        return {**msgspec.to_builtins(found), "is_good": found.is_good}

    return start_job(gateway.jobs, "backup drill", work)


@restore_router.post("/restore", status_code=202)
def restore(
    options: Annotated[RestoreOptions, body(restore_backup)], caller: Owner, gateway: Served
) -> Response:
    """Restore a backup into the store of the server, as a job.

    Memories that were erased since are erased again first. Nothing is replaced without
    ``overwrite``, and then it is backed up first. The job cannot be cancelled after its start.
    """

    def work(tell: ReportProgress) -> object:
        tell(0, 0, None)
        try:
            return restore_backup.run(gateway.settings, options)
        finally:
            caller.forget()

    return start_job(gateway.jobs, "backup restore", work)


@restore_router.post("/prune")
def prune(
    options: Annotated[PruneOptions, body(prune_backups)], _: Owner, gateway: Served
) -> Response:
    """Delete the backups that no rule retains; the newest verified one is always retained."""
    return answer({"dropped": prune_backups.run(gateway.settings, options)})
