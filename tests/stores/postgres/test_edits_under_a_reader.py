"""An edit by SQL under a program that keeps the store open."""

import pytest
from postgres_kit import run_sql

from satchel.api.satchel import Satchel
from satchel.errors import VerificationError


def test_a_row_hidden_by_sql_is_refused_once_the_store_is_opened_again(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the threat model promises: the stamp counts changes by Satchel alone."""
    mark = "&" if "?" in postgres else "?"
    monkeypatch.setenv("SATCHEL_STORE", f"{postgres}{mark}schema=hidden")
    with Satchel.open() as satchel:
        bank = satchel.create_bank("assistant")
        bank.remember("likes tea")
        run_sql(postgres, "UPDATE hidden.record SET hold = true WHERE type = 'semantic'")
        with (
            Satchel.open() as other,
            pytest.raises(
                VerificationError, match=r"hides record|the index says something else of record"
            ),
        ):
            other.bank("assistant").list()
    run_sql(postgres, "DROP SCHEMA hidden CASCADE")
