#!/usr/bin/env python3
"""Merges what one benchmark run wrote into one results file, and prints it as a table."""

import argparse
import datetime
import json
import pathlib
import re
import subprocess
import sys

HOST_ROWS = re.compile(r"^(\w+/layer_norm|nvrtc/.*|cache/.*|growth/.*)$")


def read(path):
    path = pathlib.Path(path)
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def output_of(*command):
    """First line a command prints; "unknown" if it cannot run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    lines = done.stdout.splitlines()
    return lines[0].strip() if lines else "unknown"


def commit():
    here = pathlib.Path(__file__).parent
    name = output_of("git", "-C", str(here), "rev-parse", "--short=12", "HEAD")
    changes = output_of("git", "-C", str(here), "status", "--porcelain", "--untracked-files=no")
    return name if name == "unknown" or changes == "unknown" else f"{name} with local changes"


def kernel_rows(suite, peer):
    """One row per case: the suite's first choice, and the peer where it ran the same case."""
    peers = {row["case"]: row for row in peer["results"]} if peer else {}
    rows = []
    for ours in suite["results"]:
        if ours["rank"] != 0:
            continue
        case = f"{ours['fusion']}:{ours['rows']}:{ours['cols']}"
        row = {"case": case, "checked": ours["checked"], "floor_us": ours["floor_us"]}
        row["sinter"] = {key: ours[key] for key in ("us", "sol", "schedule", "registers")}
        row["sinter"]["predicted_us"] = ours["predicted"]["total_us"]
        theirs = peers.get(case)
        if theirs and ours["checked"]:
            row["torch_compile"] = {
                "us": theirs["us"],
                "sol": ours["floor_us"] / theirs["us"],
                "way": theirs["way"],
                "medians_us": theirs["medians_us"],
            }
            row["ratio"] = theirs["us"] / ours["us"]
        rows.append(row)
    return rows


def host_rows(host):
    rows = []
    for row in host["benchmarks"]:
        if not HOST_ROWS.match(row["run_name"].removesuffix("/real_time")):
            continue
        if row["run_type"] == "aggregate":  # Of growth: the complexity fitted to it.
            if row["aggregate_name"] == "BigO":
                rows.append({"name": row["name"], "big_o": row["big_o"]})
            continue
        kept = {key: row[key] for key in ("name", "cpu_time", "real_time", "time_unit")}
        if "nvrtc_calls" in row:
            kept["nvrtc_calls"] = row["nvrtc_calls"]
        rows.append(kept)
    return rows


def print_table(report):
    if report["kernels"]:
        print(f"\n{report['device']}, copy {report['copy_tb_per_s']:.2f} TB/s, driver {report['driver']}")
        print(f"{'case':28} {'us':>9} {'SOL':>6} {'peer us':>9} {'SOL':>6} {'ratio':>6}")
    for row in report["kernels"]:
        ours = row["sinter"]
        line = f"{row['case']:28} {ours['us']:9.1f} {ours['sol']:6.3f}"
        if "torch_compile" in row:
            peer = row["torch_compile"]
            line += f" {peer['us']:9.1f} {peer['sol']:6.3f} {row['ratio']:6.2f}"
        print(line if row["checked"] else f"{row['case']:28} WRONG: not timed")
    for row in report["launch_overhead"]:
        print(
            f"{row['fusion']:28} execute {row['execute_us']:.3f} us, "
            f"bare launch {row['bare_us']:.3f} us, difference {row['difference_us']:.3f} us"
        )
    for row in report["host"]:
        if "cpu_time" in row:
            print(f"{row['name']:28} {row['cpu_time']:9.1f} {row['time_unit']} of processor time")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("raw", type=pathlib.Path, help="folder with what the run wrote")
    parser.add_argument("out", type=pathlib.Path, help="folder for the results file")
    options = parser.parse_args()
    suite, overhead = read(options.raw / "suite.json"), read(options.raw / "overhead.json")
    peer, host = read(options.raw / "torch.json"), read(options.raw / "host.json")
    if suite is None:
        sys.exit(f"{options.raw}/suite.json is missing: the GPU suite wrote nothing")

    date = datetime.date.today().isoformat()
    report = {
        "device": suite["device"],
        "driver": output_of("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"),
        "nvrtc": overhead["nvrtc"] if overhead else "unknown",
        "torch": peer["torch"] if peer else "none",
        "triton": peer["triton"] if peer else "none",
        "date": date,
        "commit": commit(),
        "copy_tb_per_s": suite["copy_tb_per_s"],
        "kernels": kernel_rows(suite, peer),
        "launch_overhead": overhead["results"] if overhead else [],
        "host": host_rows(host) if host else [],
    }
    print_table(report)
    options.out.mkdir(parents=True, exist_ok=True)
    slug = re.sub(r"[^a-z0-9]+", "_", suite["device"].lower()).strip("_")
    path = options.out / f"{slug}_{date}.json"
    path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(f"\nwrote {path}")


if __name__ == "__main__":
    main()
