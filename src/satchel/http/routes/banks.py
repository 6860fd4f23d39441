"""Routes of banks: listed, created, counted, configured, and their owners and tokens."""

from dataclasses import replace
from typing import Annotated

from fastapi import Response

from satchel.admin import statistics
from satchel.admin.bank_operations import (
    BankCreateOptions,
    copy_bank,
    create_bank,
    delete_bank,
    list_banks,
    merge_banks,
    rename_bank,
)
from satchel.admin.settings import set_config, show_config
from satchel.api.operations import run_on
from satchel.bank.connections import configured_store
from satchel.bank.key_operations import OwnedBank, list_owners
from satchel.bank.machine_keys import require_owner
from satchel.bank.open_bank import find_bank
from satchel.bank.token_operations import (
    audience_from_elsewhere,
    issue_token,
    list_tokens,
    revoke_token,
)
from satchel.bank.tokens import (
    TokenIssueOptions,
    TokenRevokeOptions,
    TokenVerifyOptions,
    verify_token,
)
from satchel.http.admission import AnyCaller, Owner, Served, routes
from satchel.http.answers import answer
from satchel.http.operations import add_job, add_route, body, on_store, serves
from satchel.model.values import ID_PREFIX

router = routes(prefix="/v1/banks", tags=["banks"])


@router.get("")
@serves(list_banks)
def list_(caller: Owner) -> Response:
    """List the banks of the store. Each is opened and verified."""
    return answer(list_banks.json(caller.satchel.list_banks()))


@router.post("", status_code=201)
def create(options: Annotated[BankCreateOptions, body(create_bank)], caller: Owner) -> Response:
    """Create a bank."""
    made = caller.satchel.create_bank(options.name)
    created = {"id": made.id, "name": made.name}
    return answer(created, 201, {"Location": f"/v1/banks/{made.id}"})


@router.get("/{bank}")
@serves(statistics.show_stats)
def count_bank(bank: str, caller: AnyCaller) -> Response:
    """Count what is in a bank; every memory is verified."""
    return answer(caller.bank(bank).stats())


bank_router = routes(prefix="/v1/banks/{bank}", tags=["banks"])

add_route(bank_router, "PATCH", "", rename_bank, run=on_store, bank="bank")
add_route(bank_router, "DELETE", "", delete_bank, run=on_store, bank="bank")
add_job(bank_router, "/copy", copy_bank, run=on_store, bank="bank")
add_job(bank_router, "/merge", merge_banks, run=on_store, bank="bank")
add_route(bank_router, "GET", "/config", show_config)
add_route(bank_router, "PATCH", "/config", set_config)


@bank_router.get("/owners")
@serves(list_owners)
def owners(bank: str, _: Owner, gateway: Served) -> Response:
    """List the owners of a bank, and how many of them must sign a decision about it."""
    settings = gateway.settings
    require_owner(settings, "banks")
    with configured_store(settings, read_only=True) as store:
        return answer(list_owners(OwnedBank(settings, store, find_bank(store, bank))))


_IN_PATH = {"token": "token"}

token_router = routes(prefix="/v1/banks/{bank}/tokens", tags=["tokens"])

add_route(token_router, "GET", "", list_tokens)


@token_router.post("", status_code=201)
def issue(
    bank: str, options: Annotated[TokenIssueOptions, body(issue_token)], caller: Owner
) -> Response:
    """Issue a token as an owner of the bank, and record it in its log."""
    if options.audience is not None:
        known = audience_from_elsewhere(caller.settings, options.audience)
        options = replace(options, audience=known)
    return answer(run_on(caller.bank(bank).tokens, issue_token, options), 201)


@token_router.post("/verify")
def verify(
    bank: str, options: Annotated[TokenVerifyOptions, body(verify_token)], caller: Owner
) -> Response:
    """Verify a token: its signatures, issuer and times, and that it is not revoked."""
    options = replace(options, token=_json(str(options.token)))
    return answer(run_on(caller.bank(bank).tokens, verify_token, options))


@token_router.post("/{token}/revoke")
def revoke(
    bank: str,
    options: Annotated[TokenRevokeOptions, body(revoke_token, **_IN_PATH)],
    caller: Owner,
) -> Response:
    """Revoke a token, and with it every token that was made from it."""
    wanted = f"{ID_PREFIX}{str(options.token).removeprefix(ID_PREFIX)}"  # else it might name a file
    options = replace(options, token=wanted)
    return answer(run_on(caller.bank(bank).tokens, revoke_token, options))


def _json(token: str) -> str:
    """Return a token's JSON: the name of a file here would be a path from elsewhere."""
    return token if token.lstrip().startswith("{") else "{" + token
