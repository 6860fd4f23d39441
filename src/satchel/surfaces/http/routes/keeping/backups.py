"""Backups put back, tried and dropped; at the destinations of the configuration and no others."""

import msgspec
from fastapi import Response

from satchel.actions.backing_up.destinations import moment_said
from satchel.actions.backing_up.drilling import DrillOptions, drill_backup
from satchel.actions.backing_up.dropping import prune_backups, rules_of
from satchel.actions.backing_up.restored import RestoreOptions
from satchel.actions.backing_up.restoring import restore_backup
from satchel.actions.signing import owner_keys
from satchel.surfaces.http.admission import routes
from satchel.surfaces.http.answers import answer
from satchel.surfaces.http.asking import Owner, Served
from satchel.surfaces.http.routes.keeping.bodies import BackupPruning, Drilling, Restoring
from satchel.surfaces.http.works import Tell, begun

router = routes(prefix="/v1/backups", tags=["backups"])


@router.post("/drill", status_code=202)
def drill(body: Drilling, _: Owner, gateway: Served) -> Response:
    """Restore a backup for a moment and compare, as a job; nothing that is in use is touched."""

    def work(tell: Tell) -> object:
        options = DrillOptions(
            backup=body.backup,
            questions=body.questions,
            owners=lambda: owner_keys(gateway.settings),
            progress=lambda done, total: tell(done, total, None),
        )
        found = drill_backup(gateway.settings, options)
        return {**msgspec.to_builtins(found), "is_good": found.is_good}

    return begun(gateway.works, "backup drill", work)


@router.post("/restore", status_code=202)
def restore(body: Restoring, caller: Owner, gateway: Served) -> Response:
    """Put a backup back into the store that is served, as a job.

    What was erased since is erased again first. Nothing that is there is touched without ``over``,
    and then it is backed up first. It cannot be called off once it has begun.
    """
    at = None if body.at is None else moment_said(body.at)

    def work(tell: Tell) -> object:
        tell(0, 0, None)
        options = RestoreOptions(
            backup=body.backup,
            at=at,
            banks=tuple(body.banks),
            over=body.over,
            accept_loss=body.accept_loss,
            files=body.files,
            owners=lambda: owner_keys(gateway.settings),
            dry_run=body.dry_run,
        )
        try:
            return restore_backup(gateway.settings, options)
        finally:
            caller.forget()

    return begun(gateway.works, "backup restore", work)


@router.post("/prune")
def prune(body: BackupPruning, _: Owner, gateway: Served) -> Response:
    """Drop the backups that no rule keeps; the newest that was read again whole stays."""
    rules = rules_of(gateway.settings)
    rules = rules._replace(
        days=rules.days if body.days is None else body.days,
        last=rules.last if body.keep_last is None else body.keep_last,
    )
    found = prune_backups(gateway.settings, (), rules=rules, dry_run=body.dry_run)
    return answer({"dropped": list(found)})
