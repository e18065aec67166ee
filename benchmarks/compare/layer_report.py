"""Joins what ncu saw of Sinter's layers and of torch.compile's: kernels and device time of each.

usage: layer_report.py [--products] SINTER.csv SINTER.json OUT.json TORCH.csv [TORCH.csv of another mode ...]

Of the peer's modes the faster one counts, layer by layer. All .csv are of `ncu --csv --page raw
--metrics gpu__time_duration.sum`. Sections begin with a marker kernel. Attention and stand-ins for
calls are left out: they are the calls of the graph, and the same for both. So are matrix products,
unless --products says that they are contractions of the graph.
"""

import csv
import json
import math
import re
import sys

MARKERS = ("layer_marker", "spin_kernel")
STAND_INS = re.compile(r"layer_stand_in")
ATTENTION = re.compile(r"flash|fmha|cudnn|attention", re.I)
CALLS = re.compile(r"gemm|nvjet|cutlass|xmma|splitK|cublas|flash|fmha|cudnn|attention", re.I)


def sections_of(path, calls):
    """Lists of (kernel, us), one for each marker, without those whose names match `calls`."""
    with open(path, newline="") as file:
        lines = [line for line in file if line.startswith('"')]
    out = []
    for row in csv.DictReader(lines):
        name, time = row["Kernel Name"], row["gpu__time_duration.sum"]
        if not name:  # The line of units.
            unit = time
            continue
        if any(marker in name for marker in MARKERS):
            out.append([])
        elif not calls.search(name):
            scale = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "nsecond": 1e-3, "usecond": 1.0}[unit]
            out[-1].append((name, float(time.replace(",", "")) * scale))
    return out


def main(*arguments):
    has_products = arguments[0] == "--products"
    ours_csv, ours_json, out_path, *peer_csvs = arguments[has_products:]
    calls = ATTENTION if has_products else CALLS
    with open(ours_json) as file:
        planned = json.load(file)
    rows = []
    ours_sections = sections_of(ours_csv, STAND_INS)
    peer_sections = [sections_of(path, calls) for path in peer_csvs]
    for plan, ours, *peers in zip(planned, ours_sections, *peer_sections, strict=True):
        peer = min(peers, key=lambda kernels: sum(time for _, time in kernels))
        us, peer_us = (sum(time for _, time in kernels) for kernels in (ours, peer))
        rows.append(
            {
                **plan,
                "measured": [{"kernel": name, "us": round(time, 2)} for name, time in ours],
                "us": round(us, 1),
                "torch": [{"kernel": name, "us": round(time, 2)} for name, time in peer],
                "torch_us": round(peer_us, 1),
                "ratio": round(peer_us / us, 3),
            }
        )
        print(
            f"{plan['layer']:15} kernels {len(ours):3} torch {len(peer):3}   {us:8.1f} us "
            f"predicted {plan['predicted_us']:8.1f}   torch {peer_us:8.1f} us   ratio {peer_us / us:.3f}"
        )
    mean = math.exp(sum(math.log(row["ratio"]) for row in rows) / len(rows))
    print(f"geometric mean of ratios {mean:.3f}, least {min(row['ratio'] for row in rows):.3f}")
    with open(out_path, "w") as file:
        json.dump({"rows": rows, "geometric_mean": round(mean, 3)}, file, indent=1)


if __name__ == "__main__":
    main(*sys.argv[1:])
