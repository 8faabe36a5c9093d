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
.PHONY: help demo docs notebooks test test-slow test-distributed test-ray test-lowest test-browser test-quanda check release bench bench-faithfulness bench-peers repro constraints-hashes campaign soak clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-19s %s\n", $$1, $$2 }' Makefile

demo: .venv/.stamp-cli,serve ## find wrong labels among handwritten digits
	@$(BIN)/turnover demo

# A process a core: each test has one thread (see tests/conftest.py). A file stays in one process, for its fixtures.
test: .venv/.stamp-test ## all fast tests
	@$(BIN)/python -m pytest -n auto --dist loadfile --ignore=tests/browser --ignore=tests/distributed

# pytest ends with 5 where nothing is marked slow.
test-slow: .venv/.stamp-test ## the tests marked slow
	@$(BIN)/python -m pytest -m slow --ignore=tests/browser --ignore=tests/distributed --ignore=tests/ray || [ $$? -eq 5 ]

# It starts two processes of its own, which have both cores to themselves.
test-distributed: .venv/.stamp-test ## two processes beside one: training, saving, scores; prints the table
	@$(BIN)/python -m pytest tests/distributed

# Three nodes on this machine, of which one is killed; then two workers beside two processes.
test-ray: .venv/.stamp-test ## a Ray cluster: killed nodes and drivers; prints the efficiency of two workers
	@$(BIN)/python -m pytest -m slow tests/ray
	@OMP_WAIT_POLICY=PASSIVE $(BIN)/python -m tests.ray.efficiency

# quanda pins other versions than ours.
QUANDA := .venv-quanda/bin/python

test-quanda: .venv-quanda/.stamp ## our explainer in quanda, in an environment of its own
	@$(QUANDA) -m pytest -p benchmarks.peers.torchvision_operators tests/integrations/test_quanda.py

# In an environment of its own; tests of packages that are not installed there skip. torch is the registry's build.
LOWEST := .venv-lowest/bin/python
LOWEST_TESTS ?= tests --ignore=tests/browser --ignore=tests/distributed --ignore=tests/ray --ignore=tests/campaign

test-lowest: .venv-lowest/.stamp ## the fast tests with the oldest versions of everything that turnover works with
	@OMP_NUM_THREADS=1 $(LOWEST) -m pytest -n auto --dist loadfile -p no:cacheprovider -W default $(LOWEST_TESTS)

.venv-lowest/.stamp: pyproject.toml constraints-lowest.txt
	@$(PYTHON) -m venv .venv-lowest
	@$(LOWEST) -m pip install -qq --disable-pip-version-check -c constraints-lowest.txt -e '.[cli,serve,store,text]' \
	  pytest pytest-xdist hypothesis httpx2
	@touch $@

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

# It needs no Chromium and no schemathesis: what is missing is said, and skipped.
campaign: .venv/.stamp-test ## bad files, damages, kills, full disks, odd requests, misuse: half an hour; writes docs/reliability.md
	@OMP_WAIT_POLICY=PASSIVE OMP_NUM_THREADS=1 $(BIN)/python -m tests.campaign

soak: .venv/.stamp-test ## the live page under load for 20 minutes: memory, time, edits
	@OMP_WAIT_POLICY=PASSIVE OMP_NUM_THREADS=1 $(BIN)/python -m tests.campaign --soak 20

# pyright reads the types of what the code imports, hence the stamp of all baselines, which has that of the tests.
check: .venv/.stamp-dattri .venv/.stamp-check ## style, types and the import ladder
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/pyright
	@$(BIN)/mypy tests/user_project
	@$(BIN)/lint-imports --no-logo

# Outputs are kept in the files, and the site shows them.
notebooks: .venv/.stamp-test ## run the notebooks, and keep their outputs
	@OMP_WAIT_POLICY=PASSIVE $(BIN)/python -m tests.notebooks

# Material for MkDocs says on every build that its successor is coming.
docs: .venv/.stamp-docs ## the site, into site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build -q
	@echo "site/index.html; with search: $(BIN)/python -m http.server -d site --bind 127.0.0.1"

bench: .venv/.stamp-test ## speed and memory, as ratios
	@OMP_WAIT_POLICY=PASSIVE $(BIN)/python -m benchmarks

# What is finished lies in runs/faithfulness and is not run again. One part of it:
#   python -m benchmarks.faithfulness --task digits --method tod --seed 0
bench-faithfulness: .venv/.stamp-dattri ## how far scores can be trusted, beside baselines
	@OMP_WAIT_POLICY=PASSIVE OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.faithfulness

bench-peers: .venv/.stamp-dattri .venv-quanda/.stamp ## benchmarks of dattri and quanda on our scores; writes docs/results/peers.md
	@OMP_WAIT_POLICY=PASSIVE OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.peers dattri
	@OMP_WAIT_POLICY=PASSIVE OMP_NUM_THREADS=1 $(QUANDA) -m benchmarks.peers quanda

# toy, small, medium or full; see experiments/.
SIZE ?= small

# Experiments at a time in `make repro`, a process each.
JOBS ?= 2

repro: .venv/.stamp-test ## the results of the paper; one of them: make repro-table1 SIZE=small
	@OMP_WAIT_POLICY=PASSIVE $(BIN)/python -m experiments --size $(SIZE) --jobs $(JOBS)

repro-%: .venv/.stamp-test
	@OMP_WAIT_POLICY=PASSIVE $(BIN)/python -m experiments $* --size $(SIZE)

# pip tells which file it would install for every pinned version, and the hash of each; nothing is installed.
constraints-hashes: .venv/.stamp-venv ## constraints-hashes.txt: the pinned versions with the hashes of their files
	@$(BIN)/python -m pip install -q --dry-run --ignore-installed --no-deps --report .venv/report.json -r constraints.txt
	@$(BIN)/python -m tests.hashes .venv/report.json > constraints-hashes.txt

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
	@cd dist && OMP_WAIT_POLICY=PASSIVE ../.venv-wheel/bin/python ../tests/readme_example.py ../README.md
	@cd dist && OMP_WAIT_POLICY=PASSIVE ../.venv-wheel/bin/python ../tests/notebooks.py ../notebooks/label_errors_in_a_table.ipynb
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
.venv/.stamp-%: pyproject.toml constraints.txt | .venv/.stamp-venv
	@echo "installing turnover[$*] and what it needs into .venv: 2 to 10 minutes the first time, seconds later"
	@$(INSTALL) -e '.[$*]'
	@touch $@

# It declares torchvision, which it runs without and which would bring another torch; and it ships a top-level
# package `tests`, which worker processes would find in place of ours.
.venv/.stamp-kronfluence: .venv/.stamp-bench
	@$(INSTALL) --no-deps kronfluence
	@rm -rf .venv/lib/python3*/site-packages/tests
	@touch $@

# It declares packages for its own benchmarks of music, and ships a top-level package `experiments`, which worker
# processes would find in place of ours.
.venv/.stamp-dattri: .venv/.stamp-kronfluence
	@$(INSTALL) --no-deps dattri
	@rm -rf .venv/lib/python3*/site-packages/experiments
	@touch $@

# It declares captum 0.8, which declares NumPy 1; captum runs with NumPy 2, which turnover and pyarrow need, and which
# comes afterwards. It does not declare omegaconf. torch is that of constraints.txt.
.venv-quanda/.stamp: pyproject.toml constraints.txt
	@echo "installing quanda and what it needs into .venv-quanda: some minutes"
	@$(PYTHON) -m venv .venv-quanda
	@$(QUANDA) -m pip install -qq --disable-pip-version-check "$$(grep '^torch==' constraints.txt)" quanda==0.5.0 \
	  omegaconf==2.4.0 hypothesis pytest scikit-learn tqdm
	@$(QUANDA) -m pip install -qq --disable-pip-version-check 'numpy>=2.1' 'pyarrow>=24'
	@$(QUANDA) -m pip install -qq --disable-pip-version-check --no-deps -e .
	@touch $@
