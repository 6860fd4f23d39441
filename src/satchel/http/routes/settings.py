"""The settings of this server: shown to the operator, and never written."""

from dataclasses import asdict

from fastapi import Request, Response

from satchel.admin.gateway_settings import RunningServer, ServerSettingsOptions, server_settings
from satchel.http.admission import Owner, Served, routes
from satchel.http.answers import answer
from satchel.http.operations import serves

router = routes(tags=["about"])


@router.get("/v1/settings")
@serves(server_settings)
def show_settings(request: Request, gateway: Served, _: Owner) -> Response:
    """Show what this server and its store are configured with. Secrets are not shown."""
    bounds = asdict(request.app.state.bounds)
    server = RunningServer(
        settings=gateway.settings,
        verifier=gateway.verifier,
        has_operator_token=gateway.has_operator_token,
        bounds={name: value for name, value in bounds.items() if isinstance(value, int | float)},
    )
    return answer(server_settings.run(server, ServerSettingsOptions()))
