"""Memory stores in every kind of location."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from s3_kit import S3Server, s3_server

from satchel.files import MemoryStore


@pytest.fixture
def folder(tmp_path: Path) -> Callable[[], Path]:
    """A function that makes a new empty folder."""
    names = itertools.count()

    def make() -> Path:
        path = tmp_path / f"folder-{next(names)}"
        path.mkdir()
        return path

    return make


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MemoryStore]:
    """An empty store in a folder."""
    with MemoryStore(root=tmp_path / "store") as made:
        yield made


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """A server that speaks S3 and counts requests."""
    with s3_server() as server:
        yield server
