"""Promotion: files that agents proposed are moved into read-only memory by a rule.

An agent writes under a prefix of its own. A rule decides which files become memory: by author and
size, and if they contain neither a secret nor invisible characters. Other files stay where they are
and are reported with the reason, for review by a person.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from satchel.errors import ConcurrencyError, MemoryStoreError
from satchel.files.memory_store import MemoryStore
from satchel.files.paths import check_path
from satchel.screening.prefilter import visible_text
from satchel.screening.secrets import find_secrets

_MOST_BYTES = 100_000


class PromotionDecision(NamedTuple):
    """Decision of a rule on a proposal."""

    proposal: str
    target: str
    reason: str | None
    """Why it is not promoted; None if it is."""

    sha: str
    """Digest of the text that was judged; only this text is promoted."""


@dataclass(frozen=True, kw_only=True)
class PromotionRule:
    """Which proposals become memory.

    Args:
        staged: The folder of the proposals.
        into: The target folder, with the same paths below.
        actors: Allowed authors; any if empty.
        most_bytes: Greatest size.
        replace: Whether a proposal may replace another text.
    """

    staged: str
    into: str
    actors: frozenset[str] = frozenset()
    most_bytes: int = _MOST_BYTES
    replace: bool = False

    def decisions(self, store: MemoryStore) -> Iterable[PromotionDecision]:
        """Yield the decision on each proposal.

        Raises:
            MemoryStoreError: If a folder is not a valid path, or one is in the other.
        """
        staged, into = check_path(self.staged), check_path(self.into)
        if f"{into}/".startswith(f"{staged}/") or f"{staged}/".startswith(f"{into}/"):
            raise MemoryStoreError("the proposal folder and the memory folder overlap")
        for path in store.list_paths(staged):
            target = into + path[len(staged) :]
            yield self._judged(store, path, target)

    def _judged(self, store: MemoryStore, path: str, target: str) -> PromotionDecision:
        sha = store.current_sha(path)
        meta = store.get_meta(path)
        if self.actors and (meta is None or meta.updated_by not in self.actors):
            who = "an unknown actor" if meta is None else meta.updated_by
            return PromotionDecision(path, target, f"it was written by {who}", sha)
        if meta is not None and meta.bytes > self.most_bytes:
            return PromotionDecision(
                path, target, f"it has more than {self.most_bytes:,} bytes", sha
            )
        if not self.replace and store.current_sha(target) not in {"", sha}:
            return PromotionDecision(path, target, "the target has other text", sha)
        return PromotionDecision(path, target, _flawed(store, path), sha)


def _flawed(store: MemoryStore, path: str) -> str | None:
    try:
        text = store.read_text(path)
    except MemoryStoreError as error:
        return error.message
    if secrets := find_secrets(text):
        return f"it contains a secret ({secrets[0].kind})"
    if visible_text(text).gaps:
        return "it contains invisible characters"
    return None


def promote_all(
    store: MemoryStore, rule: PromotionRule, *, actor: str = "rule", dry_run: bool = False
) -> list[PromotionDecision]:
    """Promote the proposals that a rule allows, and return all decisions.

    Raises:
        MemoryStoreError: As ``Rule.decisions``.
    """
    done = []
    for candidate in list(rule.decisions(store)):
        decision = candidate
        if decision.reason is None and not dry_run:
            try:
                store.promote(
                    candidate.proposal,
                    candidate.target,
                    actor=actor,
                    reason=f"rule: {rule.staged} to {rule.into}",
                    expected_sha=candidate.sha,
                )
            except ConcurrencyError:
                decision = candidate._replace(reason="it was changed while it was being checked")
        done.append(decision)
    return done
