"""A file as a bank of the moment: verified whole, then read into a store that is removed again."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from satchel.actions.config import Settings
from satchel.actions.importing.arriving import Arriving, arrived
from satchel.actions.permitted.bearer import presented, revoked_keys
from satchel.actions.waking.looked_at import remember, was_looked_at
from satchel.actions.wiring import known_owners, store_of_the_moment
from satchel.disk.reading import OpenFile
from satchel.disk.spool import Strands
from satchel.errors import EmptyInputError, TokenError, VerificationError
from satchel.jobs.journal import new_journal
from satchel.ledger.appending.batches import closing
from satchel.ledger.ledger import Ledger
from satchel.ledger.scoped.view import ScopedView
from satchel.ledger.view import View
from satchel.memory.times import now
from satchel.rehydrate.asked import Around
from satchel.seal.sealing import seeded_nonces
from satchel.seal.signing.key import SigningKey
from satchel.seal.tokens.chain import Chain, Surroundings
from satchel.seal.tokens.token import Permission
from satchel.seal.verify.verification import Outcome, Verification
from satchel.transfer.incoming.batch import Batch
from satchel.transfer.incoming.plan import Plan
from satchel.transfer.incoming.planned import OnConflict, Rules

_TOGETHER = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class FromFile:
    """How a file is taken."""

    format: str | None = None
    """When it is not to be recognised."""

    accepted: frozenset[Outcome] = frozenset()
    """Verdicts that are accepted."""

    keys: tuple[str, ...] = field(default_factory=tuple)
    """Keys to trust for this call."""


@contextmanager
def view_of_file(
    settings: Settings, file: Path | OpenFile, source: FromFile
) -> Iterator[tuple[View, Around]]:
    """Give a view of what is in a file, and what is to be told of it.

    Args:
        settings: Whose keys count, the limits, the token that is presented.
        file: The file, of any format.
        source: How it is taken.

    Raises:
        VerificationError: If it does not verify, or no trusted key signed it and that is not
            accepted.
        InputError: If it cannot be read.
        TokenError, PermissionRefusedError: If the token does not hold for it.
    """
    with ExitStack() as held:
        opened = held.enter_context(arrived(settings, file))
        name = str(opened.path)
        arriving = Arriving(settings, opened, name, source.format, None)
        again = was_looked_at(settings, arriving.digest)
        arriving.verify(source.keys, source.accepted, deep=not again)
        if arriving.verdict is None and Outcome.UNSIGNED not in source.accepted:
            raise VerificationError(
                "the file is not signed",
                file=name,
                hint="Import it to review it first, or accept it: --unsafe-accept unsigned",
            )
        chain = _chain(settings, arriving.verdict)
        store = held.enter_context(store_of_the_moment())
        verdict = arriving.verdict
        ledger = _read_into(Ledger.create(store, owner=_KEY(), writer=_KEY()), arriving)
        if not again and verdict is not None and verdict.outcome is Outcome.GOOD:
            remember(settings, arriving.digest)
        view = held.enter_context(ledger.reading())
        around = Around(
            verified=_told(arriving, again=again),
            allowed=f"what a token for {chain.audience or 'anybody'} covers" if chain else "",
            origin=opened.path.name,
        )
        yield (view if chain is None else ScopedView(view, chain.covers)), around


_KEY = SigningKey.generate


def _chain(settings: Settings, verdict: Verification | None) -> Chain | None:
    """Return the token that is presented, once it holds for the file.

    Who signed the file, and is trusted, speaks for its bank, and who is known to own that.
    """
    if settings.token is None:
        return None
    statement = verdict.statement if verdict is not None else None
    bank = statement.get("bank") if statement is not None else None
    if verdict is None or statement is None or not isinstance(bank, str):
        raise TokenError("a token is for a bank, and the file names no bank")
    signers = {one.key for one in verdict.signers if one.valid and one.standing == "trusted"}
    chain = presented(settings).chain
    around = Surroundings(
        bank=bank,
        owners=signers | known_owners(settings, bank),
        moment=now(),
        revoked_keys=revoked_keys(settings),
        artifact=statement.get("root_hash"),
    )
    chain.require(frozenset({Permission.REHYDRATE}), around)
    return chain


def _read_into(ledger: Ledger, arriving: Arriving) -> Ledger:
    """Bring all that arrives into a bank, as an import does.

    Raises:
        EmptyInputError: If there is nothing.
    """
    journal = new_journal("rehydrate")
    rows = arriving.rows(seeded_nonces(journal.seed))
    rules = Rules(on_conflict=OnConflict.SKIP, mirror=False, keeps_ids=arriving.keeps_ids)
    nonces = seeded_nonces(journal.seed + b"plan")
    with ExitStack() as held:
        strands = Strands()
        held.callback(strands.close)
        with ledger.reading() as view:
            plan = Plan(view, rules, strands, nonces=nonces, at=journal.at)
            while some := list(islice(rows, _TOGETHER)):
                plan.take(some, arriving.endings)
            plan.finish()
        if plan.is_empty:
            raise EmptyInputError("the file contains no memories", file=arriving.name)
        arriving.require_unchanged()
        batch = Batch(ledger, plan, journal, OnConflict.SKIP)
        batch.log(arriving.source(journal.at))
        ledger.append([closing(batch.source, now())])
    return ledger


def _told(arriving: Arriving, *, again: bool) -> str:
    verdict = arriving.verdict
    if verdict is None:
        return f"{arriving.name} has no signature, which was accepted"
    signers = [one.name or one.key for one in verdict.signers if one.valid]
    when = " before, and no byte has changed since" if again else ""
    by = f", signed by {', '.join(signers)}" if signers else ""
    return f"{arriving.name} is {verdict.outcome}{by}; every record of it was verified{when}"
