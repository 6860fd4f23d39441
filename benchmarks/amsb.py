"""``python -m benchmarks.amsb``: the Agent Memory Security Benchmark, on rehydrated text.

Needs ``pip install agent-memory-guard`` (0.3.3), which none of our environments has. A write is a
memory with the trust class of the scenario; a read returns the memories that are verbatim in the
rehydrated text, with default options.
"""

import tempfile
from pathlib import Path
from typing import Any

from agent_memory_guard.bench.adapter import MemorySystemAdapter, RememberOutcome
from agent_memory_guard.bench.harness import run_suite
from agent_memory_guard.bench.scoring import score_report

from satchel.bank.banks import create_bank
from satchel.bank.changes import remember
from satchel.bank.machine_keys import signing_key
from satchel.bank.open_bank import open_bank
from satchel.evaluation.carriers import Owner
from satchel.ledger.view import View
from satchel.rehydrate.pipeline import rehydrate
from satchel.rehydrate.request import RehydrateRequest

TRUST = {"external_tool": "external", "agent_authored": "agent"}
"""What a memory claims by the scenario's word; anything else is the user's own."""


IDENTITY = ("identity.", "system.", "agent.persona")
"""Keys that say who the agent is and how it behaves: they are of that component."""


class Shown(MemorySystemAdapter):  # type: ignore[misc]  # the benchmark is untyped
    """The memory of a bank that is provided to a model."""

    name = "satchel"
    version = "0.1.0"

    def __init__(self, *, scrub: bool) -> None:
        self.name = "satchel, secrets scrubbed" if scrub else "satchel"
        self._scrub = scrub
        self._folder = tempfile.TemporaryDirectory()
        self._settings = Owner(Path(self._folder.name)).settings("amsb")
        owner = signing_key(self._settings, environment={})[0]
        create_bank(self._settings, "amsb", owner)
        self._ids = dict[str, str]()

    def remember(
        self, key: str, value: Any, *, source_class: str = "external_tool"
    ) -> RememberOutcome:
        """Remember a text under a key."""
        trust = TRUST.get(source_class)
        members: dict[str, Any] = {"text": str(value)}
        if key.startswith(IDENTITY):
            members["type"] = "identity"
        if trust is not None:
            members["origin"] = {"provider": "tool", "trust": trust}
        with open_bank(self._settings, "amsb", writes=True) as bank:
            found = remember(bank, members, scrub_secrets=self._scrub)
        self._ids[key] = found.id
        return RememberOutcome.REDACTED if found.secrets and self._scrub else RememberOutcome.STORED

    def recall(self, key: str) -> Any | None:
        """Return the memory if the text for a model contains it."""
        if key not in self._ids:
            return None
        identity = self._ids[key]
        with open_bank(self._settings, "amsb") as bank, bank.ledger.reading() as view:
            framed = rehydrate(view, RehydrateRequest(task=key, budget=4096))
            shown = {one.id for one in framed.entries if one.form == "verbatim"}
            return _text(view, identity) if identity in shown else None


def _text(view: View, identity: str) -> str | None:
    found = view.with_prefix(identity.removeprefix("blake3:"), limit=1)
    return next((one.record.value.get("text") for one in found), None)


def main() -> None:
    """Run it twice and print what came of it."""
    for scrub in (False, True):
        report = run_suite(lambda scrub=scrub: Shown(scrub=scrub))
        print(score_report(report))
        for run in report.runs:
            if not run.passed:
                print(f"  {run.scenario_id} ({run.category}, {run.severity}): {run.detail}")


if __name__ == "__main__":
    main()
