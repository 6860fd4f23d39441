"""The open store of a server, and the callers of its requests.

The owner is a local caller, or presents the operator's token. Other callers present a capability
token in each request, with a proof of possession: a signature over this request that is valid for
a minute, for this server, once.
"""

import asyncio
import base64
import binascii
import hmac
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from anyio import to_thread
from blake3 import blake3
from msgspec.structs import replace

from satchel.api.bank import Bank
from satchel.api.operations import run_on
from satchel.api.store import (
    Satchel,
    board_of,
    existing_bank,
    held,
    is_still,
    require_readable,
    require_token,
)
from satchel.config.settings import Settings
from satchel.crypto.json_reader import plain_value
from satchel.crypto.token_chain import (
    MOST_BYTES,
    SKEW,
    Chain,
    ProofRequest,
    http_proof_request,
    open_chain,
    require_arguments,
    verify_proof,
)
from satchel.errors import InputError, MalformedError, TokenError
from satchel.http.guard import is_loopback
from satchel.http.jobs import JobQueue
from satchel.http.rate_limits import Principal
from satchel.model.values import now
from satchel.ports.operations import Operation
from satchel.runtime.files import Stamp, stable_stamp

_O = TypeVar("_O")
_R = TypeVar("_R")

TOKEN, PROOF, ADMIN = "x-pam-capability-token", "x-satchel-proof", "x-admin-token"
_MOST_OPEN = 256
_REPLAY_SECONDS = 2 * SKEW.total_seconds()
_LONGEST_PROOF = 8192


class Caller:
    """A caller, with the store opened for it.

    Args:
        satchel: The store, with the permissions of the caller.
        settings: The settings, with the presented token.
        owner: Whether the caller is the owner.
        chain: The token, with verified signatures; None for the owner.
    """

    def __init__(
        self, satchel: Satchel, settings: Settings, *, owner: bool, chain: Chain | None = None
    ) -> None:
        self.satchel = satchel
        self.settings = settings
        self.is_owner = owner
        self.chain = chain
        self._lock = threading.Lock()
        self._banks = OrderedDict[str, Bank]()

    def bank(self, name: str) -> Bank:
        """Return an existing bank.

        A bank that was opened for an earlier request is checked again: another program or worker
        may have renamed or deleted it.

        Raises:
            UnknownBankError: If there is no such bank.
            TokenError: If the token is for another bank.
        """
        with self._lock:
            bank = self._banks.pop(name, None)
        if bank is None or not is_still(bank, name):
            bank = existing_bank(self.satchel, name)
        with self._lock:
            self._banks[name] = bank
            if len(self._banks) > _MOST_OPEN:
                self._banks.popitem(last=False)
        return bank

    def run(self, bank: str, operation: Operation[Any, _O, ..., _R], options: _O) -> _R:
        """Run an operation on an existing bank.

        Raises:
            UnknownBankError: If there is no such bank.
            TokenError: If the token is for another bank.
        """
        return run_on(self.bank(bank), operation, options)

    def require_valid(self) -> None:
        """Require that the token is valid now, for a bank of this store, whatever it permits.

        Raises:
            TokenError: If it is not.
        """
        if self.chain is not None:
            require_token(self.bank(self.chain.bank))

    def forget(self) -> None:
        """Close the open banks, after one was renamed or deleted."""
        with self._lock:
            self._banks.clear()


@dataclass(frozen=True, slots=True)
class TokenHolder:
    """The holder of a token, before the body of the request is read."""

    caller: Caller
    chain: Chain
    request: ProofRequest | None
    """The signed proof; None for a bearer token."""

    target: str

    @property
    def principal(self) -> Principal:
        """The principal whose limits apply."""
        return Principal(self.chain.tokens[0].id)

    def require_body(self, body: bytes) -> None:
        """Require that the proof covers this body.

        Raises:
            TokenError: If it does not.
        """
        if self.request is not None:
            _, args = http_proof_request("", self.target, blake3(body).hexdigest())
            require_arguments(self.request, args)


class Gateway:
    """An open store, and its callers.

    Args:
        satchel: The store, opened for its owner; closed with the gateway.
        settings: The settings.
        verifier: The key that proofs are made for: this server's, or one that servers share.
        admin_token: The operator's token; None if the owner is every local caller.
    """

    def __init__(
        self, satchel: Satchel, settings: Settings, verifier: str, admin_token: str | None
    ) -> None:
        self.settings = settings
        self.verifier = verifier
        self._admin = admin_token
        self.owner = Caller(satchel, settings, owner=True)
        self.bank: str | None = None
        """The default bank of agent hosts; the configured one if None."""

        self._lock = threading.Lock()
        self._holders = OrderedDict[str, Caller]()
        self._board = board_of(satchel)
        self.jobs = JobQueue(self._board)
        self._reading, self._read_at = asyncio.Lock(), float("-inf")
        self._trust = settings.registry.path
        self._trusted_as_of = _stamp(self._trust)

    def is_operator(self, token: str | None, address: str | None) -> bool:
        """Return whether a caller is the operator: by the operator's token, or as a local caller.

        Args:
            token: The token that the caller presents.
            address: Address of the caller.
        """
        if self._admin is not None:
            presented = (token or "").encode("utf-8", "replace")
            return hmac.compare_digest(presented, self._admin.encode())
        return is_loopback(address)

    def holder(self, token: str, proof: str | None, method: str, target: str) -> TokenHolder:
        """Return the holder of a token, after verifying everything but the request's body.

        The token is valid now, for a bank of this store, and was issued by one of its owners; the
        proof is of its audience, for this server, and was not used before.
        ``Holder.require_body`` verifies the rest.

        Args:
            token: Value of the token header: the token's JSON in base64.
            proof: Value of the proof header, likewise; required unless the token is a bearer token.
            method: Method of the request.
            target: Path and query, as they were sent.

        Raises:
            MalformedError: If one of them is malformed.
            TokenError: If they are not valid, or the request is a replay.
        """
        with _errors_in("token"):
            data = _decoded(token, MOST_BYTES)
        name = blake3(data).hexdigest()
        with self._lock:
            caller = self._holders.get(name)
        with _errors_in("token"):
            chain = open_chain(data) if caller is None or caller.chain is None else caller.chain
        request = None
        if chain.audience is not None:
            request = self._verified_request(chain, proof, method)
        if caller is None:
            proven = chain.audience is not None
            settings = replace(self.settings, token=data.decode(), proven=proven)
            satchel = held(self.owner.satchel, settings)
            caller = Caller(satchel, settings, owner=False, chain=chain)
        caller.require_valid()
        if request is not None and not self._board.claim(
            f"{chain.leaf.id} {request.nonce}", _REPLAY_SECONDS
        ):
            raise TokenError("this request was already made", field="nonce")
        with self._lock:
            caller = self._holders.pop(name, caller)
            self._holders[name] = caller
            if len(self._holders) > _MOST_OPEN:
                self._holders.popitem(last=False)
        return TokenHolder(caller, chain, request, target)

    def _verified_request(self, chain: Chain, proof: str | None, method: str) -> ProofRequest:
        if proof is None:
            raise TokenError(
                "this token requires a proof of possession",
                field=PROOF,
                hint="See the guide: The HTTP gateway.",
            )
        action, _ = http_proof_request(method, "", "")
        with _errors_in("proof"):
            value = plain_value(_decoded(proof, _LONGEST_PROOF))
            return verify_proof(chain, value, self.verifier, now(), action)

    @property
    def has_operator_token(self) -> bool:
        """Whether the operator must present a token; else every local caller is the operator."""
        return self._admin is not None

    @property
    def is_alone(self) -> bool:
        """Whether servers on other machines do not see which requests were made here."""
        return not self._board.shared

    async def require_readable(self) -> None:
        """Require that the store can be read; the result is cached for a second.

        Concurrent calls share one check.

        Raises:
            StoreError: If it cannot be read.
        """
        async with self._reading:
            if time.monotonic() - self._read_at > 1:
                await to_thread.run_sync(require_readable, self.owner.satchel)
                self._read_at = time.monotonic()

    def refresh_trust(self) -> None:
        """Close open banks if the keys that this machine trusts have changed since."""
        stamp = _stamp(self._trust)
        if stamp == self._trusted_as_of and (stamp is not None or not self._trust.exists()):
            return
        self._trusted_as_of = stamp
        with self._lock:
            callers = [self.owner, *self._holders.values()]
        for caller in callers:
            caller.forget()

    def close(self) -> None:
        """Close the store, after running calls and jobs have ended."""
        self.jobs.close()
        self._board.close()
        self.owner.satchel.close()


def _stamp(path: Path) -> Stamp | None:
    """Return the stamp of an unchanged file; None if it is too recent, or does not exist."""
    with suppress(OSError):
        return stable_stamp(path.lstat())
    return None


@contextmanager
def _errors_in(field: str) -> Iterator[None]:
    try:
        yield
    except InputError as error:
        raise error.within(field) from None


def _decoded(text: str, most: int) -> bytes:
    if len(text) > 2 * most:
        raise MalformedError("too long")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise MalformedError("not base64") from None
