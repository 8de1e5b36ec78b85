# `make demo` and `make test` do all the set-up themselves, in .venv. They need Python 3.11 or newer, make and git.
# Another interpreter: make test PYTHON=python3.12

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# The work is many small tensor operations in several processes; threads inside each only get in each other's way.
export OMP_NUM_THREADS ?= 1

.PHONY: help demo test lint format catalogue mutants false-alarms real setup clean

help:
	@echo "make demo          set up, then the whole road on one example layer, with pictures"
	@echo "make test          set up, then all tests"
	@echo "make lint          set up, then ruff, pyright and import-linter"
	@echo "make format        let ruff rewrite what it can"
	@echo "make catalogue     write catalogue/ anew"
	@echo "make mutants       plant faults in every entry, write docs/mutants.md anew"
	@echo "make false-alarms  verify every entry at drawn sizes, choices and input scales"
	@echo "make real          analyse layers of torch.nn, transformers and peft, and blocks of GPT-2's size"
	@echo "make clean         remove .venv and what was built"

setup: $(STAMP)

demo: $(STAMP)
	$(BIN)/nqf demo

test: $(STAMP)
	$(BIN)/python -m pytest -q -n 2 --dist loadgroup

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

catalogue: $(STAMP)
	$(BIN)/nqf catalogue

mutants: $(STAMP)
	$(BIN)/python benchmarks/mutation_table.py

false-alarms: $(STAMP)
	$(BIN)/python benchmarks/false_alarms.py

real: $(STAMP)
	$(BIN)/python benchmarks/real_modules/table.py
	OMP_NUM_THREADS=2 $(BIN)/python benchmarks/real_modules/gpt2.py

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .hypothesis

# Installed anew when the dependencies, their pins or the entry points change.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "nqf_registry needs Python 3.11 or newer, but $(PYTHON) is $$($(PYTHON) --version 2>&1)." >&2; \
	  echo "Name another interpreter: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; \
	  exit 1; }
	@echo "Setting up $(VENV) (the first time takes some minutes: torch is large) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[test,mnist]"
	@$(BIN)/nqf list >/dev/null  # every plugin imports, and later listings are quick
	@touch $(STAMP)
