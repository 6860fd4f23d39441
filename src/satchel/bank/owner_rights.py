"""Actions that only the owner may do, whatever token is presented."""

from satchel.config.settings import Settings
from satchel.errors import PermissionRefusedError

OWNERS = frozenset(
    {
        "init",
        "import",
        "undo",
        "jobs",
        "quarantine",
        "promote",
        "embed",
        "prune",
        "erase",
        "recover",
        "everything",
        "pull",
        "push",
        "migrate",
        "store",
        "agent",
        "amplihack",
        "code",
        "sessions",
        "files",
        "evaluate",
        "provider",
        "sink",
        "backup",
        "banks",
        "bank settings",
        "receipts",
        "keys",
        "tokens",
        "doctor",
        "serve",
        "connect",
        "watch",
        "log",
    }
)
"""Actions on a bank, a store or a machine as a whole."""


def require_owner(settings: Settings, action: str) -> None:
    """Refuse an owner's action if a token was presented.

    Raises:
        PermissionRefusedError: If a token was presented.
    """
    if action not in OWNERS:
        raise ValueError(f"not an owner action: {action}")
    if settings.token is not None:
        raise PermissionRefusedError(
            f"only the owner may do this, with no token: {action}",
            hint="As the owner, drop --token and unset SATCHEL_TOKEN.",
        )
