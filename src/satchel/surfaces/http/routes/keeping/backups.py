"""Backups put back, tried and dropped; at the destinations of the configuration and no others."""

from typing import Annotated

import msgspec
from fastapi import Response

from satchel.actions.backing_up.drilling import drill_backup
from satchel.actions.backing_up.dropping import prune_backups
from satchel.actions.backing_up.options import DrillOptions, PruneOptions, RestoreOptions
from satchel.actions.backing_up.restoring import restore_backup
from satchel.surfaces.http.admission import routes
from satchel.surfaces.http.answers import answer
from satchel.surfaces.http.asking import Owner, Served
from satchel.surfaces.http.operations import body
from satchel.surfaces.http.works import Tell, begun, with_progress

router = routes(prefix="/v1/backups", tags=["backups"])


@router.post("/drill", status_code=202)
def drill(
    options: Annotated[DrillOptions, body(drill_backup)], _: Owner, gateway: Served
) -> Response:
    """Restore a backup for a moment and compare, as a job; nothing that is in use is touched."""

    def work(tell: Tell) -> object:
        found = drill_backup.run(gateway.settings, with_progress(options, tell))
        return {**msgspec.to_builtins(found), "is_good": found.is_good}

    return begun(gateway.works, "backup drill", work)


@router.post("/restore", status_code=202)
def restore(
    options: Annotated[RestoreOptions, body(restore_backup)], caller: Owner, gateway: Served
) -> Response:
    """Put a backup back into the store that is served, as a job.

    What has been erased since is erased again first. Nothing that exists is replaced without
    ``overwrite``, and then it is backed up first. The job cannot be cancelled once it has begun.
    """

    def work(tell: Tell) -> object:
        tell(0, 0, None)
        try:
            return restore_backup.run(gateway.settings, options)
        finally:
            caller.forget()

    return begun(gateway.works, "backup restore", work)


@router.post("/prune")
def prune(
    options: Annotated[PruneOptions, body(prune_backups)], _: Owner, gateway: Served
) -> Response:
    """Drop the backups that no rule keeps; the newest that was read again whole stays."""
    return answer({"dropped": prune_backups.run(gateway.settings, options)})
