"""What is the owner's alone, whatever token somebody presents."""

from satchel.actions.config import Settings
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
"""What concerns a bank, a store or a machine as a whole, and is its owner's."""


def require_owner(settings: Settings, action: str) -> None:
    """Refuse an action of the owner's to somebody who presented a token.

    Raises:
        PermissionRefusedError: If a token was presented.
    """
    if action not in OWNERS:
        raise ValueError(f"no action of the owner's: {action}")
    if settings.token is not None:
        raise PermissionRefusedError(
            f"no token allows this, only the owner may do it: {action}",
            hint="Leave --token and SATCHEL_TOKEN out, as the owner.",
        )
