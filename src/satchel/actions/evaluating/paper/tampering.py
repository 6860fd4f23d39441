"""Tampering with a signed artifact, field by field, and with tokens: how much of it is noticed."""

import random
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from satchel.actions.evaluating.paper.mix import sealed, written
from satchel.actions.evaluating.paper.table import Table
from satchel.errors import PermissionRefusedError, SatchelError, TokenError
from satchel.seal.artifact.opening import Encoding
from satchel.seal.encoding.jcs import canonical
from satchel.seal.judging import verify_file
from satchel.seal.records import digest
from satchel.seal.signing.key import SigningKey
from satchel.seal.tokens.chain import SKEW, Chain, Surroundings, linked, opened_value
from satchel.seal.tokens.possession import prove, require_possession
from satchel.seal.tokens.scope import Wildcard
from satchel.seal.tokens.token import Grant, issue, shifted
from satchel.seal.verify.policy import TrustPolicy

FIELDS, PARENTS, ROOTS, TOKENS = 1000, 500, 100, 50
"""Trials of each kind; the first two as in the paper."""

_ENTRIES = 20
_HEX = "0123456789abcdef"
_NOW = "2026-07-01T09:00:00.000000Z"

Change = Callable[[dict[str, Any], random.Random], None]


def tampering_table(folder: Path, *, fields: int = FIELDS, parents: int = PARENTS) -> Table:
    """Return how many changes to a signed artifact are noticed.

    Args:
        folder: For files on the way.
        fields: Trials in which one field of an entry is changed.
        parents: Trials in which the parents of an entry are.
    """
    kinds: list[tuple[str, int, Change]] = [
        ("one field of an entry", fields, _change_field),
        ("parents of an entry", parents, _change_parents),
        ("an entry, its id made to fit", min(ROOTS, parents), _change_and_fit),
    ]
    key = SigningKey.generate()
    file = written(folder / "signed.pam", sealed()[:_ENTRIES], Encoding.JSON, key)
    policy = TrustPolicy(keys=frozenset([key.did]))
    whole = msgspec.json.decode(file.read_bytes())
    if not verify_file(file, policy):
        raise AssertionError(
            "the artifact does not verify before it is changed"
        )  # nothing would count
    chance = random.Random(11)  # noqa: S311 - the same in every run is the point
    rows: list[list[Any]] = []
    for name, count, change in kinds:
        noticed = sum(_is_noticed(folder, whole, policy, change, chance) for _ in range(count))
        rows.append([name, count, noticed, f"{noticed / count:.1%}" if count else "-", "100%"])
    return Table(
        name="tampering",
        title="Tamper detection",
        columns=["changed", "trials", "noticed", "rate", "the paper's"],
        rows=rows,
        note=f"A signed artifact of {_ENTRIES} entries; each trial changes one and verifies the "
        f"file.",
    )


def _is_noticed(
    folder: Path, whole: dict[str, Any], policy: TrustPolicy, change: Change, chance: random.Random
) -> bool:
    value = msgspec.json.decode(msgspec.json.encode(whole))
    entries = [one for some in value["components"].values() for one in some]
    change(chance.choice(entries), chance)
    file = folder / "changed.pam"
    file.write_bytes(msgspec.json.encode(value, order="sorted"))
    return not verify_file(file, policy)


def _change_field(entry: dict[str, Any], chance: random.Random) -> None:
    name = chance.choice(sorted(entry))
    entry[name] = _changed(entry[name], chance)


def _changed(value: Any, chance: random.Random) -> Any:
    if isinstance(value, list):
        return [_changed(value[0], chance), *value[1:]] if value else ["more"]
    if isinstance(value, dict):
        return value | {"more": 1}
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int | float):
        return value / 2 + 0.1
    at = chance.randrange(len(value)) if value else 0
    now = value[at : at + 1]
    other = chance.choice([one for one in _HEX if one != now])
    return value[:at] + other + value[at + 1 :]


def _change_parents(entry: dict[str, Any], chance: random.Random) -> None:
    parents = list(entry.get("parent_ids", []))
    if parents and chance.random() < 0.5:  # noqa: PLR2004 - a coin
        parents.pop()
    else:
        parents.append("blake3:" + "".join(chance.choice(_HEX) for _ in range(64)))
    entry["parent_ids"] = parents


def _change_and_fit(entry: dict[str, Any], chance: random.Random) -> None:
    """Change an entry and give it the id of what it is now, as a forger would."""
    entry["tags"] = [*entry.get("tags", []), f"forged-{chance.randrange(10**9)}"]
    without = {name: part for name, part in entry.items() if name != "id"}
    entry["id"] = digest(canonical(without))


def tokens_table(count: int = TOKENS) -> Table:
    """Return how many tokens that must not count are refused."""
    refused = {
        "expired": _expired,
        "wrong audience": _misdirected,
        "invalid signature": _forged,
        "revoked": _revoked,
        "permission not granted": _overreaching,
    }
    rows: list[list[Any]] = []
    for name, present in refused.items():
        done = sum(_is_refused(present, number) for number in range(count))
        theirs = "100%" if name != "permission not granted" else None
        rows.append([name, count, done, f"{done / count:.1%}" if count else "-", theirs])
    valid = sum(not _is_refused(_valid, number) for number in range(count))
    rows.append(["valid, and taken", count, valid, f"{valid / count:.1%}" if count else "-", None])
    return Table(
        name="tokens",
        title="Token validation",
        columns=["token", "trials", "refused", "rate", "the paper's"],
        rows=rows,
        note="The last row is the other way round: what is valid has to be taken.",
    )


Present = Callable[[SigningKey, SigningKey, int], None]


def _is_refused(present: Present, number: int) -> bool:
    try:
        present(SigningKey.generate(), SigningKey.generate(), number)
    except (TokenError, PermissionRefusedError):
        return True
    except SatchelError:
        return False
    return False


def _bank(number: int) -> str:
    return digest(str(number).encode())


def _chain(owner: SigningKey, holder: SigningKey, number: int) -> Chain:
    grant = Grant(
        scope=(Wildcard(),),
        permissions=["read"],
        issued_at=shifted(_NOW, -timedelta(hours=number)),
        expires_at=shifted(_NOW, timedelta(hours=1)),
        audience=holder.did,
    )
    return linked((issue(_bank(number), owner, grant),), {})


def _around(owner: SigningKey, number: int, **members: Any) -> Surroundings:
    return Surroundings(**{"bank": _bank(number), "owners": {owner.did}, "moment": _NOW} | members)


def _valid(owner: SigningKey, holder: SigningKey, number: int) -> None:
    chain = _chain(owner, holder, number)
    chain.require(list(chain.permissions), _around(owner, number))
    require_possession(chain, prove(chain, holder, owner.did, _NOW), owner.did, _NOW)


def _expired(owner: SigningKey, holder: SigningKey, number: int) -> None:
    late = shifted(_NOW, timedelta(hours=1, minutes=number) + 2 * SKEW)
    _chain(owner, holder, number).require([], _around(owner, number, moment=late))


def _misdirected(owner: SigningKey, holder: SigningKey, number: int) -> None:
    chain, thief = _chain(owner, holder, number), SigningKey.generate()
    require_possession(chain, prove(chain, thief, owner.did, _NOW), owner.did, _NOW)


def _forged(owner: SigningKey, holder: SigningKey, number: int) -> None:
    value = _chain(owner, holder, number).value()
    value["tokens"][0]["payload"]["expires_at"] = shifted(_NOW, timedelta(days=1 + number))
    opened_value(value).require([], _around(owner, number))


def _revoked(owner: SigningKey, holder: SigningKey, number: int) -> None:
    chain = _chain(owner, holder, number)
    chain.require([], _around(owner, number, revoked={chain.leaf.id}))


def _overreaching(owner: SigningKey, holder: SigningKey, number: int) -> None:
    from satchel.seal.tokens.token import Permission

    _chain(owner, holder, number).require([Permission.EXPORT], _around(owner, number))
