#!/usr/bin/env bash
# Times Sinter beside torch.compile, PyTorch, Liger Kernel, QuACK and nvFuser, as many of them as are
# installed, in the cells of `cells/peers.json` on the GPU of this machine, and writes OUT.json. A
# file that exists is continued, with the same sources, libraries and kind of card. Then prints the
# tables. Further arguments are options of peers.py: `--budget 540` ends in time, `--only softmax`
# and `--shard 0/4` take a part of the cells.
# usage: benchmarks/compare/peers.sh OUT.json [LIBSINTER.so [OPTION...]]
set -euo pipefail
here=$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
if [ $# -lt 1 ] || [[ "$1" == -* ]] || [[ "${2:-}" == -* ]]; then
  echo "usage: $0 OUT.json [LIBSINTER.so [OPTION...]]" >&2
  exit 2
fi
out=$1
library=${2:-"$here/../../build/release/runtime/c_api/libsinter.so"}
shift $(($# < 2 ? $# : 2))
[ -r "$library" ] || { echo "$library is not built: ./run build" >&2; exit 1; }
python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null ||
  { echo "PyTorch with CUDA is not installed, or finds no GPU" >&2; exit 1; }
# Names the sources that were measured, and whether they are those of a commit.
commit=${SINTER_COMMIT:-$(git -C "$here" describe --always --dirty --exclude='*' 2>/dev/null || echo unknown)}
status=0
python3 "$here/peers.py" --out "$out" --library "$library" --commit "$commit" "$@" || status=$?
[ "$status" != 2 ] && [ -r "$out" ] || exit "$status"
python3 "$here/peer_report.py" "$out" || [ "$status" != 0 ] || status=1
exit "$status"
