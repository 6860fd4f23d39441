"""Banks as a whole: named, copied, merged, removed, and the settings that they carry."""

from fastapi import Response

from satchel.actions.banks import rename_bank
from satchel.actions.keys.owners import list_owners
from satchel.actions.opened import opened_bank
from satchel.actions.signing import signing_key
from satchel.actions.upkeep.bank_settings import set_config, show_config
from satchel.actions.upkeep.whole_banks import copy_bank, delete_bank, merge_banks
from satchel.surfaces.http.admission import routes
from satchel.surfaces.http.answers import answer
from satchel.surfaces.http.asking import Owner, Served
from satchel.surfaces.http.routes.keeping.bodies import BankCopy, BankName, BankValues, Merge
from satchel.surfaces.http.works import Tell, begun
from satchel.transfer.between_banks import OnConflict

router = routes(prefix="/v1/banks/{bank}", tags=["banks"])


@router.patch("")
def rename(bank: str, body: BankName, caller: Owner, gateway: Served) -> Response:
    """Give a bank another name, as its owner; its id stays."""
    settings = gateway.settings
    done = rename_bank(settings, bank, body.name, signing_key(settings)[0])
    caller.forget()
    return answer(done)


@router.delete("")
def delete(bank: str, caller: Owner, gateway: Served, dry_run: bool = False) -> Response:
    """Remove a bank, whole; nothing is left of it but what backups hold."""
    done = delete_bank(gateway.settings, bank, dry_run=dry_run)
    caller.forget()
    return answer(done)


@router.post("/copy", status_code=202)
def copy(bank: str, body: BankCopy, _: Owner, gateway: Served) -> Response:
    """Make a bank with the memories of another, as a job."""
    settings = gateway.settings

    def work(tell: Tell) -> object:
        return copy_bank(
            *(settings, bank, body.name, signing_key(settings)[0]),
            retired=body.retired,
            progress=lambda done, total: tell(done, total, None),
        )

    return begun(gateway.works, "bank copy", work)


@router.post("/merge", status_code=202)
def merge(bank: str, body: Merge, _: Owner, gateway: Served) -> Response:
    """Carry the current memories of a bank into another, as a job; the first stays as it is."""

    def work(tell: Tell) -> object:
        return merge_banks(
            *(gateway.settings, bank, body.into),
            on_conflict=OnConflict(body.on_conflict),
            dry_run=body.dry_run,
            progress=lambda done, total: tell(done, total, None),
        )

    return begun(gateway.works, "bank merge", work)


@router.get("/owners")
def owners(bank: str, _: Owner, gateway: Served) -> Response:
    """Return who owns a bank, and how many of them have to sign what is decided about it."""
    return answer(list_owners(gateway.settings, bank))


@router.get("/config")
def config(bank: str, _: Owner, gateway: Served) -> Response:
    """Return what holds for a bank, and where each of it comes from."""
    with opened_bank(gateway.settings, bank) as opened:
        return answer(show_config(opened))


@router.patch("/config")
def change_config(bank: str, body: BankValues, _: Owner, gateway: Served) -> Response:
    """Change the settings that a bank carries."""
    with opened_bank(gateway.settings, bank, writes=True) as opened:
        return answer(set_config(opened, body.values))
