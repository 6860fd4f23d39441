"""Whatever is asked, in whatever shape: the server has an answer, and it is never that it broke."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from http_kit import example_of, serving, where_of
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case

from satchel.http.guard import ServerLimits


def _tried(examples: int, *, some: int | None = None) -> int:
    """Try every operation of the document, or some, and return how many there are."""
    with serving(bounds=ServerLimits(per_second=0)) as served:
        schema = schemathesis.openapi.from_dict(served.app.openapi())
        client = served.client()
        number = 0
        operations = [found.ok() for found in schema.get_all_operations()]  # type: ignore[union-attr]
        chosen = operations if some is None else random.sample(operations, some)
        for operation in chosen:
            number += 1

            @settings(
                max_examples=examples,
                deadline=None,
                database=None,
                phases=[Phase.explicit, Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(case=operation.as_strategy())
            def ask(case: Case[Any]) -> None:
                said = case.as_transport_kwargs(base_url="http://localhost")
                said.pop("cookies", None)
                if isinstance(said.get("data"), bytes):
                    said["content"] = said.pop("data")
                answer = client.request(**said)
                assert answer.status_code < 500 or answer.status_code == 503, answer.text
                assert answer.status_code not in (403, 421)

            ask()
    return number


def test_every_request_has_an_example_that_the_server_understands(own_home: Path) -> None:
    """Each is sent as it stands in the document; none is answered as one that cannot be read."""
    del own_home
    number, lacking = 0, []
    with serving(bounds=ServerLimits(per_second=0)) as served:
        client = served.client()
        document = client.get("/v1/openapi.json").json()
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                number += 1
                said = example_of(operation)
                if said is None:
                    lacking.append((method, path))
                    continue
                where = where_of(path, said.pop("path"))
                answer = client.request(method, where, **said)
                assert answer.status_code < 500, (method, path, answer.text)
                problem = answer.headers.get("Content-Type") == "application/problem+json"
                assert not problem or "errors" not in answer.json(), (method, path, answer.text)
    assert lacking == []
    assert number >= 80


HOSTILE: list[Any] = [
    None,
    True,
    -1,
    2**70,
    1e308,
    "",
    "\0",
    "../../etc/passwd",
    "é" * 300,
    "9999-99-99",
    [],
    [None],
    {},
    {"": {"a": [[[[]]]]}},
]


def test_no_member_of_a_request_breaks_the_server_whatever_it_is(own_home: Path) -> None:
    """Attack: members of each body and parameters of each route, by turns something else."""
    del own_home
    with serving(bounds=ServerLimits(per_second=0)) as served:
        client = served.client()
        client.post("/v1/banks", json={"name": "assistant"})
        for path, operations in served.app.openapi()["paths"].items():
            for method, operation in operations.items():
                altered = list(_altered(path, operation))
                for where, asked in random.sample(altered, min(len(altered), 4)):
                    answer = client.request(method, where, **asked)
                    assert answer.status_code < 500, (method, where, asked, answer.text)


def _altered(path: str, operation: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield requests in which one thing is not as in the example."""
    said = example_of(operation)
    assert said is not None
    steps = said.pop("path")
    names = [one["name"] for one in operation.get("parameters", []) if one["in"] == "query"]
    usual = where_of(path, steps)
    for value in HOSTILE:
        for name in steps:
            yield where_of(path, steps | {name: str(value) or " "}), said
        for name in names:
            yield usual, said | {"params": said["params"] | {name: str(value)}}
        for name in said.get("json", {}):
            yield usual, said | {"json": said["json"] | {name: value}}


def test_some_requests_that_fit_the_document_do_not_break_the_server(own_home: Path) -> None:
    """Other routes in each run; the next test tries all of them, and much more of each."""
    del own_home
    assert _tried(2, some=6) == 6


@pytest.mark.prove
@pytest.mark.timeout(1500)
def test_no_request_that_fits_the_document_breaks_the_server(own_home: Path) -> None:
    """Forty of each operation."""
    del own_home
    assert _tried(40) >= 80
