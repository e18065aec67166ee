#!/usr/bin/env bash
# Checks and times graphs of `cells/` whose axes are long, strided or several on the GPU of this
# machine, and writes OUT.json: a list of what `sinter run --json` reports.
# usage: benchmarks/compare/long_axes.sh OUT.json [SINTER]
set -euo pipefail
here=$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
if [ $# -lt 1 ] || [ $# -gt 2 ]; then
  echo "usage: $0 OUT.json [SINTER]" >&2
  exit 2
fi
sinter=${2:-"$here/../../build/release/tools/sinter"}
cells=(
  "transposed_output rows=8192 cols=8192"
  "strided_input rows=8192 cols=4096 ld=8192"
  "strided_output rows=8192 cols=4096 ld=8192"
  "group_norm n=8 groups=32 c=10 pixels=4096"
  "group_norm n=32 groups=32 c=16 pixels=784"
  "long_layer_norm rows=64 cols=2000000"
  "long_layer_norm rows=3 cols=21333331"
  "long_outer_argmax n=20000000 cols=2"
  "long_outer_argmax n=19999999 cols=2"
  "long_logsumexp rows=2 n=30000000"
  "long_logsumexp rows=2 n=30000001"
)
{
  printf '[\n'
  separator=''
  for cell in "${cells[@]}"; do
    read -r graph sizes <<<"$cell"
    printf '%s{"cell":"%s","report":' "$separator" "$cell"
    # Sizes are words of their own.
    # shellcheck disable=SC2086
    "$sinter" --json run "$here/cells/$graph.fir" $sizes
    printf '}'
    separator=$',\n'
  done
  printf '\n]\n'
} >"$1"
