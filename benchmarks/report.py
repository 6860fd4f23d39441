"""``python -m benchmarks.report``: run the benchmarks and print or save the results."""

import argparse
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.measure import ROOT, tables

RESULTS = Path(__file__).parent / "results"


def main() -> int:
    """Run them and return pytest's status."""
    arguments = argparse.ArgumentParser(prog="python -m benchmarks.report", description=__doc__)
    arguments.add_argument("--full", action="store_true", help="also those that take long")
    arguments.add_argument("--write", action="store_true", help="keep the figures in results/")
    options = arguments.parse_args()
    marks = "prove or bench_full" if options.full else "prove"
    status = pytest.main(["-q", "-p", "no:randomly", "-m", marks, str(ROOT / "benchmarks")])
    if options.write:
        name = "full" if options.full else "prove"
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{name}.md").write_text(_page(), encoding="utf-8")
    return int(status)


def _page() -> str:
    commit = subprocess.run(
        ["git", "-C", ROOT, "describe", "--always", "--dirty", "--abbrev=12"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    machine = f"{_processor()}, {platform.system()}, Python {platform.python_version()}"
    shown = "\n\n".join(str(table) for table in tables.values())
    return f"# Benchmark results\n\n{machine}, commit {commit or 'unknown'}.\n\n{shown}\n"


def _processor() -> str:
    try:
        facts = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in facts.splitlines() if "model name" in line]
    return f"{names[0]} x {len(names)}" if names else platform.processor()


if __name__ == "__main__":
    sys.exit(main())
