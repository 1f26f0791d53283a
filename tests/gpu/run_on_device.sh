#!/usr/bin/env bash
# Checks and times the kernels on a machine with a CUDA device, torch, cupy and triton, without a network: parity of
# every compiled kernel, the sanitizers where installed, and the table and JSON of the benchmark. Under 8 minutes.
#
#   OUT=folder tests/gpu/run_on_device.sh          from the repository's root
#
# Every step runs whether or not one before it failed; the exit status is 1 if any failed. For trying the script where
# there is no device: DEVICE=cpu, and TESTS and BENCH with less to do.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1

OUT=${OUT:-$(mktemp -d)}
PYTHON=${PYTHON:-python3}
DEVICE=${DEVICE:-cuda}
TESTS=${TESTS:-tests/kernels tests/gpu}
BENCH=${BENCH:-}
export PYTHONPATH="$PWD:$PWD/kernels:$PWD/pipelines${PYTHONPATH:+:$PYTHONPATH}"
export PYTHONUNBUFFERED=1
unset MAGMA_KERNELS
mkdir -p "$OUT"
failed=()

# step NAME SECONDS COMMAND...: runs a command with a limit, keeps what it prints in $OUT/NAME.log.
step() {
  local name=$1 limit=$2 start=$SECONDS
  shift 2
  echo "== $name"
  if timeout "$limit" "$@" 2>&1 | tee "$OUT/$name.log"; then
    echo "== $name: ok, $((SECONDS - start)) s"
  else
    echo "== $name: FAILED, $((SECONDS - start)) s"
    failed+=("$name")
  fi
}

versions() {
  "$PYTHON" - "$DEVICE" <<'PYTHON_CODE'
import importlib
import sys

for name in ("torch", "cupy", "triton", "numba", "numpy", "pytest"):
    try:
        print(name, importlib.import_module(name).__version__)
    except ImportError:
        print(name, "is not installed")
import torch

from magma_kernels import backend

device = torch.device(sys.argv[1])
if device.type == "cuda":
    print(torch.cuda.get_device_name(0), torch.cuda.get_device_capability(0))
for choice in backend.choices(device):
    print(choice)
PYTHON_CODE
}
export -f versions
export PYTHON DEVICE

step versions 60 bash -c versions
# shellcheck disable=SC2086
step parity 150 "$PYTHON" -m pytest -q -p no:cacheprovider $TESTS
if [ "$DEVICE" = cuda ] && command -v compute-sanitizer > /dev/null; then
  step memcheck 60 compute-sanitizer --tool memcheck --error-exitcode 9 "$PYTHON" tests/gpu/sanitize.py
  step racecheck 60 compute-sanitizer --tool racecheck --error-exitcode 9 "$PYTHON" tests/gpu/sanitize.py
fi
# shellcheck disable=SC2086
step bench 150 "$PYTHON" kernels/bench/bench.py --device "$DEVICE" --out "$OUT/performance.json" $BENCH

if [ ${#failed[@]} -gt 0 ]; then
  echo "failed: ${failed[*]}"
  exit 1
fi
echo "all passed; results are in $OUT"
