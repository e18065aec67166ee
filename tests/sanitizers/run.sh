#!/usr/bin/env bash
# Runs GPU tests under each tool of compute-sanitizer, after the tool has found the fault that was
# planted for it. Exit status: 0 nothing was found but what was planted, 1 otherwise, 2 no tool.
# usage: tests/sanitizers/run.sh [BUILD_DIR [GTEST_FILTER]]
set -uo pipefail
here=$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
build=${1:-"$here/../../build/release"}
filter=${2:-'Canned/CannedGpu.*/layer_norm_backward:Canned/CannedGpu.*/rms_norm:Canned/CannedGpu.*/dyt_backward:Canned/CannedGpu.*/weighted_column_mean:*/SmallGradientsGpu.*'}
# racecheck takes threads that have met at barriers a different number of times for unordered, also where a barrier
# that all of them meet at comes between: it reports a hand-written kernel of 132 blocks, in which one group of 64
# threads met 3 times at a barrier of its own and another 2 times, before they exchange values across __syncthreads().
# It does not where both met 3 times. Groups of a ring differ so where one has a row more than the next.
not_for_racecheck='*/SmallGradientsGpu.WithTails*'
faults=$(find "$build" -name sinter_planted_faults -type f | head -1)
tests=$(find "$build" -name sinter_integration_tests -type f | head -1)
command -v compute-sanitizer >/dev/null || { echo "compute-sanitizer is not installed" >&2; exit 2; }
[ -n "$faults" ] && [ -n "$tests" ] || { echo "not built in $build: ./run build" >&2; exit 2; }
status=0
found=77 # What the tools exit with when they find something.
for tool in memcheck racecheck synccheck initcheck; do
  compute-sanitizer --tool "$tool" --error-exitcode "$found" "$faults" "$tool" >/dev/null 2>&1
  if [ $? -ne "$found" ]; then
    echo "$tool does not find the fault that was planted for it"
    status=1
    continue
  fi
  seen=$filter
  if [ "$tool" = racecheck ]; then
    case $filter in *-*) seen="$filter:$not_for_racecheck" ;; *) seen="$filter-$not_for_racecheck" ;; esac
  fi
  log=$(mktemp)
  if compute-sanitizer --tool "$tool" --error-exitcode "$found" "$tests" --gtest_brief=1 \
    --gtest_filter="$seen" >"$log" 2>&1 && grep -qE 'PASSED  \] [1-9]' "$log"; then
    echo "$tool: finds its planted fault, and nothing else ($(grep -c '' <"$log") lines of output)"
    grep -E 'PASSED|ERROR SUMMARY|RACECHECK SUMMARY' "$log"
  else
    echo "$tool: failed"
    tail -n 30 "$log"
    status=1
  fi
  rm -f "$log"
done
exit "$status"
