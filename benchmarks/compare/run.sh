#!/usr/bin/env bash
# Times a suite of kernels and torch.compile in one run on the GPU of this machine, for the suite
# `forward` launches and the host's work too, and writes OUT_DIR/<gpu>_<date>[_gradients].json. What
# fails does not stop the rest; it makes the exit status 1.
# usage: benchmarks/compare/run.sh OUT_DIR [BINARY_DIR [forward|gradients]]
set -euo pipefail
here=$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
if [ $# -lt 1 ] || [ $# -gt 3 ] || [[ "$1" == -* ]]; then
  echo "usage: $0 OUT_DIR [BINARY_DIR [forward|gradients]]" >&2
  exit 2
fi
out=$1
binaries=${2:-"$here/../../build/release/benchmarks"}
suite=${3:-forward}
programs=(sinter_gpu_suite)
case "$suite" in
  forward)
    programs+=(sinter_launch_overhead sinter_benchmarks)
    cases=(rms_norm:8192:8192 layer_norm:8192:8192 softmax:8192:8192 cross_entropy:8192:32768 cross_entropy:4096:151936)
    ;;
  gradients)
    cases=()
    for size in 2048:1024 8192:4096 4096:8192; do
      for gradient in bias_gradient dyt_backward; do
        cases+=("$gradient:$size" "${gradient}_f32:$size")
      done
    done
    for size in 2048:4096 8192:4096 4096:8192 16384:2048 16384:8192 8192:16384; do
      for norm in rms_norm layer_norm; do
        cases+=("${norm}_backward:$size" "${norm}_backward_f32:$size")
      done
    done
    ;;
  *)
    echo "usage: $0 OUT_DIR [BINARY_DIR [forward|gradients]]: there is no suite '$suite'" >&2
    exit 2
    ;;
esac
# Asked for first, so that nothing is found missing after minutes of measuring.
for program in "${programs[@]}"; do
  [ -x "$binaries/$program" ] || { echo "$binaries/$program is not built: ./run build" >&2; exit 1; }
done
for program in python3 nvidia-smi; do
  command -v "$program" >/dev/null || { echo "$program is not installed" >&2; exit 1; }
done
driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader)
driver=${driver%%$'\n'*}
# Names the sources that were measured, and whether they are those of a commit.
commit=${SINTER_COMMIT:-$(git -C "$here" describe --always --dirty --exclude='*' 2>/dev/null || echo unknown)}
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

status=0
measure() { "$@" || { echo "failed, with status $?: $1" >&2; status=1; }; }
measure "$binaries/sinter_gpu_suite" "${cases[@]}" --json "$work/sinter.json"
measure python3 "$here/torch_compile.py" "$work/torch.json" "${cases[@]}"
if [ "$suite" = forward ]; then
  measure "$binaries/sinter_launch_overhead" --json "$work/overhead.json"
  measure "$binaries/sinter_benchmarks" --benchmark_filter='(/layer_norm|nvrtc|cache|growth)' \
    --benchmark_out="$work/host.json" --benchmark_out_format=json >/dev/null
fi
measure python3 "$here/report.py" "$work" "$out" --date "$(date +%F)" --suite "$suite" \
  --run "driver=$driver" "commit=$commit" --cases "${cases[@]}"
exit "$status"
