"""What a server counts and logs of requests: never what is in them."""

import sys
import threading
from collections import Counter
from typing import Any, TextIO

import msgspec

from satchel.memory.times import now

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Counting:
    """Requests by route and status, for Prometheus and for a log of lines of JSON.

    Args:
        log: Where the lines go; None for none.
    """

    def __init__(self, log: TextIO | None = None) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._requests = Counter[tuple[str, str, int]]()
        self._buckets = Counter[tuple[str, float]]()
        self._seconds = Counter[str]()
        self._numbers = Counter[str]()

    def request(self, scope: Any, status: int, seconds: float) -> None:
        """Take note of an answer."""
        route = getattr(scope.get("route"), "path", None) or "other"
        method = scope["method"] if scope["method"] in _METHODS else "OTHER"
        with self._lock:
            self._requests[method, route, status] += 1
            self._seconds[route] += seconds  # type: ignore[assignment]  # a sum of seconds
            self._numbers[route] += 1
            for bound in _BUCKETS:
                self._buckets[route, bound] += seconds <= bound
        if self._log is not None:
            # Names in a path (of banks, of files) are what somebody wrote: the route is enough.
            line = {
                "at": now(),
                "method": method,
                "route": route,
                "status": status,
                "ms": round(seconds * 1000, 1),
            }
            self._log.write(msgspec.json.encode(line).decode() + "\n")
            self._log.flush()

    def page(self) -> str:
        """Return all counts, in Prometheus's text format."""
        with self._lock:
            requests, buckets = sorted(self._requests.items()), dict(self._buckets)
            seconds, numbers = dict(self._seconds), dict(self._numbers)
        lines = [
            "# HELP satchel_requests_total Requests that were answered.",
            "# TYPE satchel_requests_total counter",
        ]
        for (method, route, status), number in requests:
            labels = f'method="{method}",route="{route}",status="{status}"'
            lines.append(f"satchel_requests_total{{{labels}}} {number}")
        lines += [
            "# HELP satchel_request_seconds How long answers took.",
            "# TYPE satchel_request_seconds histogram",
        ]
        for route, number in sorted(numbers.items()):
            for bound in _BUCKETS:
                count = buckets.get((route, bound), 0)
                lines.append(
                    f'satchel_request_seconds_bucket{{route="{route}",le="{bound}"}} {count}'
                )
            lines.append(f'satchel_request_seconds_bucket{{route="{route}",le="+Inf"}} {number}')
            lines.append(f'satchel_request_seconds_sum{{route="{route}"}} {seconds[route]:.6f}')
            lines.append(f'satchel_request_seconds_count{{route="{route}"}} {number}')
        return "\n".join(lines) + "\n"


_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def to_standard_error() -> Counting:
    """Return what writes its log there."""
    return Counting(sys.stderr)
