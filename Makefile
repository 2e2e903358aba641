# `make demo` and `make test` are the two commands a new user needs; both set up .venv by themselves.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: $(shell grep -oE "^[a-z-]+:" Makefile | tr -d :)

.venv/.ready: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

demo: .venv/.ready ## a million keyboards, from the device to demo/report.html
	$(BIN)/ldp demo --out demo

test: lint ## lint, types and the fast tests
	$(BIN)/pytest -n 2 -m 'not slow'

lint: .venv/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

.venv/.spark: .venv/.ready
	-$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[spark]' && touch $@

# slow tests that compute and nothing else: two at a time; the others kill processes, or time them
COMPUTE := $(addprefix tests/test_,$(addsuffix .py,audit audit_client black_box conformance history memoised studies))

check: .venv/.ready .venv/.spark ## the slow tests beyond `make test`; those on Spark need Java
	$(BIN)/pytest -n 2 -m slow $(COMPUTE)
	$(BIN)/pytest -m slow $(addprefix --ignore=,$(COMPUTE))

bench: .venv/.ready ## ours, the peer's, the ratio, the machine
	$(BIN)/python -m simulations.benchmarks

campaign-association: .venv/.ready ## 900 sets of joint reports, and the fit beside plain EM; exits non-zero when an interval, the test or a second is missed
	$(BIN)/python -m simulations.association --out simulations/results/association.json

campaign-audit: .venv/.ready ## a million reports of every published setting; exits non-zero when one is not what it claims
	$(BIN)/python -m simulations.audit --out simulations/results/audit.json

campaign-collector: .venv/.ready ## 240 kills, full disks, 100 clock jumps, 40 power cuts, 1,700 connections held open, 200 stops at readiness, 40 leaps of the clock, 1,000 refused batches, a metric that cannot be written, a million fuzzed bodies, ten minutes of each load; exits non-zero when a report is lost or a bar missed
	$(BIN)/python -m simulations.collector --out simulations/results/collector.json

bench-collector: .venv/.ready ## a minute of batches of 100 and of 4 on one core
	$(BIN)/python -m simulations.benchmarks.collector

bench-sizing: .venv/.ready ## what counting 1e6, 1e7 and 1e8 reports takes
	$(BIN)/python -m simulations.benchmarks.sizing --large

campaign-coverage: .venv/.ready ## ten demos and three billion-user tables; exits non-zero when a bar is missed
	$(BIN)/python -m simulations.coverage --out simulations/results/coverage.json

campaign-device: .venv/.ready ## a device killed 1,000 times, cut off 60 times, and owned by a hostile app for 10,000 days
	$(BIN)/python -m simulations.device_faults --out simulations/results/device.json

campaign-discoveries: .venv/.ready ## 600 RAPPOR tables; exits non-zero when an error rate or an interval does not hold
	$(BIN)/python -m simulations.discoveries --out simulations/results/discoveries.json

campaign-rappor: .venv/.ready ## google/rappor's 17 cases beside its own decoder; exits non-zero when a bar is missed
	$(BIN)/python -m simulations.rappor_cases --out simulations/results/rappor_cases.json

campaign-timing: .venv/.ready ## a hundred thousand calls of every encoder; exits non-zero when their time tells a true report from a lie
	$(BIN)/python -m simulations.timing --out simulations/results/timing.json

campaign-variance: .venv/.ready ## 90,000 tables a setting; exits non-zero when a variance is not its formula's
	$(BIN)/python -m simulations.variance --out simulations/results/variance.json

campaign-intervals: .venv/.ready ## 20,000 small tables a mechanism or more; exits non-zero when an interval does not hold in 95 %
	$(BIN)/python -m simulations.intervals --out simulations/results/intervals.json

campaign-prefixes: .venv/.ready ## prefix extension beside Apple's puzzle in eight settings, 20 seeds each; exits non-zero when it finds less
	$(BIN)/python -m simulations.prefixes --out simulations/results/prefixes.json

campaign-strings: .venv/.ready ## 30 populations of strings that nobody listed, by RAPPOR n-grams, puzzle and prefixes; exits non-zero when too few are found, one is false, or it takes a minute
	$(BIN)/python -m simulations.strings --out simulations/results/strings.json

campaign-plan: .venv/.ready ## 30 plans against 200,000 draws a mechanism; exits non-zero when a bar is missed
	$(BIN)/python -m simulations.plan --out simulations/results/plan.json

campaign-words: .venv/.ready ## 20 puzzles of ten million English words; exits non-zero when too few are found or one is false
	$(BIN)/python -m simulations.words --out simulations/results/words.json

docs: .venv/.ready ## the book, docs/_build/docs/index.html, without a network; a warning is an error
	$(BIN)/sphinx-build -q -W -c docs . docs/_build
	@echo docs/_build/docs/index.html

studies: studies-regression ## redraw every study; exits non-zero when a bar is missed
	$(BIN)/python -m simulations.studies

studies-regression: .venv/.ready ## redraw every study of regression and the central model, in about 5 min; exits non-zero when a bar is missed
	$(BIN)/python -m simulations.regression

vectors: .venv/.ready ## rewrite the golden vectors
	$(BIN)/python -m tests.vectors

picture: demo ## redraw the picture in the README; needs Chromium
	chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1100,1350 \
	  --user-data-dir=$$(mktemp -d) --screenshot=docs/images/report.png file://$(CURDIR)/demo/report.html

clean:
	rm -rf .venv demo docs/_build .mypy_cache .pytest_cache .ruff_cache
