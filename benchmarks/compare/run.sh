#!/usr/bin/env bash
# Measures everything that needs a GPU, and the host costs beside it, in one run.
#
#   benchmarks/compare/run.sh [OUT_DIR]    writes OUT_DIR/<gpu>_<date>.json (benchmarks/results)
#
# SINTER_BUILD names the build folder (build/release), SINTER_BENCH_CASES other cases.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
out="${1:-$root/benchmarks/results}"
programs="${SINTER_BUILD:-$root/build/release}/benchmarks"
cases=(
  rms_norm:8192:8192
  layer_norm:8192:8192
  softmax:8192:8192
  cross_entropy:8192:32768
  cross_entropy:4096:151936
)
[ -n "${SINTER_BENCH_CASES:-}" ] && read -r -a cases <<<"$SINTER_BENCH_CASES"

for program in sinter_gpu_suite sinter_launch_overhead; do
  if [ ! -x "$programs/$program" ]; then
    echo "$programs/$program is not built: ./run build, or set SINTER_BUILD" >&2
    exit 1
  fi
done

raw="$(mktemp -d)"
trap 'rm -rf "$raw"' EXIT
"$programs/sinter_gpu_suite" --json "$raw/suite.json" "${cases[@]}"
"$programs/sinter_launch_overhead" --json "$raw/overhead.json"
# The peer is an extra: without it the rest still counts.
python3 "$root/benchmarks/compare/torch_compile.py" --json "$raw/torch.json" "${cases[@]}" ||
  echo "torch.compile did not finish: see above" >&2
if [ -x "$programs/sinter_benchmarks" ]; then
  "$programs/sinter_benchmarks" --benchmark_filter='(/layer_norm|nvrtc|cache|growth)' \
    --benchmark_out="$raw/host.json" --benchmark_out_format=json >/dev/null
fi
python3 "$root/benchmarks/compare/report.py" "$raw" "$out"
