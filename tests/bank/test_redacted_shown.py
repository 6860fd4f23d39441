"""Whoever looks at a redacted memory sees that it is redacted, by whom and when."""

import pytest
from bank_kit import filled, keep, owner

from satchel.bank.connections import writer_key
from satchel.bank.details import history, show
from satchel.bank.listings import ListRequest, list_memories
from satchel.config.settings import load_settings
from satchel.erasure.redaction import redact
from satchel.erasure.selection import RedactOptions


@pytest.fixture
def name() -> str:
    """A redacted memory, beside a whole one."""
    with filled("b") as bank:
        keep(bank, "whole")
        name = keep(bank, "write to ada@example.com")
        assert redact.run(bank, RedactOptions(ids=(name,))).redacted
    owner()
    return name


def test_show_history_and_list_report_it(name: str) -> None:
    """And of a memory that is whole they say nothing of the sort."""
    by = writer_key(load_settings()).did
    with filled("b") as bank:
        shown = show(bank, name)
        (version,) = history(bank, name).versions
        listed = {one.id: one.redacted for one in list_memories(bank, ListRequest())}
    assert shown.redacted is not None
    assert (shown.redacted.by, shown.redacted.fields, shown.redacted.imported) == (
        by,
        ["/text"],
        False,
    )
    assert shown.redacted.at.startswith("20")
    assert version.redacted == shown.redacted
    assert [one for one in listed.values() if one is not None] == [shown.redacted]
