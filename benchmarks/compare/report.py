"""Joins the results of sinter_gpu_suite and torch_compile.py from one run into one file, and prints the table.

usage: report.py SINTER.json TORCH.json OUT.json [key=value ...]     key=value pairs describe the run (driver, date, commit)
"""
import json
import math
import sys


def main():
    sinter_path, torch_path, out = sys.argv[1:4]
    facts = dict(pair.split("=", 1) for pair in sys.argv[4:])
    with open(sinter_path) as file:
        sinter = json.load(file)
    try:
        with open(torch_path) as file:
            torch = json.load(file)
    except FileNotFoundError:
        torch = {"results": []}
    peers = {(r["fusion"], r["rows"], r["cols"]): r for r in torch["results"]}
    rows = []
    for result in sinter["results"]:
        if result["rank"] != 0:
            continue
        peer = peers.get((result["fusion"], result["rows"], result["cols"]))
        row = dict(result)
        if peer:
            row["torch_us"] = peer["us"]
            row["torch_mode"] = peer["mode"]
            row["torch_sol"] = result["floor_us"] / peer["us"]
            row["ratio"] = peer["us"] / result["us"]
        rows.append(row)
    facts.update({"device": sinter["device"], "copy_tb_per_s": sinter["copy_tb_per_s"], "torch": torch.get("torch"), "cuda": torch.get("cuda")})
    with open(out, "w") as file:
        json.dump({"run": facts, "results": rows}, file, indent=1)
        file.write("\n")
    print("| fusion | rows x columns | us | predicted | SOL | torch.compile us | its SOL | ratio |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    ratios = []
    for r in rows:
        peer = ("-", "-", "-")
        if "ratio" in r:
            ratios.append(r["ratio"])
            peer = (f"{r['torch_us']:.1f}", f"{r['torch_sol']:.2f}", f"{r['ratio']:.2f}")
        print(f"| {r['fusion']} | {r['rows']} x {r['cols']} | {r['us']:.1f} | {r['predicted']['total_us']:.1f} | {r['sol']:.3f} | {' | '.join(peer)} |")
    if ratios:
        print(f"\ngeometric mean of ratios: {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}")


if __name__ == "__main__":
    main()
