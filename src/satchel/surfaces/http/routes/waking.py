"""Rehydration, quarantine and promotion."""

from functools import partial

from satchel.actions.waking import promoting, quarantining, rehydrating
from satchel.surfaces.http.admission import Takes, routes
from satchel.surfaces.http.asking import Asking
from satchel.surfaces.http.bank_routes import add_route

router = routes(prefix="/v1/banks/{bank}", tags=["waking"])

_add = partial(add_route, router)
_add("POST", "/rehydrate", rehydrating.rehydrate_memories, caller=Asking, body_size=Takes.TEXT)
_add("GET", "/quarantine", quarantining.list_quarantine)
_add("GET", "/quarantine/{memory}", quarantining.show_held)
_add("POST", "/quarantine/scan", quarantining.screen_bank)
_add("POST", "/quarantine/add", quarantining.quarantine)
_add("POST", "/quarantine/release", quarantining.release)
_add("POST", "/quarantine/reject", quarantining.reject)
_add("POST", "/promote", promoting.promote)
