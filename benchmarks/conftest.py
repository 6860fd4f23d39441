"""Print the tables of the benchmarks at the end of the run."""

from pathlib import Path

import pytest

from benchmarks.measure import tables


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Store keys, trust and state in a folder of the test."""
    home = tmp_path / "home"
    for variable in ("SATCHEL_HOME", "SATCHEL_WITNESS"):
        monkeypatch.setenv(variable, str(home))
    monkeypatch.setenv("SATCHEL_CONFIG", "")
    return home


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the tables, where the run was for them."""
    if "prove" in config.option.markexpr or "bench_full" in config.option.markexpr:
        for table in tables.values():
            if "not" not in config.option.markexpr.split():
                terminalreporter.write_line(f"\n{table}")
