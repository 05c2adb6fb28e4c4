#!/usr/bin/env bash
# Builds the extension for a GPU, checks it and measures it, with the python that is there; no network, under ten minutes.
#
#   OUT=results bench/gpu/run.sh
#
#   OUT      folder for what comes out; is made                                       (required)
#   LIBRARY  a _C.so with CUDA kernels that was brought along, in place of a build
#   CUTLASS  folder that holds CUTLASS's include/; without it torch's product projects the features
#   ARCH     GPU architectures, as CMake names them                                   (default: 90a-real)
#   DEVICE   cuda, or cpu to try the script itself; CUDA_VISIBLE_DEVICES names one of several   (default: cuda)
#   QUICK    1: the small table
#   PYTHON   an interpreter with torch, numpy, pytest, safetensors, pybind11          (default: python3)
#
# Steps, each with a limit of its own; one that fails or is ended does not keep the next ones from running:
#   build      cmake with REMORY_CUDA=ON                             240 s
#   checks     against float64, opcheck, graphs, refusals            120 s
#   memcheck   compute-sanitizer on small cases, where it is there    60 s
#   racecheck  likewise                                               60 s
#   measure    the ops beside torch and the GPU's own limits         what is left of 570 s
#
# What `measure` has when its time ends it still writes. Its cases of `encode` also need pydantic, which may be brought
# along on PYTHONPATH; without it these fail and the others run.
#
# In OUT: STEP.txt for every step, summary.txt with one line each, and of the last one kernels.json,
# table.txt and, where matplotlib is, pictures. The exit status is 0 when every step that could run passed.
set -uo pipefail

: "${OUT:?give a folder for the results: OUT=results $0}"
here=$(cd "$(dirname "$0")/../.." && pwd)
python=${PYTHON:-python3}
device=${DEVICE:-cuda}
mkdir -p "$OUT"
OUT=$(cd "$OUT" && pwd)
export PYTHONPATH="$here/python:$here${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# Where CUDA's installers put what they leave out of PATH.
PATH=$PATH:/usr/local/cuda/bin
cd "$here" || exit 2
: > "$OUT/summary.txt"
failed=0

note() { echo "$*" | tee -a "$OUT/summary.txt"; }

# step NAME SECONDS COMMAND...: runs it under its limit, keeps what it prints, notes how it ended.
step() {
  local name=$1 limit=$2 began=$SECONDS code
  shift 2
  timeout --kill-after=10 "$limit" "$@" > "$OUT/$name.txt" 2>&1
  code=$?
  case $code in
    0) note "$name: passed ($((SECONDS - began)) s)" ;;
    124 | 137) note "$name: ended after its limit of $limit s" ;;
    *) note "$name: FAILED with status $code ($((SECONDS - began)) s); the end of $name.txt says why" ;;
  esac
  if [[ $code -ne 0 ]]; then
    failed=1
    tail -n 5 "$OUT/$name.txt" | sed 's/^/    /'
  fi
  return $code
}

# Says what is missing before any time is spent.
if ! "$python" - "$device" > "$OUT/machine.txt" 2>&1 <<'LOOK'
import importlib.util
import sys

missing = [name for name in ("torch", "numpy", "pytest", "safetensors") if importlib.util.find_spec(name) is None]
pydantic = "" if importlib.util.find_spec("pydantic") else "; no pydantic, so encode is not measured"
if missing:
    sys.exit(f"this python lacks {', '.join(missing)}")
import torch

cuda = sys.argv[1].startswith("cuda")
if cuda and not torch.cuda.is_available():
    sys.exit(f"torch {torch.__version__} sees no GPU; DEVICE=cpu tries the script without one")
name = torch.cuda.get_device_name(sys.argv[1]) if cuda else "no GPU asked for"
print(f"python {sys.version.split()[0]}, torch {torch.__version__}, {name}{pydantic}")
LOOK
then
  note "$(tail -n 1 "$OUT/machine.txt")"
  exit 2
fi
note "$(cat "$OUT/machine.txt")"
nvidia-smi >> "$OUT/machine.txt" 2>&1
nvcc --version >> "$OUT/machine.txt" 2>&1

build() {
  local options=(-G Ninja -S . -B build/gpu -DCMAKE_BUILD_TYPE=Release -DSKBUILD_STATE=editable)
  options+=("-DPython_EXECUTABLE=$("$python" -c 'import sys; print(sys.executable)')")
  if [[ $device == cuda* ]]; then
    options+=(-DREMORY_CUDA=ON "-DREMORY_CUDA_ARCHITECTURES=${ARCH:-90a-real}")
  fi
  if [[ -n ${CUTLASS:-} ]]; then options+=("-DREMORY_CUTLASS=$CUTLASS"); fi
  cmake "${options[@]}" && cmake --build build/gpu --parallel "$(nproc)"
}

if [[ -n ${LIBRARY:-} ]]; then
  cp "$LIBRARY" python/remory/_C.so && note "build: took $LIBRARY"
else
  export -f build
  export python device
  step build 240 bash -c build
fi
loads="import sys; from remory import ops; sys.exit(not ops.kernels()['${device%%:*}'])"
if ! "$python" -c "$loads" > "$OUT/load.txt" 2>&1; then
  note "load: FAILED: the extension does not load or has no kernels for $device; load.txt says why. Nothing else can run"
  exit 1
fi

step checks 120 "$python" -m pytest bench/gpu/checks.py -o addopts= -q -rs -p no:cacheprovider --tb=short --device "$device"
for tool in memcheck racecheck; do
  if [[ $device == cuda* ]] && command -v compute-sanitizer > /dev/null; then
    # torch's cache hands out pieces of large blocks, beyond whose ends nobody would see an access.
    PYTORCH_NO_CUDA_MEMORY_CACHING=1 step "$tool" 60 compute-sanitizer --tool "$tool" --error-exitcode 3 "$python" bench/gpu/small.py "$device"
  elif [[ $device == cuda* ]]; then
    note "$tool: not run, there is no compute-sanitizer"
  else
    note "$tool: not run, it is for GPUs"
  fi
done
small=()
if [[ ${QUICK:-} == 1 ]]; then small=(--quick); fi
step measure $((SECONDS < 510 ? 570 - SECONDS : 60)) "$python" -m bench.kernels --device "$device" --seconds 1 --out "$OUT" "${small[@]}"
if [[ -f $OUT/table.txt ]]; then cat "$OUT/table.txt"; fi
echo
cat "$OUT/summary.txt"
exit $failed
