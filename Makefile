# Two commands for a fresh machine: `make demo` and `make test`. Both make .venv when it is not there.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := demo-out

.PHONY: install demo test lint clean

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml configs/cpu-constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --constraint configs/cpu-constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint configs/cpu-constraints.txt --editable '.[cpu,ray]' --group lint --group notebooks --group test
	touch $@

demo: install
	$(BIN)/magma-gpu build examples/conversations.jsonl --out $(DEMO)
	@for question in "Why did Ana move to Porto?" "When did Ana play her first concert?" "Which instruments has Ana taken up?"; do \
		echo; $(BIN)/magma-gpu query $(DEMO) "$$question" --memory ana --k 6 || exit 1; \
	done
	@echo; echo "The tables are Parquet files below $(DEMO)/: $$(cd $(DEMO) && ls -d */ | tr '/\n' '  ')"

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/python -m pytest

clean:
	rm -rf $(VENV) $(DEMO)
