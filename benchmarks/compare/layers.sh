#!/usr/bin/env bash
# Checks whole layers on the GPU of this machine, then profiles their kernels and those of
# torch.compile with ncu, and writes OUT_DIR/layers.json. Wrong values end it. With --products the
# layers contain their matrix products, which may be cuBLASLt's.
# usage: benchmarks/compare/layers.sh [--products] OUT_DIR [BINARY_DIR]
set -euo pipefail
here=$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
own=() report=() peers=(llama gpt2 bert adam)
if [ "${1:-}" = --products ]; then
  own=(llama_{for,back}ward gpt2_{for,back}ward bert_{for,back}ward --contractions --cublaslt)
  report=(--products) peers=(llama gpt2 bert)
  shift
fi
if [ $# -lt 1 ] || [ $# -gt 2 ] || [[ "$1" == -* ]]; then
  echo "usage: $0 [--products] OUT_DIR [BINARY_DIR]" >&2
  exit 2
fi
out=$1
suite=${2:-"$here/../../build/release/benchmarks"}/sinter_layer_suite
[ -x "$suite" ] || { echo "$suite is not built: ./run build" >&2; exit 1; }
for program in ncu python3; do
  command -v "$program" >/dev/null || { echo "$program is not installed" >&2; exit 1; }
done
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
profile=(ncu --csv --page raw --metrics gpu__time_duration.sum --cache-control all
  --clock-control none --profile-from-start off)

"$suite" "${own[@]}" --check 96
"${profile[@]}" "$suite" "${own[@]}" --profile --json "$work/sinter.json" > "$work/sinter.csv"
# ncu makes the processes crash in which PyTorch would compile.
TORCHINDUCTOR_COMPILE_THREADS=1 "${profile[@]}" --target-processes application-only \
  python3 "$here/torch_layers.py" "${peers[@]}" > "$work/torch.csv"
python3 "$here/layer_report.py" "${report[@]}" "$work/sinter.csv" "$work/sinter.json" "$out/layers.json" \
  "$work/torch.csv"
