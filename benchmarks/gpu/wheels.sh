#!/usr/bin/env bash
# What a GPU machine without a network lacks of the package's needs, as wheels for its Python: .wheels/ is then carried to it and
# installed there beside its own packages:
#   python3 -m pip install -q --no-index --no-deps --target /tmp/site .wheels/*.whl && PYTHONPATH=/tmp/site python3 -m benchmarks.gpu ...
# With a Python 3.12 as argument, everything is imported and rehearsed under the versions of such a machine (some 6 GB in .wheels-check/).
#   benchmarks/gpu/wheels.sh [python3.12]
set -euo pipefail
cd "$(dirname "$0")/../.."
WHEELS="pydantic==2.14.3 pydantic-core==2.50.4 annotated-types==0.8.0 typing-inspection==0.4.5 flash-linear-attention==0.6.0 fla-core==0.6.0"
MACHINE="torch==2.11.0 triton==3.6.0 transformers==5.17.0 tokenizers==0.23.2 huggingface-hub==1.33.0 numpy==2.5.2 accelerate==1.15.0
  safetensors==0.8.0 tiktoken==0.14.0 einops peft pandas pyarrow scikit-learn scipy matplotlib typer rich pyyaml jinja2 psutil httpx"
rm -rf .wheels
for version in 28 17; do platforms="${platforms:-} --platform manylinux_2_${version}_x86_64"; done
python3 -m pip download -q --no-deps --only-binary=:all: --python-version 3.12 --implementation cp $platforms \
  --platform manylinux2014_x86_64 -d .wheels $WHEELS
du -sh .wheels
[ $# = 0 ] && exit
"$1" -m venv .wheels-check
.wheels-check/bin/pip install -q $MACHINE
.wheels-check/bin/pip install -q --no-index --no-deps --upgrade --target .wheels-check/site .wheels/*.whl
export PYTHONPATH=.wheels-check/site OMP_NUM_THREADS=1
.wheels-check/bin/python -W ignore -c '
import importlib, pkgutil, remedy
import fla.layers
found = [importlib.import_module(module.name) for module in pkgutil.walk_packages(remedy.__path__, "remedy.")]
print(len(found), "modules import")'
for job in $(.wheels-check/bin/python -c 'from benchmarks.gpu.queue import JOBS; print(*JOBS)'); do
  rm -rf ".wheels-check/$job"
  .wheels-check/bin/python -m benchmarks.gpu "$job" --out ".wheels-check/$job" --rehearse | tail -1
done
