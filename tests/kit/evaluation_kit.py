"""A small set of probes, and agents that answer it."""

import json
from pathlib import Path
from typing import Any

PROBES: dict[str, Any] = {
    "format": "satchel-probes-1",
    "category": "small",
    "worlds": [
        {
            "name": "tea",
            "sessions": [
                {
                    "at": "2026-03-01T09:00:00.000000Z",
                    "memories": [
                        {"key": "tea", "entry": {"type": "semantic", "text": "Ada drinks oolong."}},
                        {
                            "key": "car",
                            "entry": {"type": "semantic", "text": "Bela drives a red van."},
                        },
                    ],
                },
                {
                    "at": "2026-03-02T09:00:00.000000Z",
                    "memories": [
                        {
                            "key": "new",
                            "entry": {"type": "episodic", "text": "Bela bought a green van."},
                            "replaces": "car",
                        },
                    ],
                },
            ],
            "probes": [
                {"ask": "What does Ada drink?", "expect": ["oolong"], "needs": ["tea"]},
                {
                    "ask": "Which van did Bela buy?",
                    "choices": ["red", "green", "blue"],
                    "expect": ["green"],
                    "needs": ["new"],
                },
            ],
        }
    ],
}
"""Two sessions, two questions; the first choice of the second is wrong."""


def write(path: Path, value: Any) -> Path:
    """Write JSON, and return the path."""
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def small_set(folder: Path) -> Path:
    """Write the small set, and return its path."""
    return write(folder / "small.json", PROBES)
