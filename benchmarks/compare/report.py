"""Joins what the programs of one run wrote into one file, and prints it as tables.

usage: report.py DIR OUT.json [key=value ...]

DIR holds sinter.json and, where those programs ran, torch.json, overhead.json and host.json. The
key=value pairs describe the run (driver, date, commit).
"""

import json
import math
import pathlib
import sys


def read(path):
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def kernel_rows(sinter, torch):
    peers = {(r["fusion"], r["rows"], r["cols"]): r for r in torch.get("results", [])}
    rows = []
    for result in sinter["results"]:
        if result["rank"] != 0:
            continue
        row = dict(result)
        peer = peers.get((result["fusion"], result["rows"], result["cols"]))
        if peer and result["checked"]:
            row["torch_us"] = peer["us"]
            row["torch_mode"] = peer["mode"]
            row["torch_sol"] = result["floor_us"] / peer["us"]
            row["ratio"] = peer["us"] / result["us"]
        rows.append(row)
    return rows


def host_rows(host):
    """Times, and for the growing chains the complexity that was fitted to them."""
    rows = []
    for row in host.get("benchmarks", []):
        if row["run_type"] == "iteration":
            keys = ("name", "cpu_time", "real_time", "time_unit", "per_op", "nvrtc_calls")
        elif row["aggregate_name"] == "BigO":
            keys = ("name", "big_o", "cpu_coefficient")
        else:
            continue
        rows.append({key: row[key] for key in keys if key in row})
    return rows


def print_kernels(rows):
    columns = "fusion | rows x columns | us | predicted | SOL | torch.compile us | its SOL | ratio"
    print(f"| {columns} |")
    print("| --- " * 8 + "|")
    for r in rows:
        size = f"{r['rows']} x {r['cols']}"
        if not r["checked"]:
            print(f"| {r['fusion']} | {size} | wrong, so not timed |" + " - |" * 5)
            continue
        peer = "- | - | -"
        if "ratio" in r:
            peer = f"{r['torch_us']:.1f} | {r['torch_sol']:.2f} | {r['ratio']:.2f}"
        predicted = r["predicted"]["total_us"]
        print(f"| {r['fusion']} | {size} | {r['us']:.1f} | {predicted:.1f} | {r['sol']:.3f} | {peer} |")
    ratios = [r["ratio"] for r in rows if "ratio" in r]
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"\ngeometric mean of ratios: {mean:.2f}")


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
            print(f"| {r['name']} | {r['big_o']} |")


def main():
    work, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    sinter, torch = read(work / "sinter.json"), read(work / "torch.json")
    overhead, host = read(work / "overhead.json"), read(work / "host.json")
    run = dict(pair.split("=", 1) for pair in sys.argv[3:])
    run["device"] = sinter["device"]
    run["copy_tb_per_s"] = sinter["copy_tb_per_s"]
    run["nvrtc"] = overhead.get("nvrtc")
    run["torch"] = torch.get("torch")
    run["cuda"] = torch.get("cuda")
    report = {
        "run": run,
        "results": kernel_rows(sinter, torch),
        "launch_overhead": overhead.get("results", []),
        "host": host_rows(host),
    }
    out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print_kernels(report["results"])
    if report["launch_overhead"]:
        print_overhead(report["launch_overhead"])
    if report["host"]:
        print_host(report["host"])


if __name__ == "__main__":
    main()
