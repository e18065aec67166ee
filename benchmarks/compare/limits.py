"""What there is left to gain over torch.compile in the cases of benchmarks/suite; needs no GPU.

    limits.py results/h200_2026-11-25_suite_*.json --floor results/h200_2026-11-25_traffic_floor.json \\
              --timed results/h200_2026-11-25_suite_sweep.json

For every kernel and type: how many times as fast as the peer Sinter is, would be with the fastest
schedule of the case that was ever timed, would be if it took as long as nothing but the case's
bytes (traffic_floor.py), and would be at the least of all three in every case. The last is no
bound either, but nothing that was ever run on the card was faster. Times of different runs differ
by up to 5 % where they are below 30 us.
"""

import argparse
import math
import sys

import result_files
from suite_report import mean, peer_us, size_of


def load(path):
    return result_files.load(path)


def fastest_timed(files):
    """The least time of every case among schedules that were timed."""
    out = {}
    for path in files:
        for result in load(path)["results"]:
            key = (result["kernel"], result["type"], tuple(result["shape"]))
            out[key] = min(out.get(key, math.inf), result["us"])
    return out


def main(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", help="JSON of suite.py")
    parser.add_argument("--floor", required=True, help="JSON of traffic_floor.py")
    parser.add_argument("--timed", nargs="*", default=[], help="JSON of sweep_suite.py or tune_suite.py")
    parser.add_argument("--least", type=float, default=0.97, help="ratio below which a case is named")
    options = parser.parse_args(arguments)
    floors = {(row["kernel"], row["type"], tuple(row["sizes"].values())): row["floor_us"]
              for row in load(options.floor)["rows"]}
    timed = fastest_timed(options.timed)
    rows = []
    for path in options.files:
        for row in load(path)["rows"]:
            key = (row["kernel"], row["type"], tuple(row["sizes"].values()))
            if "ratio" not in row or key not in floors:
                print(f"left out: {row['kernel']} {row['type']} {size_of(row)}", file=sys.stderr)
                continue
            peer, sinter = peer_us(row), row["us"]["sinter"]
            schedule = min(sinter, timed.get(key, math.inf))
            rows.append({"kernel": row["kernel"], "type": row["type"], "size": size_of(row),
                         "ratio": peer / sinter, "schedule": peer / schedule,
                         "floor": peer / floors[key], "least": peer / min(schedule, floors[key])})
    columns = ("ratio", "schedule", "floor", "least")
    print("| kernel | type | as measured | fastest schedule timed | nothing but the bytes | least of these |")
    print("| --- " * 6 + "|")
    for kind in ("bf16", "f32"):
        of_kind = [row for row in rows if row["type"] == kind]
        for kernel in [*dict.fromkeys(row["kernel"] for row in of_kind), "all"]:
            own = [row for row in of_kind if kernel in (row["kernel"], "all")]
            if own:
                means = " | ".join(f"{mean(row[name] for row in own):.3f}" for name in columns)
                print(f"| {kernel} | {kind} | {means} |")
    print()
    for row in sorted(rows, key=lambda row: row["ratio"]):
        if row["ratio"] < options.least:
            print(f"{row['kernel']} {row['type']} {row['size']}: {row['ratio']:.3f}, with the fastest schedule "
                  f"timed {row['schedule']:.3f}, with nothing but the bytes {row['floor']:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
