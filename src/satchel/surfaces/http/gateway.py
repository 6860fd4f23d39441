"""What a server has open, and on whose behalf a request acts.

The owner acts from this machine, or shows the operator's token. Anybody else presents a capability
token in each request, with a proof that it is theirs: a signature over this very request, good for
a minute, for this server, once.
"""

import base64
import binascii
import hmac
import threading
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from blake3 import blake3
from msgspec.structs import replace

from satchel.actions.config import Settings
from satchel.api.bank import Bank
from satchel.api.satchel import Satchel, board_of, existing_bank, held, is_still
from satchel.disk.stamp import Stamp, settled
from satchel.errors import MalformedError, TokenError
from satchel.memory.times import now
from satchel.seal.tokens.chain import MOST_BYTES, SKEW, Chain, opened
from satchel.seal.tokens.possession import request_of, require_possession
from satchel.surfaces.http.works import Works

TOKEN, PROOF, ADMIN = "x-pam-capability-token", "x-satchel-proof", "x-admin-token"
_KEPT = 256
_SECONDS = 2 * SKEW.total_seconds()
_LONGEST_PROOF = 8192


class Caller:
    """Who asks, and what is open for them.

    Args:
        satchel: The store, as they may use it.
        settings: The surroundings, with the token that is presented.
        owner: Whether they are its owner.
    """

    def __init__(self, satchel: Satchel, settings: Settings, *, owner: bool) -> None:
        self.satchel = satchel
        self.settings = settings
        self.is_owner = owner
        self._lock = threading.Lock()
        self._banks = OrderedDict[str, Bank]()

    def bank(self, name: str) -> Bank:
        """Return a bank that is there.

        One that was opened for an earlier request is looked at again: another program, or another
        worker, may have renamed or removed it.

        Raises:
            UnknownBankError: If it is not.
            TokenError: If the token is for another one.
        """
        with self._lock:
            found = self._banks.pop(name, None)
        if found is None or not is_still(found, name):
            found = existing_bank(self.satchel, name)
        with self._lock:
            self._banks[name] = found
            if len(self._banks) > _KEPT:
                self._banks.popitem(last=False)
        return found

    def forget(self) -> None:
        """Let go of the banks: one has another name now, or is gone."""
        with self._lock:
            self._banks.clear()


class Gateway:
    """An open store with all who use it.

    Args:
        satchel: The store, opened for its owner; it is closed with this.
        settings: The surroundings.
        verifier: The key that proofs are made for: this server's, or what several go by.
        admin_token: What an operator shows; None for owners on this machine only.
    """

    def __init__(
        self, satchel: Satchel, settings: Settings, verifier: str, admin_token: str | None
    ) -> None:
        self.settings = settings
        self.verifier = verifier
        self._admin = admin_token
        self.owner = Caller(satchel, settings, owner=True)
        self.bank: str | None = None
        """The bank that agent hosts mean when they name none; the configured one when None."""

        self._lock = threading.Lock()
        self._holders = OrderedDict[str, Caller]()
        self._board = board_of(satchel)
        self.works = Works(self._board)
        self._trust = settings.registry.path
        self._trusted_as_of = _stamp(self._trust)

    def is_admin(self, said: str | None) -> bool:
        """Tell whether somebody showed the operator's token."""
        if self._admin is None or said is None:
            return False
        return hmac.compare_digest(said.encode("utf-8", "replace"), self._admin.encode())

    @property
    def has_admin(self) -> bool:
        """Whether there is an operator's token, so that being on this machine is not enough."""
        return self._admin is not None

    def holder(self, token: str, proof: str | None, action: str, args: Any) -> Caller:
        """Return a token's holder, once this request is proved to be theirs.

        Args:
            token: What the header has: the token's JSON in base64.
            proof: What the other header has, likewise; needed unless anybody may use the token.
            action: As ``request_of`` gives it.
            args: Idem.

        Raises:
            MalformedError: If one of them is none.
            TokenError: If they do not hold, or this request was made before.
        """
        data = _decoded(token, "token", MOST_BYTES)
        chain = opened(data)
        if chain.audience is not None:
            self._require_proof(chain, proof, action, args)
        name = blake3(data).hexdigest()
        with self._lock:
            found = self._holders.pop(name, None)
            if found is None:
                proven = chain.audience is not None
                settings = replace(self.settings, token=data.decode(), proven=proven)
                found = Caller(held(self.owner.satchel, settings), settings, owner=False)
            self._holders[name] = found
            if len(self._holders) > _KEPT:
                self._holders.popitem(last=False)
        return found

    def _require_proof(self, chain: Chain, proof: str | None, action: str, args: Any) -> None:
        if proof is None:
            raise TokenError(
                "this token counts with a proof that it is yours",
                field=PROOF,
                hint="See the guide: The HTTP gateway.",
            )
        said = _decoded(proof, "proof", _LONGEST_PROOF)
        try:
            value = msgspec.json.decode(said)
        except msgspec.DecodeError as error:
            raise MalformedError("the proof is no JSON", field=PROOF) from error
        request = require_possession(chain, value, self.verifier, now(), (action, args))
        if not self._board.claim(f"{chain.leaf.id} {request.nonce}", _SECONDS):
            raise TokenError("this request was made before", field="nonce")

    @property
    def is_alone(self) -> bool:
        """Whether servers on other machines do not see which requests were made here."""
        return not self._board.shared

    def look_again(self) -> None:
        """Let go of banks that are open if whom this machine trusts has changed since."""
        found = _stamp(self._trust)
        if found == self._trusted_as_of and (found is not None or not self._trust.exists()):
            return
        self._trusted_as_of = found
        with self._lock:
            callers = [self.owner, *self._holders.values()]
        for caller in callers:
            caller.forget()

    def close(self) -> None:
        """Close the store, when the calls and the work under way have ended."""
        self.works.close()
        self._board.close()
        self.owner.satchel.close()


def _stamp(path: Path) -> Stamp | None:
    """Return what tells that a file is unchanged; None for one that is new, or not there."""
    with suppress(OSError):
        return settled(path.lstat())
    return None


def asked_of(method: str, target: str, body: bytes) -> tuple[str, dict[str, str]]:
    """Return what a proof is made for: the action and arguments of a request."""
    return request_of(method, target, blake3(body).hexdigest())


def _decoded(text: str, what: str, most: int) -> bytes:
    if len(text) > 2 * most:
        raise MalformedError(f"this {what} is too long", field=what)
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise MalformedError(f"the {what} is not base64", field=what) from None
