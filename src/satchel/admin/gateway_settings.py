"""The settings of a running server: what it and its store are configured with. No secret is shown.

Nothing here changes anything: the operator of the machine does, by the configuration file and the
commands.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec

from satchel.bank.checks import versions
from satchel.bank.connections import is_encrypted, shown_address
from satchel.bank.owner_rights import require_owner
from satchel.config.settings import Settings, Value, sections
from satchel.errors import SatchelError, shown_host, shown_place, shown_text
from satchel.ports.operations import Options, operation
from satchel.recall.models import embedder_of, server_of

_RUNNING = "`satchel config show` prints the settings; this is about a running server."


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningServer:
    """A server, as its settings are asked for."""

    settings: Settings
    verifier: str
    has_operator_token: bool
    bounds: Mapping[str, float]
    """The limits on requests, by name."""


class StoreSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The store that is served."""

    kind: str
    address: str
    """Without passwords."""

    chosen_by: str
    """What decided: a flag, a variable, the configuration file, or the default."""

    is_encrypted: bool
    requires_encryption: bool
    """Whether a store in plain is refused."""


class EmbedderSummary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What makes vectors, and whether it can."""

    name: str
    """Without passwords."""

    state: Literal["ready", "configured", "not available"]
    """``configured``: a server, which was not asked."""

    server: str | None = None
    """Kind and host of the server; None for a model on this machine."""

    is_automatic: bool
    """Whether vectors are made without being asked for."""

    reranker: str | None = None
    problem: str | None = None
    hint: str | None = None


class AccessSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Who may use the server, and whose signatures count."""

    operator_token: bool
    """Whether one is required; without one, everybody on this machine is the operator."""

    verifier: str
    """The key that proofs of possession are made for."""

    signing_key: str
    """Name of the key that signs for this machine."""

    threshold: int
    """How many trusted keys must have signed a file."""


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a server and its store are configured with."""

    versions: dict[str, str]
    file: str
    """The configuration file, which need not exist."""

    file_exists: bool
    notes: list[str]
    """What the file says that has no meaning here."""

    store: StoreSummary
    embedder: EmbedderSummary
    access: AccessSummary
    values: list[Value]
    """The settings, and where each comes from."""

    requests: dict[str, float]
    """The limits on requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettingsOptions(Options):
    """No options."""


@operation(
    ServerSettingsOptions,
    name="server settings",
    absent=dict.fromkeys(("cli", "python", "mcp"), _RUNNING),
)
def server_settings(server: RunningServer, _: ServerSettingsOptions) -> ServerSettings:
    """Show what a server and its store are configured with, as read when it was started.

    Passwords and keys are not shown.
    """
    settings = server.settings
    require_owner(settings, "serve")
    options, chosen = settings.options, settings.chosen
    return ServerSettings(
        versions=versions(),
        file=str(settings.file),
        file_exists=settings.file.exists(),
        notes=settings.notes,
        store=StoreSummary(
            kind=str(chosen.backend or "unknown"),
            address=shown_address(chosen.address),
            chosen_by=chosen.why,
            is_encrypted=is_encrypted(chosen.address),
            requires_encryption=options.store.encrypted,
        ),
        embedder=_embedder(settings),
        access=AccessSummary(
            operator_token=server.has_operator_token,
            verifier=server.verifier,
            signing_key=options.keys.name,
            threshold=options.verify.threshold,
        ),
        values=_values(settings),
        requests=dict(server.bounds),
    )


def _embedder(settings: Settings) -> EmbedderSummary:
    inference = settings.options.inference
    server = server_of(inference)
    summary = EmbedderSummary(
        name=shown_place(inference.embedder),
        state="ready" if server is None else "configured",
        server=shown_host(server) if server else None,
        is_automatic=inference.automatic,
        reranker=shown_place(inference.reranker) or None,
    )
    try:
        embedder_of(settings)
    except SatchelError as error:
        hint = None if error.hint is None else shown_text(error.hint)
        return msgspec.structs.replace(
            summary, state="not available", problem=shown_text(error.message), hint=hint
        )
    return summary


def _values(settings: Settings) -> list[Value]:
    """Return the settings of all tables that hold plain values; passwords are masked."""
    tables = sections()
    return [value for value in settings.values if value.name.partition(".")[0] in tables]
