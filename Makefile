# `make demo` and `make test` are the two commands a new user needs; both set up .venv by themselves.
PYTHON ?= python3
BIN := .venv/bin
# several tests run at a time, each on one core, and start many processes
test fast-tests check campaign-tests: export OPENBLAS_NUM_THREADS := 1
test fast-tests check campaign-tests: export PYTHONDONTWRITEBYTECODE :=
# in memory where that has room: what a device syncs needs no disk, which is waited for otherwise
test fast-tests check campaign-tests: export TMPDIR := $(or $(TMPDIR),$(shell df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 1e6 {print "/dev/shm"}'),/tmp)

.PHONY: $(shell grep -oE "^[a-z-]+:" Makefile | tr -d :)

help: ## this list
	@sed -nE 's/^([a-z%-]+):[^#]*## /\1: /p' Makefile
	@echo "campaigns: $(CAMPAIGNS)"

.venv/.ready: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

demo: .venv/.ready ## a million keyboards, from the device to demo/report.html
	$(BIN)/ldp demo --out demo

test: .venv/.ready ## lint, types and the fast tests, at one time
	$(MAKE) --no-print-directory -j 2 lint fast-tests

fast-tests: .venv/.ready
	$(BIN)/pytest -n 3 --durations 20 -m 'not slow and not campaign'

lint: .venv/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

.venv/.spark: .venv/.ready
	-$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[spark]' && touch $@
	-$(BIN)/pip install --quiet --disable-pip-version-check pandas polars statsmodels

# slow tests of a collector under load wait much and run two at a time, after those that compute
WAITING := $(addprefix tests/collection/test_,$(addsuffix .py,collector_end_to_end relay_end_to_end collector_faults collector_fuzz collector_load))

# what `make test` leaves out where these packages are missing
WITH_FRAMES := $(addprefix tests/,tables/test_columns.py tables/test_from_reports.py simulation/test_front_door.py regression/test_randomized_outcome.py)

check: .venv/.ready .venv/.spark ## the slow tests beyond `make test`, and those with pandas and polars; those on Spark need Java
	$(BIN)/pytest -n 3 -m 'not slow and not campaign' $(WITH_FRAMES)
	$(BIN)/pytest -n 3 --durations 20 -m 'slow and not campaign' $(addprefix --ignore=,$(WAITING))
	$(BIN)/pytest -n 2 -m 'slow and not campaign' $(WAITING)

CAMPAIGNS := association audit changes cheats collector coverage device-faults discoveries false-alarms hostile intervals joint-discoveries lives nemesis numbers people plan portfolio portfolio-numbers prefixes publish rappor-cases relay scale shuffling small-sketches strings surveys timing variance web words

campaign-tests: .venv/.ready .venv/.spark ## the tests that take too long for `make check`
	$(BIN)/pytest -n 2 --durations 20 -m campaign

campaign-%: .venv/.ready ## one of the campaigns, as campaign-coverage: minutes to hours; writes simulations/results/NAME.json, exits non-zero when a bar is missed
	$(BIN)/python -m simulations.$(subst -,_,$*) --out simulations/results/$(subst -,_,$*).json

bench: .venv/.ready ## ours, the peer's, the ratio, the machine
	$(BIN)/python -m simulations.benchmarks

bench-collector: .venv/.ready ## a minute of batches of 100 and of 4 on one core
	$(BIN)/python -m simulations.benchmarks.collector

bench-sizing: .venv/.ready ## what counting 1e6, 1e7 and 1e8 reports takes
	$(BIN)/python -m simulations.benchmarks.sizing --large

test-lowest: ## the fast tests with the lowest versions that pyproject.toml allows; needs uv
	uv venv -q --python $(PYTHON) .venv-lowest
	uv pip install -q --python .venv-lowest/bin/python --resolution lowest-direct --editable '.[dev]'
	.venv-lowest/bin/pytest -n 2 -m 'not slow and not campaign' -W default

release: .venv/.ready ## source and wheel into dist/, their description checked
	@! grep -n "ldp.invalid" pyproject.toml clients/typescript/package.json || (echo "replace the placeholder first: RELEASE.md, step 1"; exit 1)
	$(BIN)/pip install --quiet --disable-pip-version-check build twine
	rm -rf dist && $(BIN)/python -m build && $(BIN)/twine check --strict dist/*

docs: .venv/.ready ## the book, docs/_build/docs/index.html, without a network; a warning is an error
	$(BIN)/sphinx-build -q -W -c docs . docs/_build
	@echo docs/_build/docs/index.html

studies: studies-regression ## redraw every study, with RESUME=--resume those that this code has not drawn; exits non-zero when a bar is missed
	$(BIN)/python -m simulations.studies $(RESUME)

studies-regression: .venv/.ready ## redraw every study of regression and the central model, in about 8 min; exits non-zero when a bar is missed
	$(BIN)/python -m simulations.regression $(RESUME)

vectors: .venv/.ready ## rewrite the golden vectors
	$(BIN)/python -m tests.vectors

notebooks: .venv/.ready ## run the example notebooks and rewrite docs/notebooks
	$(BIN)/python -m tests.notebooks

tables: .venv/.ready ## rewrite the tables of mechanisms in docs, the page of commands and the JSON Schemas
	$(BIN)/python -m tests.doc_tables

pictures: .venv/.ready ## redraw the pictures of the report page in docs/images; needs Chromium
	$(BIN)/python -m simulations.pictures

clean:
	rm -rf .venv demo docs/_build .mypy_cache .pytest_cache .ruff_cache
