"""Whatever is asked, in whatever shape: the server has an answer, and it is never that it broke."""

from pathlib import Path
from typing import Any

import pytest
import schemathesis
from http_kit import serving
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case

from satchel.surfaces.http.guard import Bounds


def _tried(examples: int) -> int:
    """Try every operation of the document, and return how many there are."""
    with serving(bounds=Bounds(per_second=0)) as served:
        schema = schemathesis.openapi.from_dict(served.app.openapi())
        client = served.client()
        number = 0
        for found in schema.get_all_operations():
            operation = found.ok()  # type: ignore[union-attr]
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
                answer = client.request(**said)
                assert answer.status_code < 500 or answer.status_code == 503, answer.text
                assert answer.status_code not in (403, 421)

            ask()
    return number


@pytest.mark.prove
@pytest.mark.timeout(1500)
def test_no_request_that_fits_the_document_breaks_the_server(own_home: Path) -> None:
    """Forty of each operation."""
    del own_home
    assert _tried(40) > 30
