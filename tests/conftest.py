"""Settings and fixtures shared by every test."""

import gc
import os
import subprocess
import tempfile
import uuid
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import settings

from satchel.artifact.verification import TrustPolicy
from satchel.crypto.keys import SigningKey

settings.register_profile("dev", max_examples=50, deadline=None)
settings.register_profile("ci", max_examples=8, deadline=None, derandomize=True, print_blob=True)
settings.register_profile("prove", max_examples=200, deadline=None, print_blob=True)
settings.register_profile("night", max_examples=5000, deadline=None, stateful_step_count=100)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))

ROOT = Path(__file__).parent.parent


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leave the tests out of every search for garbage; all 20,000 stay to the end of the run.

    To search them while they are collected takes as long as collecting them. What tests leave is
    searched less often than usual: a fifth of their time went into that.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000, 20, 50)
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave most cases of large tests to `make prove`, and run the long tests first.

    Otherwise a test process would be alone with a long one at the end.
    """
    _mark_other_cases(items)
    usual = float(config.getini("timeout"))

    def is_short(item: pytest.Item) -> bool:
        marker = item.get_closest_marker("timeout")
        return marker is None or marker.args[0] <= usual

    items.sort(key=is_short)


def _mark_other_cases(items: list[pytest.Item]) -> None:
    cases = defaultdict[tuple[str, int], list[pytest.Item]](list)
    for item in items:
        for marker in item.iter_markers("in_check"):
            cases[item.nodeid.partition("[")[0], marker.args[0]].append(item)
    for (_, number), found in cases.items():
        spaced = {round(index * len(found) / number) for index in range(number)}
        for index, item in enumerate(found):
            if index not in spaced:
                item.add_marker(pytest.mark.prove)


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep keys, trust and state of every test in a folder of its own."""
    home = tmp_path / "satchel-home"
    for variable in list(os.environ):
        if (
            variable.startswith(("SATCHEL_", "ASTROCYTE_", "AMPLIHACK_"))
            and variable != "SATCHEL_SHARED"
        ):
            monkeypatch.delenv(variable)
    monkeypatch.setenv("SATCHEL_HOME", str(home))
    monkeypatch.setenv("SATCHEL_WITNESS", str(tmp_path / "satchel-witness"))
    monkeypatch.setenv("SATCHEL_CONFIG", "")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "satchel-config"))
    return home


@pytest.fixture(autouse=True)
def clean_checkout() -> Iterator[None]:
    """Fail a test that leaves something in the checkout, such as a store of a relative name."""
    before = _in_checkout()
    yield
    left = _in_checkout() - before
    assert not left, f"left in the checkout, which belongs in tmp_path: {sorted(left)}"


def _in_checkout() -> set[str]:
    # Names with a dot are caches of the tools.
    return {name for name in os.listdir(ROOT) if not name.startswith(".")}  # noqa: PTH208 - fast


@pytest.fixture
def private_umask() -> Iterator[None]:
    """Have what the test writes be its own alone, as files with secrets have to be."""
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The sample files kept beside the project; tests that use it carry the mark ``shared``."""
    shared = Path(os.environ.get("SATCHEL_SHARED") or ROOT.parent / "shared")
    if not (shared / "data").is_dir():
        pytest.skip("the sample files are not here (SATCHEL_SHARED, ../shared)")
    return shared / "data"


@pytest.fixture(scope="session")
def key() -> SigningKey:
    """A signing key that is the same in every run."""
    return SigningKey.from_seed(bytes(range(32)))


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a real PostgreSQL, from a wheel: one server for the whole run.

    Each worker has a database of its own in it.
    """
    from postgres_kit import shared_server

    with shared_server(os.environ.get("PYTEST_XDIST_TESTRUNUID") or uuid.uuid4().hex) as address:
        yield address


@pytest.fixture
def trusting(key: SigningKey) -> TrustPolicy:
    """A policy that believes ``key`` and remembers nothing."""
    return TrustPolicy(keys=frozenset([key.did]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests with the shared samples ran, so that a silent skip shows."""
    ran = sum(
        "shared" in report.keywords and report.when == "call"
        for report in terminalreporter.stats.get("passed", [])
    )
    not_run = sum("shared" in r.keywords for r in terminalreporter.stats.get("skipped", []))
    terminalreporter.write_line(f"shared samples: {ran} tests ran, {not_run} could not")


@pytest.fixture
def mount_small() -> Iterator[Callable[[str], Path]]:
    """Give what mounts a file system of a size such as ``64k``; that needs root.

    Where any user may go: pytest closes the folders above ``tmp_path`` whenever a run begins.
    """
    with tempfile.TemporaryDirectory() as name, ExitStack() as mounted:
        Path(name).chmod(0o755)

        def mount(size: str) -> Path:
            folder = Path(name) / "small"
            folder.mkdir()
            options = ["-t", "tmpfs", "-o", f"size={size},mode=755", "tmpfs", str(folder)]
            if subprocess.run(["mount", *options], check=False, capture_output=True).returncode:
                pytest.skip("a small file system can be mounted by root only")
            mounted.callback(subprocess.run, ["umount", str(folder)], check=True)
            return folder

        yield mount


@pytest.fixture(params=["sqlite", "sqlite encrypted", "ladybug", "postgresql"])
def any_store(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """The configured store, of each kind."""
    places = {"sqlite": f"{tmp_path}/s.db", "ladybug": f"ladybug:///{tmp_path}/graph"}
    if request.param == "sqlite encrypted":
        from satchel.bank.machine_keys import create_identity, lock_for
        from satchel.config.settings import load_settings
        from satchel.replication.store_operations import rekey_store

        monkeypatch.setenv("SATCHEL_STORE", places["sqlite"])
        settings = load_settings()
        create_identity(settings, "of-the-store")
        rekey_store(settings, lock_for(settings, ["of-the-store"]))
        yield places["sqlite"]
        return
    if place := places.get(request.param):
        monkeypatch.setenv("SATCHEL_STORE", place)
        yield place
        return
    from postgres_kit import in_schema, run_sql

    server, schema = request.getfixturevalue("postgres"), f"s_{uuid.uuid4().hex}"
    monkeypatch.setenv("SATCHEL_STORE", in_schema(server, schema))
    yield in_schema(server, schema)
    run_sql(server, f"DROP SCHEMA IF EXISTS {schema} CASCADE")
