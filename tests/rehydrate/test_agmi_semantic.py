"""The third-party suite of poisoned memory: none of it reaches the agent."""

from typing import Any

import pytest
from agmi.attacks.memory_specific import (
    CrossSessionBleedAttack,
    IndirectPromptInjectionAttack,
    MemoryInjectionAttack,
    MetadataPoisoningAttack,
    RetrievalHijackAttack,
    UpdatePoisoningAttack,
)

from satchel.conformance.agmi.semantic import SatchelSemantic

NO_KEY = ("external", "laundered")


@pytest.mark.in_check(2)
@pytest.mark.parametrize("mutate", [False, True])
@pytest.mark.parametrize(
    "attack",
    [CrossSessionBleedAttack, RetrievalHijackAttack, IndirectPromptInjectionAttack],
    ids=lambda attack: attack.name,
)
def test_isolation_hijack_and_hidden_instructions_are_safe_on_every_channel(
    attack: Any, *, mutate: bool
) -> None:
    """Also under mutation; the victim's own memory is served, or there is no verdict."""
    found = attack(mutate=mutate).run(SatchelSemantic())
    assert found.status == "safe", found.detail or found.error


@pytest.mark.parametrize(
    "attack",
    [MemoryInjectionAttack, UpdatePoisoningAttack, MetadataPoisoningAttack],
    ids=lambda attack: attack.name,
)
def test_memory_cannot_be_planted_without_the_key(attack: Any) -> None:
    """External and laundered channels are blocked five out of five.

    What the agent itself signed cannot be distinguished from what the user said: agmi's own
    finding.
    """
    found = attack().run(SatchelSemantic())
    assert found.error is None
    for channel in NO_KEY:
        assert found.channels[channel] == [False] * 5
