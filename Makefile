# Needs make and python3 >= 3.11 with venv; everything else is installed into .venv from the lock, and, for tests
# only, by `make tools`.

PYTHON ?= python3
# More than the two cores that the suite is made for: many tests wait most of the time.
JOBS ?= 6

# Hundreds of processes are started, and each would compile all modules again.
export PYTHONDONTWRITEBYTECODE :=

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TRIAL_STAMP := $(VENV)/.installed-for-trials
TOOLS := $(VENV)/.tools
DOCS_STAMP := $(VENV)/.installed-for-docs
PIP := -m pip --disable-pip-version-check --quiet
PYTEST := $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install tools test test-all check lint format bench trial fuzz soak scenarios pictures site docs reference lock clean python

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1 /p' $(MAKEFILE_LIST) | while read -r name text; do \
		printf '  %-9s %s\n' "$$name" "$$text"; done

install: $(STAMP) ## create .venv and install the locked dependencies, when they changed

tools: $(STAMP) ## get what tests use besides Python packages: a browser, kcat, Maven, Kafka's jars (CONTRIBUTING)
	$(BIN)/python -m tests.provide
	@touch $(TOOLS)

test: $(STAMP) $(TOOLS) ## run every test but the longest
	$(PYTEST) -m "not long"

test-all: $(STAMP) $(TOOLS) $(DOCS_STAMP) ## run every test, and search four times as long where tests search: half an hour
	$(PYTEST) --effort 4

check: lint ## what to run before a commit: lint and the fast tests
	$(PYTEST) -m "not slow and not long"

lint: $(STAMP) ## check format, style, types and import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP) ## format the code and apply the safe fixes
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

bench: $(STAMP) ## measure the lab, the codec, the start, sweeps, audits, and brokers against Apache Kafka (needs Maven)
	$(BIN)/python bench/lab.py
	$(BIN)/python bench/wire.py
	$(BIN)/python bench/startup.py
	$(BIN)/python -m bench.floor
	$(BIN)/python -m bench.broker
	$(BIN)/python -m bench.testing
	$(BIN)/python -m bench.groups
	$(BIN)/python -m bench.partitions
	$(BIN)/python -m bench.crowd
	$(BIN)/python -m bench.sweep
	$(BIN)/python -m bench.audit
	nice -n 10 $(BIN)/python -m bench.continuity

# A third of the usual rate: enough to find what there is to find, and an audit that does not keep one waiting.
TRIAL ?= build/trial-$(shell date +%Y%m%d-%H%M%S)

trial: $(TRIAL_STAMP) ## a minute of load and faults on a cluster, then the verdict on every record, and a report
	@mkdir -p $(dir $(TRIAL))
	$(BIN)/tidelog trial --rate 3000 --evidence $(TRIAL)
	@echo
	@echo 'Rules and settings that can lose records; the audit says why:'
	@echo '  $(BIN)/tidelog trial --generation hw     the rules of Kafka 0.10'
	@echo '  $(BIN)/tidelog trial --unclean           unclean leader election'
	@echo '  $(BIN)/tidelog trial --acks 1            acknowledged by the leader alone'
	@echo '  $(BIN)/tidelog scenario compare hw-loss  one loss, step by step'

# FRAMES=N or MINUTES=M says how long; FUZZ='--seed 7' whatever else `python -m fuzz --help` knows. SOAK likewise.
fuzz: $(STAMP) ## attack a cluster: mutated frames, bombs, half frames, storms (FRAMES=1000000, MINUTES=10)
	$(BIN)/python -m fuzz $(if $(FRAMES),--frames $(FRAMES)) $(if $(MINUTES),--minutes $(MINUTES)) $(FUZZ)

soak: $(STAMP) ## load and every fault for an hour, with audits (HOURS=1, MINUTES=5)
	$(BIN)/python -m soak $(if $(HOURS),--hours $(HOURS)) $(if $(MINUTES),--minutes $(MINUTES)) $(SOAK)

# Players mostly wait, so there are more of them than cores.
scenarios: $(STAMP) ## play every scenario on real processes, and compare with the simulator
	$(BIN)/python -m pytest -n 5 --dist worksteal tests/process_stage/test_cluster_stage.py

pictures: $(STAMP) $(TOOLS) ## draw the pictures of the documentation
	$(BIN)/python -m docs.images.make_pictures

site: $(STAMP) ## the lab as static files in build/site, with Python that runs in the browser (needs npm)
	$(BIN)/tidelog lab --site build/site

# The variable silences an advertisement of the theme for its successor.
docs: $(DOCS_STAMP) ## build the documentation as a site into build/docs: search, the lab inside, a playground (npm)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict --site-dir build/docs
	@echo 'the documentation: build/docs/index.html'

# Written to a file first: a page that could not be made is left as it was.
reference: $(STAMP) ## write the pages of the reference that are made from the code
	@set -e; for name in api commands events evidence faults metrics retries settings; do \
		$(BIN)/python docs/reference/make_$$name.py > docs/reference/$$name.md.new; \
		mv docs/reference/$$name.md.new docs/reference/$$name.md; done
	$(BIN)/python docs/reference/make_scenarios.py

lock: python ## resolve pyproject.toml into requirements-dev.lock and requirements-docs.lock
	@set -e; scratch=$$(mktemp -d); trap 'rm -rf "$$scratch"' EXIT; \
	$(PYTHON) -m venv "$$scratch/venv"; \
	"$$scratch/venv/bin/python" $(PIP) install '.[dev]'; \
	{ echo '# Written by `make lock` from pyproject.toml; not edited by hand.'; \
	"$$scratch/venv/bin/python" $(PIP) freeze --exclude tidelog; } > "$$scratch/lock"; \
	cp "$$scratch/lock" requirements-dev.lock; \
	$(PYTHON) -m venv --clear "$$scratch/venv"; \
	"$$scratch/venv/bin/python" $(PIP) install --constraint requirements-dev.lock '.[docs]'; \
	{ echo '# Written by `make lock` from pyproject.toml; not edited by hand.'; \
	"$$scratch/venv/bin/python" $(PIP) freeze --exclude tidelog; } > "$$scratch/lock"; \
	cp "$$scratch/lock" requirements-docs.lock

clean: ## remove .venv, caches and build products
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name .git -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

python:
	@command -v $(PYTHON) >/dev/null || \
		{ echo 'tidelog: $(PYTHON) not found; install Python >= 3.11 or set PYTHON=/path/to/python3' >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "tidelog: needs Python >= 3.11, $(PYTHON) is $$($(PYTHON) -V 2>&1); set PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
		{ echo 'tidelog: $(PYTHON) has no venv module; install it (Debian: apt install python3-venv)' >&2; exit 1; }

# A sub-make, because a phony prerequisite would make every target reinstall.
$(STAMP): pyproject.toml requirements-dev.lock
	@$(MAKE) --no-print-directory python
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python $(PIP) install -r requirements-dev.lock
	$(BIN)/python $(PIP) install --no-deps --no-build-isolation -e .
	@touch $@ $(TRIAL_STAMP)

# What a trial and its audit need, without linters and test tools: two thirds of the megabytes.
$(TRIAL_STAMP): pyproject.toml requirements-dev.lock
	@$(MAKE) --no-print-directory python
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python $(PIP) install --constraint requirements-dev.lock -e '.[spark]'
	@touch $@

# Beside what is there: the lab that the pages show is played by this tidelog.
$(DOCS_STAMP): requirements-docs.lock pyproject.toml
	@$(MAKE) --no-print-directory python
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python $(PIP) install -r requirements-docs.lock
	@test -e $(STAMP) -o -e $(TRIAL_STAMP) || $(BIN)/python $(PIP) install -e .
	@touch $@

# Once for each .venv; `make tools` tries again.
$(TOOLS): bench/tools.py tests/provide.py | $(STAMP)
	@$(MAKE) --no-print-directory tools
