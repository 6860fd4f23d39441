"""Rehydration, quarantine and promotion."""

from functools import partial

from satchel.http.admission import AnyCaller, BodyKind, routes
from satchel.http.bank_routes import add_route
from satchel.rehydrate import operations as rehydrate_operations
from satchel.rehydrate import quarantine

router = routes(prefix="/v1/banks/{bank}", tags=["waking"])

_add = partial(add_route, router)
_add(
    "POST",
    "/rehydrate",
    rehydrate_operations.rehydrate_memories,
    caller=AnyCaller,
    body_size=BodyKind.TEXT,
)
_add("GET", "/quarantine", quarantine.list_quarantine)
_add("GET", "/quarantine/{memory}", quarantine.show_held)
_add("POST", "/quarantine/scan", quarantine.screen_bank)
_add("POST", "/quarantine/add", quarantine.quarantine)
_add("POST", "/quarantine/release", quarantine.release)
_add("POST", "/quarantine/reject", quarantine.reject)
_add("POST", "/promote", quarantine.promote)
