"""Conversations of a bank: recorded, shown, forked and distilled."""

from functools import partial

from satchel.http.admission import BodyKind, routes
from satchel.http.bank_routes import add_route
from satchel.sessions import branches, distillation, operations
from satchel.sessions import queries as sessions_queries

router = routes(prefix="/v1/banks/{bank}/sessions", tags=["sessions"])

_add = partial(add_route, router)
_add("GET", "", sessions_queries.list_sessions)
_add("POST", "", operations.record_session, status=201, body_size=BodyKind.TEXT)
_add("GET", "/{session}", sessions_queries.show_session)
_add("PATCH", "/{session}", branches.rename_session)
_add("POST", "/{session}/archive", branches.archive_session)
_add("PATCH", "/{session}/state", operations.set_state, body_size=BodyKind.TEXT)
_add("POST", "/{session}/distill", distillation.distill)
_add("POST", "/{session}/messages", operations.record_session, status=201, body_size=BodyKind.TEXT)
_add("GET", "/{session}/checkpoints", sessions_queries.list_checkpoints)
_add("POST", "/{session}/checkpoints", branches.create_checkpoint, status=201)
_add("POST", "/{session}/fork", branches.fork, status=201)
_add("GET", "/{session}/diff", sessions_queries.diff_sessions)
