#!/usr/bin/env bash
# Trains on a GPU machine with the python that is there, and leaves the checkpoint in a few files of at most 16 MiB.
#
#   OUT=results bench/gpu/train.sh [options of `remory train`]
#
#   OUT      folder for what comes out; is made                          (required)
#   RUN      folder of the run; the same one goes on where it was        (default: a new one under $TMPDIR)
#   MINUTES  for loading, training and the last check together           (default: 8)
#   SETTINGS a preset's name, or a JSON file                             (default: embedded)
#   DEVICE   cuda, cuda:N or cpu                                         (default: cuda)
#   MODEL    a Hugging Face folder                                       (default: the embedded model)
#   PYTHON   an interpreter that has Remory's dependencies               (default: python3)
#
# The extension must be built (`make setup`, or a python/remory/_C.so brought along): training itself runs in torch.
set -euo pipefail

: "${OUT:?give a folder for the results: OUT=results $0}"
here=$(cd "$(dirname "$0")/../.." && pwd)
python=${PYTHON:-python3}
run=${RUN:-$(mktemp -d)/run}
settings=${SETTINGS:-embedded}
part_bytes=$((16 * 1024 * 1024))
export PYTHONPATH="$here/python:$here/service${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1

mkdir -p "$OUT"
"$python" - "${DEVICE:-cuda}" <<'CHECK'
import importlib.util
import sys

needed = ["torch", "transformers", "safetensors", "tokenizers", "pydantic", "rich"]
missing = [name for name in needed if importlib.util.find_spec(name) is None]
if missing:
    sys.exit(f"this python lacks {', '.join(missing)}")
import torch

import remory.ops  # noqa: F401 - says what is wrong when the extension is not built

if sys.argv[1].startswith("cuda") and not torch.cuda.is_available():
    sys.exit(f"torch {torch.__version__} sees no GPU; DEVICE=cpu trains without one")
print(f"torch {torch.__version__}, {torch.cuda.get_device_name() if torch.cuda.is_available() else 'no GPU'}")
CHECK

given=(--out "$run" --minutes "${MINUTES:-8}" --device "${DEVICE:-cuda}" --save-every 120)
if [[ -f $settings ]]; then given+=(--config "$settings"); else given+=(--preset "$settings"); fi
if [[ -n ${MODEL:-} ]]; then given+=(--model "$MODEL"); fi

"$python" -m remory.cli train "${given[@]}" "$@"

rm -f "$OUT"/model.safetensors.part-*
split --bytes="$part_bytes" --numeric-suffixes --suffix-length=3 \
  "$run/checkpoint/model.safetensors" "$OUT/model.safetensors.part-"
extras=(config.json manifest.json README.md)
tar -cf "$OUT/rest.tar" -C "$run/checkpoint" "${extras[@]}" -C "$run" log.jsonl
if [[ -f $run/curves.png ]]; then tar -rf "$OUT/rest.tar" -C "$run" curves.png; fi

whole=$(sha256sum < "$run/checkpoint/model.safetensors" | cut -d ' ' -f 1)
join="sha256sum -c SHA256SUMS && tar -xf rest.tar && cat model.safetensors.part-* > model.safetensors"
join+=" && echo '$whole  model.safetensors' | sha256sum -c"
(cd "$OUT" && { sha256sum model.safetensors.part-* rest.tar; echo "# $join"; } > SHA256SUMS)
echo "in $OUT; in a copy of that folder this line makes the checkpoint whole (log.jsonl and curves.png lie beside it):"
echo "$join"
