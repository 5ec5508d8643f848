# On a fresh machine, `make demo` or `make test` installs everything it needs.
# The first of these that is installed and new enough; override it with PYTHON=….
PYTHONS := python3.11 python3.12 python3.13 python3
IS_PYTHON = -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
PYTHON ?= $(firstword $(foreach python,$(PYTHONS),$(shell $(python) $(IS_PYTHON) && echo $(python))))
VENV := .venv
KILLS ?= build/kills.jsonl
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed-core
INSTALLED_DEV := $(VENV)/.installed-dev
INSTALLED_REPORT := $(VENV)/.installed-report
INSTALLED_LEARN := $(VENV)/.installed-learn
INSTALLED_LOOPS := $(VENV)/.installed-loops
INSTALLED_DOCS := $(VENV)/.installed-docs
# Hundreds of tests start Python: compiled files spare them most of its start.
unexport PYTHONDONTWRITEBYTECODE
PIP := $(BIN)/python -m pip --disable-pip-version-check -q

.PHONY: demo test test-learn test-view test-cluster test-all kills check docs format schema facts record golden bench bench-learners baselines prediction-baselines results anchors results-page verify-results learning pictures doctor-traces forgeries leaderboard dist clean help

help: ## list the targets
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
	$(PIP) install -c constraints.txt -e '.[dev,learn]' -r tools/requirements.txt
	@touch $@

$(INSTALLED_DOCS): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install -c constraints.txt -e '.[docs]'
	@touch $@ $(INSTALLED)

demo: $(INSTALLED_REPORT) ## set up, play stream-smoke-v1 with the random agent, validate, score, report
	out=runs/demo-$$(date -u +%Y%m%dT%H%M%SZ) && \
	$(BIN)/longplay run stream-smoke-v1 --agent random --out $$out && \
	$(BIN)/longplay report $$out -o $$out-report

test: $(INSTALLED_DEV) ## run the fast tests (minutes)
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder

test-learn: $(INSTALLED_LEARN) ## test training with torch and numba (minutes)
	$(BIN)/python -m pytest -n 2 --dist loadfile tests/learn

test-view: $(INSTALLED_DEV) $(INSTALLED_DOCS) ## open the pages in Chromium (Debian: apt install chromium)
	$(BIN)/python -m pytest -n 2 --dist loadfile tests/view

# Loops of other packages; --no-deps, because theirs ask for other versions.
$(INSTALLED_LOOPS): $(INSTALLED_LEARN)
	$(PIP) install -c constraints.txt opencv-python-headless pandas polars
	$(PIP) install -c constraints.txt --no-deps stable-baselines3
	@touch $@

test-all: $(INSTALLED_LOOPS) ## run all tests, slow and exhaustive ones included
	$(BIN)/python -m pytest -m '' tests tests/learn

test-cluster: $(INSTALLED_DEV) ## run all tests of Ray, kills and job arrays (long)
	$(BIN)/python -m pytest -m '' tests/experiments tests/runs/test_kill.py tests/docs/test_examples.py

kills: $(INSTALLED_DEV) ## kill runs a thousand times; KILLS=FILE counts, and continues (an hour)
	mkdir -p build
	LONGPLAY_KILLS=$(KILLS) $(BIN)/python -m pytest -m kills -x tests/runs tests/experiments
	$(BIN)/python tests/kit/kill_counts.py $(KILLS)

check: $(INSTALLED_DEV) ## check formatting, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy tools/*.py

docs: $(INSTALLED_DOCS) ## build the docs site into site/; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

format: $(INSTALLED_DEV) ## format, and fix the lint errors ruff can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

schema: $(INSTALLED_DEV) ## regenerate the JSON Schemas and the field tables in docs/
	$(BIN)/python docs/generate/schemas.py

facts: $(INSTALLED_DEV) schema ## regenerate all parts of docs/ that come from code
	$(BIN)/python docs/generate/import_graph.py
	$(BIN)/python docs/generate/api.py
	$(BIN)/python docs/generate/learner_tables.py
	$(BIN)/python docs/generate/attack_table.py
	$(BIN)/python docs/generate/seed_table.py
	$(BIN)/python docs/generate/suites_page.py

record: $(INSTALLED_DEV) ## record again what commands answer, after a change meant to move it
	$(BIN)/python tests/harness/record.py
	PYTHONPATH=docs/generate $(BIN)/python tests/kit/learner_revisions.py

golden: $(INSTALLED_DEV) ## play the golden runs that do not exist yet
	$(BIN)/python tests/harness/make_golden.py

bench: $(INSTALLED_DEV) ## measure speed against bare ALE and plain JSON
	$(BIN)/python benchmarks/bench.py

baselines: $(INSTALLED_DEV) ## regenerate the random baselines (about an hour on two cores)
	$(BIN)/python tools/random_baselines.py

prediction-baselines: $(INSTALLED_DEV) ## regenerate the prediction baselines (minutes)
	$(BIN)/python tools/prediction_baselines.py

results: $(INSTALLED_LEARN) ## play and pack the runs of results/ that are missing (hours)
	OMP_NUM_THREADS=1 $(BIN)/python tools/results.py play

anchors: $(INSTALLED_DEV) ## add anchors of the suites in SUITES, from the packs of results/
	$(BIN)/python tools/anchors.py $(SUITES)

results-page: $(INSTALLED_DEV) ## collect the numbers of new packs, and regenerate docs/results.md
	$(BIN)/python tools/results.py collect
	PYTHONPATH=tools $(BIN)/python docs/generate/results_page.py

verify-results: $(INSTALLED_DEV) ## replay all packs of results/; VERDICTS=DIR keeps the verdicts
	$(BIN)/python tools/results.py verify $(if $(VERDICTS),--verdicts $(VERDICTS))

bench-learners: $(INSTALLED_LEARN) ## measure the time per decision of every learner and of plain torch
	OMP_NUM_THREADS=1 PYTHONPATH=docs/generate $(BIN)/python benchmarks/bench_learners.py

learning: $(INSTALLED_DEV) ## compare examples/control_linear_q.py with random (minutes)
	$(BIN)/python benchmarks/learning.py examples/control_linear_q.py --games qbert,road_runner

pictures: $(INSTALLED_DEV) ## regenerate the pictures of README and docs (minutes; needs Chromium)
	OMP_NUM_THREADS=1 $(BIN)/python tools/pictures.py
	OMP_NUM_THREADS=1 $(BIN)/python tools/viewer_pictures.py

doctor-traces: $(INSTALLED_DEV) ## regenerate the traces that `longplay doctor` compares with
	$(BIN)/python tools/doctor_traces.py

forgeries: $(INSTALLED_DEV) ## forge runs, and write docs/trust.md's table of what is caught (minutes)
	PYTHONPATH=tools $(BIN)/python docs/generate/forgeries.py

# Without VERDICTS no run counts as replayed, whatever this machine has verified before:
# the cache that is named here does not exist.
leaderboard: $(INSTALLED_REPORT) ## build the site of results/ into build/leaderboard; VERDICTS=DIR of verify-results
	rm -rf build/leaderboard
	LONGPLAY_CACHE=build/no-cache $(BIN)/longplay leaderboard results -o build/leaderboard $(if $(VERDICTS),--verdicts $(VERDICTS))

dist: $(INSTALLED_DEV) ## build wheel and sdist into dist/, and check them
	rm -rf dist
	$(PIP) install -c constraints.txt build twine
	$(BIN)/python -m build --outdir dist
	$(BIN)/python -m twine check --strict dist/*

clean: ## remove build products
	rm -rf $(VENV) dist build site .pytest_cache .mypy_cache .ruff_cache
