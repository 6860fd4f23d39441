"""Stubs of the libraries that run cross-encoders, because tests have no weights."""

import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import pytest

Calls = list[tuple[str, dict[str, Any]]]
"""The loaded models: name and options."""


def score(question: str, text: str) -> float:
    """Return how many words of a text are in the question."""
    asked = set(question.lower().split())
    return float(sum(word in asked for word in text.lower().split()))


def libraries(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Install both stubs."""
    calls = Calls()

    class Loaded:
        def __init__(self, name: str, **how: Any) -> None:
            if name == "absent":
                raise OSError("not on this machine")
            calls.append((name, how))

        def predict(self, pairs: Sequence[tuple[str, str]], **_how: Any) -> Sequence[float]:
            return [score(*pair) for pair in pairs]

        def rerank(self, query: str, documents: Sequence[str], **_how: Any) -> Iterator[float]:
            yield from (score(query, document) for document in documents)

    parts = {
        "sentence_transformers": "CrossEncoder",
        "fastembed": "",
        "fastembed.rerank": "",
        "fastembed.rerank.cross_encoder": "TextCrossEncoder",
    }
    for module, name in parts.items():
        made = ModuleType(module)
        made.__spec__ = ModuleSpec(module, None)
        if name:
            setattr(made, name, Loaded)
        monkeypatch.setitem(sys.modules, module, made)
    return calls
