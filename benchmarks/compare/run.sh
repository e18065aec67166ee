#!/usr/bin/env bash
# Times the suite, torch.compile, launches and the host's work in one run on the GPU of this machine,
# and writes OUT_DIR/<gpu>_<date>.json.
# usage: benchmarks/compare/run.sh OUT_DIR [BINARY_DIR]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:?where to write results}
binaries=${2:-"$here/../../build/release/benchmarks"}
cases=(rms_norm:8192:8192 layer_norm:8192:8192 softmax:8192:8192 cross_entropy:8192:32768 cross_entropy:4096:151936)
for program in sinter_gpu_suite sinter_launch_overhead; do
  [ -x "$binaries/$program" ] || { echo "$binaries/$program is not built: ./run build" >&2; exit 1; }
done
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$binaries/sinter_gpu_suite" "${cases[@]}" --json "$work/sinter.json"
"$binaries/sinter_launch_overhead" --json "$work/overhead.json"
python3 "$here/torch_compile.py" "$work/torch.json" "${cases[@]}" || echo "no peer timed"
if [ -x "$binaries/sinter_benchmarks" ]; then
  "$binaries/sinter_benchmarks" --benchmark_filter='(/layer_norm|nvrtc|cache|growth)' \
    --benchmark_out="$work/host.json" --benchmark_out_format=json >/dev/null || echo "no host costs timed"
fi
gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1 | tr 'A-Z ' 'a-z_' | sed 's/nvidia_//')
driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -n 1)
commit=${SINTER_COMMIT:-$(git -C "$here" rev-parse --short HEAD 2>/dev/null || echo unknown)}
date=$(date +%F)
python3 "$here/report.py" "$work" "$out/${gpu}_${date}.json" "driver=$driver" "date=$date" "commit=$commit"
