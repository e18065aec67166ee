"""Tunes kernels of benchmarks/suite on the GPU of this machine: how far the untuned choice is from the
best of those that were timed, each checked against the oracle first.

    tune_suite.py --out suite_tuned.json                   all of it
    tune_suite.py softmax jsd --types bf16 --budget 20     some, with so many seconds each

The file holds a row for every case, and under `results` every schedule that was timed, as
sinter_cost_model reads it. It is written after every case, and cases it has are not tuned again. Exit
status: 0 all went well; 1 a case failed, or a schedule computes wrong values.
"""

import argparse
import datetime
import json
import math
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))
from suite import suite_cases  # noqa: E402


def tune(options, case):
    database = ["--database", options.database] if options.database else []
    return case.ask(options.sinter, "tune", "--top", str(options.top), "--budget", str(options.budget), *database)


def timed_schedules(report, case):
    """Of cases that one kernel runs, with what finishes its partial results."""
    if len(report["kernels"]) != 1:
        return
    for one in report["kernels"][0].get("measurements", []):
        if one["timed"]:
            yield {"kernel": case.name, "shape": list(case.sizes.values()), "type": case.type,
                   "us": one["timed"]["median_us"], "spill_bytes": one["spill_bytes"],
                   "schedules": [one["schedule"]]}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", help="kernels or groups of the suite")
    parser.add_argument("--types", default="bf16,f32")
    parser.add_argument("--sinter", default=str(ROOT / "build/release/tools/sinter"))
    parser.add_argument("--top", type=int, default=16, help="challengers of each segment")
    parser.add_argument("--budget", type=float, default=30, help="seconds of each case")
    parser.add_argument("--database", help="where the winners are kept")
    parser.add_argument("--out", required=True, help="JSON file, which is continued where it exists")
    parser.add_argument("--commit", default="unknown")
    options = parser.parse_args()
    out = pathlib.Path(options.out)
    state = {"run": {}, "rows": [], "results": []}
    if out.is_file():
        state = json.loads(out.read_text(encoding="utf-8"))
    done = {(row["kernel"], row["type"], tuple(row["sizes"].values())) for row in state["rows"]}
    status = 0
    for case in suite_cases(options.what, options.types.split(","), None):
        if (case.name, case.type, tuple(case.sizes.values())) in done:
            continue
        try:
            report = tune(options, case)
        except RuntimeError as error:
            print(f"{case.key}: {error}", flush=True)
            status = 1
            continue
        wrong, trouble = report["wrong_results"], report["trouble"]
        status |= int(bool(wrong or trouble))
        row = {"kernel": case.name, "type": case.type, "sizes": case.sizes,
               "untuned_us": report["untuned_us"], "tuned_us": report["tuned_us"],
               "ended": report["ended"], "seconds": report["seconds"], "wrong_results": wrong,
               # Kernels of a graph of several whose oracle is too large: the times leave them out.
               "unmeasured": sum(not segment["untuned_us"] for segment in report["kernels"])}
        state["rows"].append(row)
        state["results"] += timed_schedules(report, case)
        state["run"] = {"device": report["device"], "commit": options.commit, "checked": True,
                        "date": str(datetime.date.today())}
        said = f"{row['untuned_us']:.1f} us, tuned {row['tuned_us']:.1f}" if row["tuned_us"] else "not measured"
        if row["unmeasured"]:
            said += f", {row['unmeasured']} of {len(report['segments'])} kernels not measured"
        print(f"{case.key}: {said} ({row['ended']}, {row['seconds']:.0f} s)"
              + (f", {wrong} WRONG" if wrong else "") + (f", {trouble}" if trouble else ""), flush=True)
        out.write_text(json.dumps(state) + "\n", encoding="utf-8")
    regrets = [math.log(row["untuned_us"] / row["tuned_us"]) for row in state["rows"]
               if row["tuned_us"] and not row.get("unmeasured")]
    if regrets:
        print(f"{len(regrets)} cases: the untuned choice takes {100 * math.expm1(sum(regrets) / len(regrets)):.1f} % "
              f"longer than the tuned one in the geometric mean, {100 * math.expm1(max(regrets)):.1f} % at worst")
    return status


if __name__ == "__main__":
    sys.exit(main())
