"""Metrics and log of requests, without their contents."""

import asyncio
import os
import sys
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

import msgspec

from satchel.model.values import now, resolved

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SHARE_SECONDS = 1.0


class _Counts(msgspec.Struct):
    """Counters that can be added."""

    requests: dict[str, dict[str, dict[int, int]]] = {}
    """By route, method and status."""

    seconds: dict[str, float] = {}
    buckets: dict[str, list[int]] = {}
    """By route, the requests within each of the bounds."""

    def add(self, route: str, method: str, status: int, seconds: float) -> None:
        by_status = self.requests.setdefault(route, {}).setdefault(method, {})
        by_status[status] = by_status.get(status, 0) + 1
        self.seconds[route] = self.seconds.get(route, 0.0) + seconds
        buckets = self.buckets.setdefault(route, [0] * len(_BUCKETS))
        for place, bound in enumerate(_BUCKETS):
            buckets[place] += seconds <= bound

    def add_all(self, other: "_Counts") -> None:
        for route, methods in other.requests.items():
            mine = self.requests.setdefault(route, {})
            for method, statuses in methods.items():
                mine[method] = dict(Counter(mine.get(method, {})) + Counter(statuses))
            self.seconds[route] = self.seconds.get(route, 0.0) + other.seconds[route]
            there = self.buckets.get(route, [0] * len(_BUCKETS))
            pairs = zip(there, other.buckets[route], strict=True)
            self.buckets[route] = [one + more for one, more in pairs]


class RequestMetrics:
    """Requests by route and status, for Prometheus and for a log of lines of JSON.

    Args:
        log: Receives the lines; None for no log.
        folder: Folder in which the workers of a server share their counters; None for a single
            worker. Counters of others are up to a second old.
    """

    def __init__(self, log: TextIO | None = None, folder: Path | None = None) -> None:
        self._log = log
        self._folder = folder
        self._lock = threading.Lock()
        self._counts = _Counts()
        self._is_going_to_share = False

    def request(self, scope: Any, status: int, seconds: float) -> None:
        """Count and log a response."""
        route = getattr(scope.get("route"), "path", None) or "other"
        method = scope["method"] if scope["method"] in _METHODS else "OTHER"
        with self._lock:
            self._counts.add(route, method, status, seconds)
        if self._folder is not None and not self._is_going_to_share:
            self._is_going_to_share = True
            asyncio.get_running_loop().call_later(_SHARE_SECONDS, self.share)
        if self._log is not None:
            # Names in a path (of banks, of files) are private: only the route is counted.
            line = {
                "at": now(),
                "method": method,
                "route": route,
                "status": status,
                "ms": round(seconds * 1000, 1),
            }
            self._log.write(msgspec.json.encode(line).decode() + "\n")
            self._log.flush()

    def share(self) -> None:
        """Share the counters with the other workers."""
        self._is_going_to_share = False
        if self._folder is None:
            return
        with self._lock:
            data = msgspec.json.encode(self._counts)
        new = self._folder / f"{os.getpid()}.new"
        with suppress(OSError):  # a full disk must not fail a response
            new.write_bytes(data)
            new.replace(self._folder / f"{os.getpid()}.json")

    def page(self) -> str:
        """Return all counts, in Prometheus's text format."""
        counts = self._all()
        lines = [
            "# HELP satchel_requests_total Requests answered.",
            "# TYPE satchel_requests_total counter",
        ]
        for route, methods in sorted(counts.requests.items()):
            for method, statuses in sorted(methods.items()):
                for status, number in sorted(statuses.items()):
                    labels = f'method="{method}",route="{route}",status="{status}"'
                    lines.append(f"satchel_requests_total{{{labels}}} {number}")
        lines += [
            "# HELP satchel_request_seconds Duration of requests.",
            "# TYPE satchel_request_seconds histogram",
        ]
        for route, methods in sorted(counts.requests.items()):
            number = sum(sum(statuses.values()) for statuses in methods.values())
            name = "satchel_request_seconds"
            for bound, count in zip(_BUCKETS, counts.buckets[route], strict=True):
                lines.append(f'{name}_bucket{{route="{route}",le="{bound}"}} {count}')
            lines.append(f'{name}_bucket{{route="{route}",le="+Inf"}} {number}')
            lines.append(f'{name}_sum{{route="{route}"}} {counts.seconds[route]:.6f}')
            lines.append(f'{name}_count{{route="{route}"}} {number}')
        return "\n".join(lines) + "\n"

    def _all(self) -> _Counts:
        """Return the sum of the counters of all workers."""
        total = _Counts()
        with self._lock:
            total.add_all(self._counts)
        for path in self._folder.glob("*.json") if self._folder is not None else ():
            if path.stem != str(os.getpid()):
                total.add_all(msgspec.json.decode(path.read_bytes(), type=resolved(_Counts)))
        return total


_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def to_standard_error(folder: Path | None = None) -> RequestMetrics:
    """Return the metrics with their log on standard error."""
    return RequestMetrics(sys.stderr, folder)
