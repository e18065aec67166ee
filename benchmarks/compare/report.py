"""Joins what the programs of one run wrote into one file, and prints it as tables.

WORK holds sinter.json and, where those programs ran, torch.json, overhead.json and host.json. The
file is OUT_DIR/<device>_<date>.json, with the suite's name behind the date unless that is
forward. Exit status: 0 all went well; 1 the file was written, and a
case is missing, computes wrong values or failed in the peer; 2 a wrong command line, or no
sinter.json to report.
"""

import argparse
import json
import math
import pathlib
import re
import sys


def read(path):
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def key_of(row):
    return row["fusion"], row["rows"], row["cols"]


def kernel_rows(sinter, torch):
    peers = {key_of(row): row for row in torch.get("results", [])}
    rows = []
    for result in sinter["results"]:
        if result["rank"] != 0:
            continue
        row = dict(result)
        peer = peers.get(key_of(result), {})
        if "error" in peer:
            row["torch_error"] = peer["error"]
        elif peer and result["checked"]:
            row["torch_us"] = peer["us"]
            row["torch_mode"] = peer["mode"]
            row["torch_modes"] = peer.get("modes", {})
            row["torch_sol"] = result["floor_us"] / peer["us"]
            row["ratio"] = peer["us"] / result["us"]
        rows.append(row)
    return rows


def host_rows(host):
    """Times, and for the growing chains the complexity that was fitted to them."""
    rows = []
    for row in host.get("benchmarks", []):
        if row.get("error_occurred"):
            keys = ("name", "error_message")
        elif row["run_type"] == "iteration":
            keys = ("name", "cpu_time", "real_time", "time_unit", "per_op", "nvrtc_calls")
        elif row["aggregate_name"] == "BigO":
            keys = ("name", "big_o", "cpu_coefficient")
        else:
            continue
        rows.append({key: row[key] for key in keys if key in row})
    return rows


def failures(sinter, torch, rows, cases):
    """What the tables must not hide, a line each."""
    found = []
    if torch and torch["device"] != sinter["device"]:
        found.append(f"the peer ran on another device: {torch['device']}, not {sinter['device']}")
    measured = {key_of(row) for row in rows}
    for fusion, size_a, size_b in (case.split(":") for case in cases):
        if (fusion, int(size_a), int(size_b)) not in measured:
            found.append(f"{fusion} {size_a} x {size_b}: not measured")
    for row in rows:
        name = f"{row['fusion']} {row['rows']} x {row['cols']}"
        if not row["checked"]:
            found.append(f"{name}: wrong values")
        if "torch_error" in row:
            found.append(f"{name}: no peer, {row['torch_error']}")
    return found


def print_kernels(rows):
    columns = "fusion | rows x columns | us | predicted | SOL | torch.compile us | its SOL | ratio"
    print(f"| {columns} |")
    print("| --- " * 8 + "|")
    for r in rows:
        size = f"{r['rows']} x {r['cols']}"
        if not r["checked"]:
            print(f"| {r['fusion']} | {size} | wrong, so not timed |" + " - |" * 5)
            continue
        peer = "failed | - | -" if "torch_error" in r else "- | - | -"
        if "ratio" in r:
            peer = f"{r['torch_us']:.1f} | {r['torch_sol']:.2f} | {r['ratio']:.2f}"
        predicted = r["predicted"]["total_us"]
        print(f"| {r['fusion']} | {size} | {r['us']:.1f} | {predicted:.1f} | {r['sol']:.3f} | {peer} |")
    ratios = [r["ratio"] for r in rows if "ratio" in r]
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"\ngeometric mean of {len(ratios)} ratios: {mean:.2f}")


def print_overhead(rows):
    print("\n| fusion | execute us | bare cuLaunchKernelEx us | difference us |")
    print("| --- " * 4 + "|")
    for r in rows:
        print(
            f"| {r['fusion']} | {r['execute_us']:.2f} | {r['bare_us']:.2f} | {r['difference_us']:.2f} |"
        )


def print_host(rows):
    print("\n| on the host | processor time |")
    print("| --- " * 2 + "|")
    for r in rows:
        if "cpu_time" in r:
            print(f"| {r['name']} | {r['cpu_time']:.1f} {r['time_unit']} |")
        else:
            print(f"| {r['name']} | {r.get('big_o') or 'failed: ' + r['error_message']} |")


def file_stem(device):
    """NVIDIA H200 is h200: a name that is safe in a path."""
    return re.sub(r"[^a-z0-9]+", "_", device.lower()).removeprefix("nvidia_").strip("_")


def parse_pair(text):
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text}: not key=value")
    return key, value


def parse_case(text):
    if not re.fullmatch(r"\w+:[0-9]+:[0-9]+", text):
        raise argparse.ArgumentTypeError(f"{text}: not fusion:rows:columns")
    return text


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("work", metavar="WORK", type=pathlib.Path)
    parser.add_argument("out_dir", metavar="OUT_DIR", type=pathlib.Path)
    parser.add_argument("--date", required=True, help="of the run, as in 2026-01-31")
    parser.add_argument("--suite", default="forward", help="names the file")
    parser.add_argument("--run", metavar="key=value", nargs="*", type=parse_pair, default=[],
                        help="what else describes the run: driver, commit")
    parser.add_argument("--cases", metavar="fusion:rows:columns", nargs="*", type=parse_case,
                        default=[], help="what must have been measured")
    arguments = parser.parse_args(argv)
    sinter, torch, overhead, host = (
        read(arguments.work / f"{name}.json") for name in ("sinter", "torch", "overhead", "host")
    )
    if not sinter:
        parser.error(f"{arguments.work / 'sinter.json'} is missing: there is nothing to report")

    rows = kernel_rows(sinter, torch)
    report = {
        "run": {
            **dict(arguments.run),
            "date": arguments.date,
            "device": sinter["device"],
            "copy_tb_per_s": sinter["copy_tb_per_s"],
            "nvrtc": overhead.get("nvrtc"),
            "torch": torch.get("torch"),
            "cuda": torch.get("cuda"),
        },
        "results": rows,
        "launch_overhead": overhead.get("results", []),
        "host": host_rows(host),
    }
    arguments.out_dir.mkdir(parents=True, exist_ok=True)
    suite = "" if arguments.suite == "forward" else f"_{arguments.suite}"
    out = arguments.out_dir / f"{file_stem(sinter['device'])}_{arguments.date}{suite}.json"
    out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print_kernels(rows)
    if report["launch_overhead"]:
        print_overhead(report["launch_overhead"])
    if report["host"]:
        print_host(report["host"])
    print(f"\n{out}")

    found = failures(sinter, torch, rows, arguments.cases)
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
