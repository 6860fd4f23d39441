"""What each action asks for, of somebody who presents a capability token.

An action on a bank asks by its name here, whoever calls it; what stands here is what the docs say.
Where no token is presented, this machine acts for the owner, and everything is allowed.
"""

from satchel.seal.tokens.token import Permission

_READ = frozenset({Permission.READ})
_CHANGE = frozenset({Permission.READ, Permission.WRITE})

NEEDS: dict[str, frozenset[Permission]] = {
    "list": _READ,
    "show": _READ,
    "history": _READ,
    "stats": _READ,
    "recall": _READ,
    "rehydrate": frozenset({Permission.REHYDRATE}),
    "duplicates": _READ,
    "diff": _READ,
    "links": _READ,
    "path": _READ,
    "remember": frozenset({Permission.WRITE}),
    "derive": frozenset({Permission.DERIVE, Permission.READ}),
    "update": _CHANGE,
    "correct": _CHANGE,
    "forget": _CHANGE,
    "restore": _CHANGE,
    "redact": frozenset({Permission.REDACT}),
    "export": frozenset({Permission.EXPORT, Permission.READ}),
    "disclose": frozenset({Permission.EXPORT, Permission.READ}),
    "read files": _READ,
    "change files": _CHANGE,
}
"""The actions that a holder can be allowed, each with all the permissions that it needs."""
