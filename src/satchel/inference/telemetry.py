"""Telemetry of libraries that run models."""

import os

_SWITCHES = {"ORT_DISABLE_TELEMETRY": "1"}
"""onnxruntime stores an ID of the machine and sends reports to its maker unless this is set."""


def disable_telemetry() -> None:
    """Keep libraries that are loaded from now on from reporting about themselves.

    What the environment says already is left as it is.
    """
    for name, value in _SWITCHES.items():
        os.environ.setdefault(name, value)
