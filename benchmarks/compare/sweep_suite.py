"""Times many schedules of the kernels of benchmarks/suite on the GPU of this machine, for sinter_cost_model.

    sweep_suite.py --out suite_sweep.json                        all of it
    sweep_suite.py softmax sum --types bf16 --top 20             some, with so many schedules each
    sweep_suite.py wide --top 4 --each 2 --spread 0              of each kind of schedule the best two
    sweep_suite.py --schedules untimed.json                      what `sinter_cost_model untimed` lists
    sweep_suite.py softmax --device H200 --list                  what would be timed; needs no GPU
    sweep_suite.py cells/linear.fir --size M=512,K=512,N=512     a graph of one's own, --size for each size
    sweep_suite.py --cells contractions.json                     the graphs and sizes that a file lists

Of what `sinter plan --form candidates` lists those predicted fastest are taken, and others evenly
spread over the rest, so that the model is also held to what it does not choose; of the first few
each priority of reads. All are compiled as they are, without re-planning, on all cores, before
anything is timed: modules cannot be loaded while launches are captured. Outputs are
filled with poison and held to float64 before anything is timed (suite.py says how), and all
schedules of a case take turns, each sample with a cold L2.

Cases that one kernel does not run, with what finishes its partial results, are left out. Of graphs
in files that contract, those schedules are timed that run all of it in one kernel, whatever the
plan would cut; beside them, as `ways`, the plan, and the plan that may call cuBLASLt. The file is
written after every case, and cases it has are not timed again. Exit status: 0 all went well;
1 a schedule failed or computes wrong values; 3 the budget was spent before the end.
"""

import argparse
import concurrent.futures
import datetime
import json
import os
import pathlib
import re
import statistics
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "examples")]
from suite import Arm, Runner, launch_of, outputs_of, random_tensor, reference, sizes_of, spilled  # noqa: E402
from suite_cases import file_cases, suite_cases  # noqa: E402

# How a graph in a file is also planned: whether cuBLASLt is offered.
WAYS = {"planned": False, "planned with cuBLASLt": True}
PRIORITIES = ("evict_first", "evict_last", "last_use", "normal")


def candidates(options, case):
    """Texts of all schedules of the case's kernel, the best predicted first; none if several run it.
    Or why it cannot be planned."""
    try:
        pins = ("--family", "matmul") if is_cell(case) else ()
        segments = case.ask(options.sinter, "plan", "--device", options.device, "--form", "candidates", *pins)["kernels"]
    except RuntimeError as error:
        return error
    if not all(segment["finishes"] for segment in segments[1:]):
        return RuntimeError("no single kernel runs it") if is_cell(case) else []
    return [candidate["schedule"]["text"] for candidate in segments[0]["candidates"]]


def is_cell(case):
    """True for a graph in a file that contracts. It may be cut, but is swept whole."""
    return case.type == "as written" and "contract." in case.text


def kind_of(text):
    """Family, blocks of a cluster, and where what is kept of a row lies."""
    cluster = re.search(r"cluster_size \d+(\s+exchange \w+)?", text)
    kept = sorted(set(re.findall(r"in (register|shared)", text)))
    return re.search(r"schedule (\w+)", text)[1], cluster[0] if cluster else "", *kept


def chosen_of(texts, top, each, spread):
    """The first ones, the first ones of each kind, others evenly spread, and the other priorities of
    the first few."""
    kinds = {}
    for text in texts:
        kinds.setdefault(kind_of(text), []).append(text)
    first = list(dict.fromkeys(texts[:top] + [text for kind in kinds.values() for text in kind[:each]]))
    rest = [text for text in texts if text not in first]
    count = min(spread, len(rest))
    out = first + [rest[(2 * i + 1) * len(rest) // (2 * count)] for i in range(count)]
    for text in texts[: max(1, top // 6)]:
        out += [re.sub(r"read_priority \w+", f"read_priority {p}", text) for p in PRIORITIES]
    return list(dict.fromkeys(out))


def key_of(case):
    """What names a case in a result file."""
    return case.name, case.type, tuple(case.sizes.values())


def key_of_row(row):
    """The same of a row of the file."""
    return row["kernel"], row["type"], tuple(row["shape"])


def read_schedules(path):
    """Texts of the schedules to time by key_of(), from `sinter_cost_model untimed`."""
    listed = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))["suite"]
    return {key_of_row(row): row["schedules"] for row in listed}


def schedules_of(options, cases, report):
    """Texts of the schedules to time by the key of their case; cases without one are not among them."""
    if options.schedules:
        given = read_schedules(options.schedules)
        return {case.key: given[key_of(case)] for case in cases if key_of(case) in given}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        listed = list(pool.map(lambda case: candidates(options, case), cases))
    taken = {}
    for case, texts in zip(cases, listed, strict=True):
        if isinstance(texts, Exception):
            report(f"{case.key}: {texts}")
        elif texts:
            taken[case.key] = chosen_of(texts, options.top, options.each, options.spread)
    return taken


def times_of(runner, case, kernels, report):
    """Samples of each kernel that computes what it should, by its schedule; other kernels are
    reported."""
    graph = case.graph()
    inputs = [random_tensor(case, graph, value, "cuda") for value in graph.inputs]
    wanted = list(reference(case, graph, inputs))
    runner.torch.cuda.synchronize()
    outputs = outputs_of(next(iter(kernels.values()))) if kernels else []
    builders = {text: lambda kernel=kernel: Arm(launch_of(kernel, inputs, outputs))
                for text, kernel in kernels.items()}
    times, _, errors = runner.times(builders, graph, inputs, wanted)
    for text, error in errors.items():
        report(f"{case.key}: {error}\n{text}")
    return times


def cases_of(options):
    """The cases of the command line."""
    peers = str(HERE / "suite_peers.py")
    files = [name for name in options.what if name.endswith(".fir")]
    names = [name for name in options.what if not name.endswith(".fir")]
    if names or not (files or options.cells):
        yield from suite_cases(names, options.types.split(","), peers)
    for path in files:
        yield from file_cases(path, [], options.size, peers)
    if options.cells:
        listed = pathlib.Path(options.cells)
        for graph, sizes in json.loads(listed.read_text(encoding="utf-8")).items():
            yield from file_cases(listed.parent / (graph + ".fir"), [], sizes, peers)


def main():
    begin = time.monotonic()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", help="kernels or groups of the suite, or .fir files")
    parser.add_argument("--size", action="append", type=sizes_of, default=[],
                        help="sizes of a file's symbols: rows=4096,cols=8192; may be given again")
    parser.add_argument("--cells", help="JSON file: for each graph beside it the sizes to sweep")
    parser.add_argument("--types", default="bf16,f32")
    parser.add_argument("--device", default="live", help="what is planned for")
    parser.add_argument("--top", type=int, default=12, help="best predicted schedules of each case")
    parser.add_argument("--each", type=int, default=0,
                        help="best predicted schedules of each family, cluster size and place of what is kept")
    parser.add_argument("--spread", type=int, default=4, help="others, from all over the rest")
    parser.add_argument("--schedules", help="JSON file with the schedules to time, and no others")
    parser.add_argument("--list", action="store_true", help="print what would be timed, and end")
    parser.add_argument("--sinter", default=str(ROOT / "build/release/tools/sinter"))
    parser.add_argument("--library", default=str(ROOT / "build/release/runtime/c_api/libsinter.so"))
    parser.add_argument("--out", help="JSON file, which is continued where it exists")
    parser.add_argument("--commit", default="unknown", help="what is timed, to be written down")
    parser.add_argument("--budget", type=float, default=float("inf"), help="seconds")
    options = parser.parse_args()
    out = pathlib.Path(options.out) if options.out else None
    state = {"run": {"commit": options.commit}, "results": []}
    if out and out.is_file():
        state = json.loads(out.read_text(encoding="utf-8"))
        commit = state["run"].get("commit", "unknown")
        if commit != options.commit:
            parser.error(f"{out} has timings of commit {commit}")
    failures = []

    def report(text):
        print(text, flush=True)
        failures.append(text)

    done = {key_of_row(row) for row in state["results"]}
    cases = [case for case in cases_of(options) if key_of(case) not in done]
    taken = schedules_of(options, cases, report)
    cases = [case for case in cases if case.key in taken]
    if options.list:
        for case in cases:
            print(f"{case.key}: {len(taken[case.key])} schedules")
        print(f"{sum(len(texts) for texts in taken.values())} schedules of {len(cases)} cases")
        return int(bool(failures))

    from sinter_ctypes import STATUS, Kernel, SinterError

    runner = Runner(options.library)
    state["run"] |= {"device": runner.torch.cuda.get_device_name(), "sinter": runner.version(),
                     "samples": runner.timing.SAMPLES, "checked": True, "date": str(datetime.date.today())}

    def prepared(case, text):
        try:
            if text in WAYS:
                return Kernel(runner.sinter, runner.runtime, case.text, case.sizes, cublaslt=WAYS[text])
            return Kernel(runner.sinter, runner.runtime, case.text, case.sizes, schedule=text)
        except SinterError as error:
            # One that does not fit, as with another priority it may not: nothing was claimed of it.
            return None if STATUS.get(error.status) in ("Unsupported", "ResourceExhausted") else error

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        pending = {case.key: {text: pool.submit(prepared, case, text)
                              for text in [*taken[case.key], *(WAYS if is_cell(case) else ())]}
                   for case in cases}
        kernels = {key: {text: future.result() for text, future in texts.items()}
                   for key, texts in pending.items()}
    print(f"all compiled after {time.monotonic() - begin:.0f} s", flush=True)
    for case in cases:
        if time.monotonic() - begin > options.budget:
            print("the budget is spent")
            return 3
        for text, kernel in kernels[case.key].items():
            if isinstance(kernel, Exception):
                report(f"{case.key}: {kernel}\n{text}")
        usable = {text: kernel for text, kernel in kernels.pop(case.key).items()
                  if kernel is not None and not isinstance(kernel, Exception)}
        try:
            times = times_of(runner, case, usable, report)
            for way in times.keys() & WAYS.keys():
                report_of = usable[way].explain()
                state.setdefault("ways", []).append({
                    "kernel": case.name, "sizes": case.sizes, "way": way, "us": statistics.median(times[way]),
                    "predicted_us": usable[way].info.predicted_us,
                    "schedules": [kernel["schedule"]["text"] for kernel in report_of["kernels"]]})
            times = {text: samples for text, samples in times.items() if text not in WAYS}
            for text, samples in times.items():
                state["results"].append({
                    "kernel": case.name, "shape": list(case.sizes.values()), "type": case.type,
                    "us": statistics.median(samples), "spill_bytes": spilled(usable[text].explain()),
                    "schedules": [text]} | ({"sizes": case.sizes} if is_cell(case) else {}))
            if times:
                best = min(times, key=lambda text: statistics.median(times[text]))
                first = times.get(taken[case.key][0])
                said = f", the untuned choice {statistics.median(first):.1f}" if first else ""
                print(f"{case.key}: {len(times)} schedules, the fastest {statistics.median(times[best]):.1f} us{said}",
                      flush=True)
        except Exception as error:
            report(f"{case.key}: {error}")
        for kernel in usable.values():
            kernel.release()
        runner.torch.cuda.empty_cache()
        if out:
            out.write_text(json.dumps(state) + "\n", encoding="utf-8")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
