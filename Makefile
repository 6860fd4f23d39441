# demo, check, prove and bench-full are the four commands; the rest are their parts.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin/
SHELL := /bin/bash
# Compiled once, apart from the sources: the tests start hundreds of processes.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/.venv/pycache

.PHONY: demo check compiled prove bench-full scoreboard-recall lint types layers docs site test docs-write screens clean

demo: .venv/.runtime           ## the main job on a sample export
	$(BIN)python examples/demo.py

check: .venv/.dev              ## everything CI runs; a test builds the site
	+$(MAKE) --no-print-directory -j 2 lint layers docs compiled
	+$(MAKE) --no-print-directory -j 2 types test
	+$(MAKE) --no-print-directory demo
	@echo "check: all passed"

prove: .venv/.dev              ## kills, faults, peers, ratios (more than an hour)
	HYPOTHESIS_PROFILE=prove $(BIN)python -m pytest -q -n 2 -m 'prove or hypothesis' -o timeout=1500 tests
	$(BIN)python -m benchmarks.report

bench-full: .venv/.dev         ## a million entries; by hand
	$(BIN)python -m pytest -q -m bench_full -o timeout=7200 tests
	$(BIN)python -m benchmarks.report --full

# Sets that `satchel evaluate recall` reads; they are not part of this repository.
DATA ?= $(addprefix $(or $(SATCHEL_SHARED),../shared)/data/,locomo/locomo-first6.json beam qmsum)
scoreboard-recall: .venv/.dev  ## recall beside plain search; DATA="FILE FOLDER ..."
	$(BIN)python -m benchmarks.scoreboard_recall $(DATA)

lint: .venv/.dev
	$(BIN)ruff format --check .
	$(BIN)ruff check .

types: .venv/.dev
	$(BIN)mypy

layers: .venv/.dev
	$(BIN)lint-imports --no-cache

docs: .venv/.dev
	$(BIN)python -m docs.generate --check
	$(BIN)python -m release.changelog --check
	$(BIN)python schemas/make.py --check

site: .venv/.dev               ## the documentation as a site, in site/; a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)mkdocs build -q

docs-write: .venv/.dev         ## regenerate docs/reference and schemas
	$(BIN)python -m docs.generate
	$(BIN)python -m release.changelog
	$(BIN)python schemas/make.py

screens: .venv/.dev            ## new images of the web page; look at them, then commit
	UPDATE_SCREENS=1 $(BIN)python -m pytest -q tests/web/test_screens.py -k 'reference or picture'

# Test modules, once instead of in every test process.
compiled: .venv/.dev
	$(BIN)python -m pytest -qq --collect-only >/dev/null

# Most of the tests' time is forcing writes to the disk. Where that is allowed, their files are kept
# in memory instead, on a mount that only they see and that goes with them: what is left when
# processes and servers are killed is the same. `make prove` forces a disk.
IN_MEMORY := unshare -m sh -c 'mount -t tmpfs -o mode=755 tmpfs "$$TMPDIR" && exec "$$@"' sh
CAN := $(shell awk '/MemAvailable/ {exit $$2 < 4000000}' /proc/meminfo 2>/dev/null && \
	TMPDIR=/mnt $(IN_MEMORY) true 2>/dev/null && echo yes)

# Concurrent test processes: with four, two cores have work while tests wait.
WORKERS ?= 4

test: .venv/.dev
	export TMPDIR=$$(mktemp -d) && trap 'rm -rf "$$TMPDIR"' EXIT && \
	$(if $(CAN),$(IN_MEMORY)) env HYPOTHESIS_PROFILE=ci $(BIN)python -m pytest -q -n $(WORKERS) --dist worksteal

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed")'
	$(PYTHON) -m venv .venv
	$(BIN)python -m pip install -q --upgrade "pip>=25.1"

.venv/.runtime: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)python -m pip install -q -c constraints.txt -e .
	@touch $@

.venv/.dev: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)python -m pip install -q -c constraints.txt -e . --group dev
	@touch .venv/.runtime $@

clean:
	rm -rf .venv demo-out site .mypy_cache .ruff_cache .pytest_cache .hypothesis
