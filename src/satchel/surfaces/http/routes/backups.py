"""Backups, at the destinations of the configuration: a path from elsewhere is none."""

from typing import Annotated

from fastapi import Response

from satchel.actions.backing_up.kept.standing import BackupStatusOptions, backup_status
from satchel.actions.backing_up.listing import list_backups, verify_backups
from satchel.actions.backing_up.options import BackupListOptions, BackupOptions, BackupVerifyOptions
from satchel.actions.backing_up.running import run_backup
from satchel.actions.backing_up.setup import SetupOptions, backup_setup
from satchel.surfaces.http.admission import routes
from satchel.surfaces.http.answers import answer
from satchel.surfaces.http.asking import Owner, Served
from satchel.surfaces.http.operations import body, query
from satchel.surfaces.http.works import Tell, begun, with_progress

router = routes(prefix="/v1/backups", tags=["backups"])


@router.get("")
def list_all(
    options: Annotated[BackupListOptions, query(list_backups)], gateway: Served, _: Owner
) -> Response:
    """List the backups at each destination, oldest first."""
    return answer(list_backups.run(gateway.settings, options))


@router.get("/freshness")
def freshness(
    options: Annotated[BackupStatusOptions, query(backup_status)], gateway: Served, _: Owner
) -> Response:
    """Report for each destination how the last backup went, and whether that is recent enough."""
    return answer(backup_status.json(backup_status.run(gateway.settings, options)))


@router.get("/setup")
def setup(
    options: Annotated[SetupOptions, query(backup_setup)], gateway: Served, _: Owner
) -> Response:
    """Show how backups are configured, and which lines to add to which file."""
    return answer(backup_setup.run(gateway.settings, options))


@router.post("", status_code=202)
def run(options: Annotated[BackupOptions, body(run_backup)], gateway: Served, _: Owner) -> Response:
    """Back the store up to each destination, as a job; what went wrong at one is in its result."""

    def work(tell: Tell) -> object:
        return run_backup.run(gateway.settings, with_progress(options, tell))

    return begun(gateway.works, "backup", work)


@router.post("/verify", status_code=202)
def verify(
    options: Annotated[BackupVerifyOptions, body(verify_backups)], gateway: Served, _: Owner
) -> Response:
    """Read backups again, as a job: the newest, those that are named, or all."""

    def work(tell: Tell) -> object:
        return verify_backups.json(
            verify_backups.run(gateway.settings, with_progress(options, tell))
        )

    return begun(gateway.works, "backup verify", work)
