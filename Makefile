# Two commands do everything on a fresh machine: `make demo` and `make test`.
# The first of these that runs and is new enough; PYTHON=… names another one.
PYTHONS := python3.11 python3.12 python3.13 python3
IS_PYTHON = -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
PYTHON ?= $(firstword $(foreach python,$(PYTHONS),$(shell $(python) $(IS_PYTHON) && echo $(python))))
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed-core
INSTALLED_DEV := $(VENV)/.installed-dev
INSTALLED_REPORT := $(VENV)/.installed-report
INSTALLED_LEARN := $(VENV)/.installed-learn
INSTALLED_DOCS := $(VENV)/.installed-docs
PIP := $(BIN)/python -m pip --disable-pip-version-check -q

.PHONY: demo test test-learn test-view test-all check docs format schema facts bench bench-learners baselines prediction-baselines learning pictures doctor-traces leaderboard wheel clean help

help: ## what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## */  make \1\t/' | expand -t 29

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "make: expected Python 3.11 or newer, found none of: $(PYTHONS); install one, or name it with PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(INSTALLED): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install -c constraints.txt -e .
	@touch $@

$(INSTALLED_DEV): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install -c constraints.txt -e '.[dev]'
	@touch $@ $(INSTALLED)

$(INSTALLED_REPORT): $(INSTALLED)
	$(PIP) install -c constraints.txt -e '.[report]'
	@touch $@

$(INSTALLED_LEARN): $(INSTALLED_DEV)
	$(PIP) install -c constraints.txt -e '.[dev,learn]'
	@touch $@

$(INSTALLED_DOCS): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install -c constraints.txt -e '.[docs]'
	@touch $@ $(INSTALLED)

demo: $(INSTALLED_REPORT) ## set up, play stream-smoke-v1 with the random agent, validate, score, report
	out=runs/demo-$$(date -u +%Y%m%dT%H%M%SZ) && \
	$(BIN)/longplay run stream-smoke-v1 --agent random --seed 0 --out $$out && \
	$(BIN)/longplay report $$out -o $$out-report

test: $(INSTALLED_DEV) ## the tests that run in minutes
	$(BIN)/python -m pytest -n 2 --dist loadfile

test-learn: $(INSTALLED_LEARN) ## install torch and numba, train for seconds
	$(BIN)/python -m pytest tests/learn

test-view: $(INSTALLED_DEV) ## open the pages in Chromium (Debian: apt install chromium)
	$(BIN)/python -m pytest tests/view

test-all: $(INSTALLED_LEARN) ## the slow and the exhaustive ones too
	$(BIN)/python -m pytest -m '' tests tests/learn

check: $(INSTALLED_DEV) ## formatting, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

docs: $(INSTALLED_DOCS) ## build the docs site into site/; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

format: $(INSTALLED_DEV) ## let ruff mend what it can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

schema: $(INSTALLED_DEV) ## write JSON Schemas and the field tables in docs/ again
	$(BIN)/python -m longplay.contract.schema
	$(BIN)/python -m longplay.eval_log.schema

facts: $(INSTALLED_DEV) schema ## write all parts of docs/ that come from code again
	$(BIN)/python docs/generate/import_graph.py

bench: $(INSTALLED_DEV) ## speed against bare ALE and plain JSON
	$(BIN)/python benchmarks/bench.py

baselines: $(INSTALLED_DEV) ## measure the random agent again (about an hour on two cores)
	$(BIN)/python benchmarks/random_baselines.py

prediction-baselines: $(INSTALLED_DEV) ## measure the predictors of examples/ again (minutes)
	$(BIN)/python benchmarks/prediction_baselines.py

bench-learners: $(INSTALLED_LEARN) ## time per decision of every learner, and of plain torch
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/bench_learners.py

learning: $(INSTALLED_DEV) ## hold examples/control_linear_q.py against random again (minutes)
	$(BIN)/python benchmarks/learning.py examples/control_linear_q.py --games qbert,road_runner

pictures: $(INSTALLED_DEV) ## draw the pictures of docs/prediction.md again
	$(BIN)/python benchmarks/pictures.py

doctor-traces: $(INSTALLED_DEV) ## play the traces that `longplay doctor` compares with again
	$(BIN)/python -m longplay.verify.doctor

leaderboard: $(INSTALLED_REPORT) ## the site of the shipped results/, into build/leaderboard
	rm -rf build/leaderboard
	$(BIN)/longplay leaderboard results -o build/leaderboard

wheel: $(INSTALLED_DEV) ## build the wheel into dist/
	$(PIP) wheel --no-deps -w dist .

clean: ## remove what was built
	rm -rf $(VENV) dist build site .pytest_cache .mypy_cache .ruff_cache
