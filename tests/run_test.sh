#!/usr/bin/env bash
# Checks which test executables `./run test -R REGEX` builds, and what it says of progress.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
# shellcheck source=run
source "$root/run"

expect() {
  if [ "$2" != "$3" ]; then
    printf '%s: expected "%s", got "%s"\n' "$1" "$2" "$3" >&2
    exit 1
  fi
}
targets() { targets_of_tests "$1" | sort | tr '\n' ' ' || true; }

expect "a folder and a suite" "sinter_runtime_tests " "$(targets 'runtime\.KernelCache')"
expect "anchored" "sinter_codegen_tests " "$(targets '^codegen\.CudaEmitter')"
expect "a dot that is not escaped" "sinter_runtime_tests " "$(targets 'runtime.KernelCache')"
# Whatever it may be the parameter of, or another test altogether: everything is built.
for unsure in softmax package '^tools\.' 'KernelCache|softmax' '(KernelCache' ''; do
  expect "unsure about '$unsure'" "" "$(targets "$unsure")"
done
# A suite without its folder: its own executable is among those built.
[[ "$(targets KernelCache)" == *sinter_runtime_tests* ]] || expect "a suite" runtime "$(targets KernelCache)"

progress_seconds=30
said="$(printf '%s\n' '@@ 1 100 1.000 @@ a' '@@ 25 100 30.2 @@ b' 'x.cpp:1: warning: w' \
  '@@ 30 100 40.0 @@ c' '@@ 50 100 61.0 @@ d' | show_progress 2>&1)"
expect "progress" "sinter: 25 %, 25 of 100, about 2 min left
x.cpp:1: warning: w
sinter: 50 %, 50 of 100, about 61 s left" "$said"

# Every command of the help is known, and runs once.
log=/dev/null
for command in $(usage | sed -n 's|^\./run \([a-z]*\).*|\1|p'); do
  case "$command" in build | help) continue ;; esac
  eval "run_$command() { echo 'ran $command'; }"
  expect "./run $command" "ran $command" "$(main "$command")"
done
expect "help" "$(usage)" "$(main help)"
expect "sourcing" "" "$(bash -c 'source "$1"' _ "$root/run" 2>&1)"
