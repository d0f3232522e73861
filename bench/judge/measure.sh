#!/usr/bin/env bash
# Repeats what docs/results/ says about the bound, the noise budget and the primitives, whole. Needs no network.
#
#   bench/judge/measure.sh FOLDER [BIN]      BIN: build/release/bin if left out
#
# 16 cores: about 8 minutes without a GPU. Where there is one and the build has CUDA, the device's primitives too.
# Writes noise.md, tightness.md, bound.svg, primitives-host.md and primitives-cuda.md, each the output of one program.
set -uo pipefail
out=${1:?a folder for the results}
bin=${2:-$(dirname "$0")/../../build/release/bin}
mkdir -p "$out"
failed=0
step() {  # NAME FILE COMMAND...
  local name=$1 file=$2 start=$SECONDS
  shift 2
  "$@" > "$out/$file"
  local rc=$?
  echo "$name: exit $rc, $((SECONDS - start)) s"
  ((rc == 0)) || failed=1
}
step "primitives, host" primitives-host.md "$bin/primitives" --all
if command -v nvidia-smi > /dev/null && nvidia-smi > /dev/null 2>&1; then
  step "primitives, device" primitives-cuda.md "$bin/primitives" --all --device cuda
fi
step "tightness" tightness.md "$bin/bound_tightness" --svg "$out/bound.svg"
step "noise" noise.md "$bin/noise_calibration" --rows "${ROWS:-30000000}"
exit $failed
