"""Tables of what peers.py measured, and whether Sinter is as fast as it is to be.

    peer_report.py results/h100_2026-11-27_peers.json

A ratio is the time of a peer over Sinter's: that of the fastest peer that is right, and for the
column of torch.compile that of its faster mode. Exit status: 0, or 1 where a cell of the table is
not measured, Sinter is wrong in one, a ratio is below --cell, a family's geometric mean below
--family, or one of argmax beside torch.compile below --argmax.
"""

import argparse
import math
import sys

import result_files
from peers import cells_of
from suite_report import mean, size_of


def families(rows):
    return {name: [row for row in rows if row["kernel"] == name]
            for name in dict.fromkeys(row["kernel"] for row in rows)}


def table_of_families(rows):
    print("| family | cells | beside the fastest peer | least | beside torch.compile | least |")
    print("| --- " * 6 + "|")
    for name, own in {**families(rows), "all": rows}.items():
        said = []
        for ratio in ("peer_ratio", "ratio"):
            found = [row[ratio] for row in own if ratio in row]
            said += [f"{mean(found):.3f}", f"{min(found):.3f}"] if found else ["none", "none"]
        print(f"| {name} | {len(own)} | {' | '.join(said)} |")


def table_of_cells(rows):
    print("| cell | us | predicted | fastest peer | its us | ratio | torch.compile |")
    print("| --- " * 7 + "|")
    for row in rows:
        us = f"{row['us']['sinter']:.1f}" if "sinter" in row["us"] else "none"
        peer = "none | none | none"
        if "peer" in row:
            peer = f"{row['peer']} | {row['us'][row['peer']]:.1f} | {row['peer_ratio']:.3f}"
        ratio = f"{row['ratio']:.3f}" if "ratio" in row else "none"
        print(f"| {row['kernel']} {size_of(row)} | {us} | {row['predicted_us']:.1f} | {peer} | {ratio} |")


def faults(rows, options):
    """What is not as it is to be, a line each."""
    measured = {(row["kernel"], tuple(row["sizes"].values())) for row in rows}
    missing = [cell.key for cell in cells_of(options.only)
               if (cell.name, tuple(cell.sizes.values())) not in measured]
    if missing:
        more = ", ..." if missing[4:] else ""
        yield f"{len(missing)} cells are not measured: {', '.join(missing[:4])}{more}"
    for row in rows:
        cell = f"{row['kernel']} {size_of(row)}"
        if "sinter" not in row["us"]:
            yield f"{cell}: Sinter is not timed: {row['errors']['sinter']}"
        elif row.get("peer_ratio", math.inf) < options.cell:
            yield f"{cell}: {row['peer_ratio']:.3f} beside {row['peer']}, below {options.cell}"
        if row["kernel"] == "argmax" and row.get("ratio", 0) < options.argmax:
            yield f"{cell}: {row.get('ratio', math.nan):.3f} beside torch.compile, below {options.argmax}"
    for name, own in families(rows).items():
        ratio = mean(row["peer_ratio"] for row in own if "peer_ratio" in row)
        if not ratio >= options.family:
            yield f"{name}: geometric mean {ratio:.3f}, below {options.family}"


def main(argv):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", help="JSON of peers.py")
    parser.add_argument("--only", action="append", default=[], metavar="FAMILY")
    parser.add_argument("--cell", type=float, default=0.95)
    parser.add_argument("--family", type=float, default=0.99)
    parser.add_argument("--argmax", type=float, default=1.0)
    options = parser.parse_args(argv)
    rows, absent = [], {}
    for path in options.files:
        state = result_files.load(path)
        rows += [row for row in state["rows"] if not options.only or row["kernel"] in options.only]
        absent |= state["absent"]
        peers = ", ".join(f"{name} {version}" for name, version in state["peers"].items())
        print(f"{state['device']}, commit {state['commit']}, {state['date']}: PyTorch {state['torch']}"
              + (f", {peers}" if peers else ""))
    order = [cell.name for cell in cells_of()]
    rows.sort(key=lambda row: order.index(row["kernel"]))
    for name, reason in absent.items():
        print(f"{name} is absent: {reason}")
    print()
    table_of_families(rows)
    print()
    table_of_cells(rows)
    print()
    for row in rows:
        for name, text in row.get("errors", {}).items():
            print(f"left out: {row['kernel']} {size_of(row)}: {name}: {text}")
    below = sum(row.get("peer_ratio", math.inf) < options.cell for row in rows)
    print(f"{len(rows)} cells, {below} below {options.cell}")
    found = list(faults(rows, options))
    for line in found:
        print(line, file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
