"""Conversations of a bank: recorded, shown, forked and distilled."""

from functools import partial

from satchel.actions.sessions import branching, distilling, looking, operations
from satchel.surfaces.http.admission import Takes, routes
from satchel.surfaces.http.bank_routes import add_route

router = routes(prefix="/v1/banks/{bank}/sessions", tags=["sessions"])

_add = partial(add_route, router)
_add("GET", "", looking.list_sessions)
_add("POST", "", operations.record_session, status=201, body_size=Takes.TEXT)
_add("GET", "/{session}", looking.show_session)
_add("PATCH", "/{session}", branching.rename_session)
_add("POST", "/{session}/archive", branching.archive_session)
_add("PATCH", "/{session}/state", operations.set_state, body_size=Takes.TEXT)
_add("POST", "/{session}/distill", distilling.distill)
_add("POST", "/{session}/messages", operations.record_session, status=201, body_size=Takes.TEXT)
_add("GET", "/{session}/checkpoints", looking.list_checkpoints)
_add("POST", "/{session}/checkpoints", branching.create_checkpoint, status=201)
_add("POST", "/{session}/fork", branching.fork, status=201)
_add("GET", "/{session}/diff", looking.diff_sessions)
