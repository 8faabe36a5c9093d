# Every target makes the .venv it needs, once. Another Python: make test PYTHON=python3.12
PYTHON ?= python3
BIN := .venv/bin
# The second constraint reaches the build environment too, where -c does not.
INSTALL := PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install -qq --disable-pip-version-check \
	-c constraints.txt

# An active environment of the user's own must not leak into ours.
unexport VIRTUAL_ENV PYTHONHOME PYTHONPATH

# Two installs into one .venv must not run at the same time.
.NOTPARALLEL:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
.PHONY: help demo docs notebooks test test-slow test-distributed test-browser check bench repro campaign release clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-19s %s\n", $$1, $$2 }' Makefile

demo: .venv/.stamp-cli,serve ## find wrong labels among handwritten digits
	@$(BIN)/turnover demo

# A process a core: each test has one thread (see tests/conftest.py). A file stays in one process, for its fixtures.
test: .venv/.stamp-test ## all fast tests
	@$(BIN)/python -m pytest -n auto --dist loadfile --ignore=tests/browser --ignore=tests/distributed

# pytest ends with 5 where nothing is marked slow. A Ray cluster of three nodes is among them, of which one is killed.
test-slow: .venv/.stamp-test ## the tests marked slow
	@OMP_WAIT_POLICY=PASSIVE $(BIN)/python -m pytest -m slow --ignore=tests/browser --ignore=tests/distributed || [ $$? -eq 5 ]

# It starts two processes of its own, which have both cores to themselves.
test-distributed: .venv/.stamp-test ## two processes beside one: training, saving, scores; prints the table
	@$(BIN)/python -m pytest tests/distributed

# Chromium comes from the system, as Debian and Ubuntu call it; what has another name: TURNOVER_CHROMIUM and
# TURNOVER_CHROMEDRIVER say where it is.
CHROMIUM := $(or $(TURNOVER_CHROMIUM),/usr/bin/chromium)
CHROMEDRIVER := $(or $(TURNOVER_CHROMEDRIVER),/usr/bin/chromedriver)

test-browser: .venv/.stamp-browser $(CHROMIUM) $(CHROMEDRIVER) ## pages in a real browser
	@$(BIN)/python -m pytest tests/browser

$(CHROMIUM) $(CHROMEDRIVER):
	@if ! command -v apt-get >/dev/null || { [ "$$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null; }; then \
	  echo "test-browser: $@ is missing. Install Chromium and its driver (Debian: chromium chromium-driver), or say" \
	    "where they are: make test-browser TURNOVER_CHROMIUM=... TURNOVER_CHROMEDRIVER=..."; exit 1; fi
	@echo "installing chromium and chromium-driver"
	@root=; [ "$$(id -u)" -eq 0 ] || root=sudo; \
	  $$root apt-get update -qq && $$root apt-get install -y -qq --no-install-recommends \
	    chromium chromium-driver fonts-dejavu-core >/dev/null

# It needs no Chromium and no schemathesis: what is missing is said, and skipped. SOAK=20: the live page under load alone.
campaign: .venv/.stamp-test ## bad files, damages, kills, full disks, odd requests, misuse: half an hour; writes docs/reliability.md
	@OMP_WAIT_POLICY=PASSIVE OMP_NUM_THREADS=1 $(BIN)/python -m tests.campaign $(if $(SOAK),--soak $(SOAK))

# pyright reads the types of what the code imports, hence all baselines.
check: .venv/.stamp-check ## style, types and the import ladder
	@$(MAKE) -s -C bench packages
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/pyright
	@$(BIN)/mypy tests/user_project
	@$(BIN)/lint-imports --no-logo

# Outputs are kept in the files, and the site shows them.
notebooks: .venv/.stamp-test ## run the notebooks, and keep their outputs
	@OMP_WAIT_POLICY=PASSIVE $(BIN)/python tools/notebooks.py

# Material for MkDocs says on every build that its successor is coming.
docs: .venv/.stamp-docs ## the site, into site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build -q
	@echo "site/index.html; with search: $(BIN)/python -m http.server -d site --bind 127.0.0.1"

# Experiments and benchmarks have a Makefile of their own.
bench: ## speed and memory, as ratios; also bench-faithfulness and bench-peers
repro: ## the results of the paper; one of them: make repro-table1 SIZE=small
bench repro:
	@$(MAKE) --no-print-directory -C bench $@
bench-% repro-%:
	@$(MAKE) --no-print-directory -C bench $@

# The wheel is tried in an environment that has nothing else but what runs notebooks.
release: .venv/.stamp-release ## sdist and wheel in dist/, checked and tried: make release REPOSITORY=https://...
	@[ -n "$(REPOSITORY)" ] || { echo "say where the repository is, for links on the package index: make release REPOSITORY=https://..."; exit 1; }
	@rm -rf dist .venv-wheel
	@TURNOVER_REPOSITORY=$(REPOSITORY) PIP_CONSTRAINT=constraints.txt $(BIN)/python -m build -q
	@$(BIN)/python -m twine check --strict dist/*
	@$(PYTHON) -m venv .venv-wheel
	@.venv-wheel/bin/python -m pip install -qq --disable-pip-version-check -c constraints.txt \
	  "$$(ls dist/*.whl)[cli,serve,store]" nbclient ipykernel
	@.venv-wheel/bin/python -m pip check
	@cd dist && OMP_WAIT_POLICY=PASSIVE ../.venv-wheel/bin/python ../tools/readme_example.py ../README.md
	@cd dist && OMP_WAIT_POLICY=PASSIVE ../.venv-wheel/bin/python ../tools/notebooks.py ../notebooks/label_errors_in_a_table.ipynb
	@cd dist && OMP_WAIT_POLICY=PASSIVE ../.venv-wheel/bin/turnover demo --out demo
	@rm -rf dist/demo* && ls -l dist

clean: ## remove .venv, caches and builds
	rm -rf .venv .venv-* .pytest_cache .ruff_cache .import_linter_cache .hypothesis dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/.stamp-venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "turnover needs Python 3.11 or newer: make PYTHON=python3.12")'
	@$(PYTHON) -m venv .venv
	@touch $@

# The stamp of an extra, or of several: .venv/.stamp-test is .[test], .venv/.stamp-cli,serve is .[cli,serve].
.venv/.stamp-%: pyproject.toml bench/pyproject.toml constraints.txt | .venv/.stamp-venv
	@echo "installing turnover[$*] and what it needs into .venv: 2 to 10 minutes the first time, seconds later"
	@$(INSTALL) -e '.[$*]' $(if $(filter test,$*),-e bench)
	@touch $@
