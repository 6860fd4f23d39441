"""The contract asks the same of every store; what is skipped is what the docs say is skipped."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import fields
from pathlib import Path

import pytest

from satchel.conformance import stores as promises
from satchel.conformance.stores.oracle import StoreSubject, bench
from satchel.conformance.stores.traits import needs
from satchel.ports.store import StoreTraits
from satchel.stores.memory import InMemoryStore

ROOT = Path(__file__).parent.parent.parent
STORES = {"ladybug", "memory", "postgresql", "sqlite"}


def test_the_contract_collects_the_same_number_of_tests_for_every_store() -> None:
    """Otherwise a store could miss a check unnoticed."""
    words = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*words, "tests/stores/test_store_contract.py"],
        cwd=ROOT,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=True,
    )
    found = Counter(re.findall(r"^\S+::test_\w+\[(\w+)[\]-]", done.stdout, re.MULTILINE))
    assert found.keys() == STORES
    assert len(set(found.values())) == 1
    assert min(found.values()) >= len(needs())


def test_every_check_declares_the_traits_that_it_needs() -> None:
    """The table in the docs is generated from it."""
    asked = needs()
    assert asked.keys() == {name for name in vars(promises) if name.startswith("test_")}
    traits = {field.name for field in fields(StoreTraits)}
    assert frozenset.union(*asked.values()) == traits
    assert not any(len(wanted) > 1 for wanted in asked.values())


def test_a_missing_trait_is_the_only_way_to_skip_a_check() -> None:
    """The skip names the trait that the store does not claim."""
    folder = Path(promises.__file__).parent
    skips = [
        path.name
        for path in folder.glob("*.py")
        if re.search(r"\b(?:pytest|mark)\.(?:skip|xfail)", path.read_text())
    ]
    assert skips == ["oracle.py"]

    class Modest(InMemoryStore):
        traits = StoreTraits(durable=False)

    with bench(StoreSubject("modest", Modest)) as both:
        for field in fields(StoreTraits):
            with pytest.raises(pytest.skip.Exception, match=f"does not claim `{field.name}`"):
                both.need(field.name)
    with bench(StoreSubject("memory", InMemoryStore)) as both:
        both.need("full_text")
