"""Times Sinter's kernels and torch.compile in one process, on the same tensors.

    suite.py                                    every kernel, size and type of benchmarks/suite
    suite.py softmax jsd --types bf16           some of them
    suite.py mine.fir --size rows=4096,cols=8192    a graph of one's own

Nothing is built: the shared library is opened with ctypes. Every kernel is checked before it is
timed: outputs are filled with poison, written, and compared with float64. Then the arms take turns,
and each sample is one replay of a CUDA graph after 256 MiB (or four times the L2, if that is more)
were written, so that inputs come from memory; what reads asked L2 to keep longest, which outlives
that, is given up first. A time is the median of 15. The arms are Sinter and
torch.compile in its default mode and in max-autotune-no-cudagraphs, of which the faster one counts.
The peer of a kernel is the function of its name in --peer FILE or suite_peers.py, else the graph
itself said in PyTorch (fir.py). A peer that torch.compile makes no single region of is not timed, and a
case one of whose modes did not run, compiled and right, has no ratio: its line says why.

With --schedules a further arm, `tuned`, runs the schedule that was fastest in files of
sweep_suite.py or tune_suite.py, where that is not the planner's own: what measuring first gains, as
it does the peer in its second mode. `ratio` and `sol` stay those of the planner's choice.

Where inputs are too large to be held in float64, the reference is formed of some rows at a time: a
scalar output then counts as the sum of those of its parts.

Results are written to --out after every case, and cases it has already are not measured again.
Exit status: 0 all was measured; 1 a case failed or is wrong; 2 a wrong command line; 3 the budget
was spent before the end.
"""

import argparse
import concurrent.futures
import dataclasses
import datetime
import itertools
import json
import math
import multiprocessing
import os
import pathlib
import statistics
import sys
import time
import typing

import fir
import result_files
from suite_cases import HERE, ROOT, file_cases, suite_cases

sys.path[:0] = [str(HERE), str(ROOT / "examples")]

MODES = ("default", "max-autotune-no-cudagraphs")
WARMUPS = 3
# Elements of the largest tensor whose reference is formed at once: 2 GiB in float64, of which the
# reference holds a dozen.
REFERENCE_ELEMENTS = 1 << 28
# Bytes of a case that is compiled beside others before anything is timed.
WARMED_BYTES = 4 << 30


class Failed(Exception):
    """A case that was not timed, and why."""


class NotCompiled(Failed):
    """A peer that torch.compile did not make one region of, and why."""


@dataclasses.dataclass
class Arm:
    """One of those that take turns on the same inputs."""

    launch: typing.Callable  # Gives the outputs; None stands for one that the arm does not make.
    reset: typing.Callable = lambda: None  # Restores what a launch overwrites.
    own: tuple = ()  # Tensors that are read in the place of inputs.
    roundings: int = 1  # To the type of an output, on the way to it.


def random_tensor(case, graph, value, device):
    """Random data of a kind that the kernel is meant for: a distribution where it takes one, weights of
    a product such that its elements have the variance of the other operand's."""
    import fir
    import torch

    shape = graph.shape(value, case.sizes)
    strides = graph.strides(value, case.sizes)
    dtype = fir.torch_type(value.type)
    reach = 1 + sum((n - 1) * step for n, step in zip(shape, strides)) if math.prod(shape) else 0
    if not dtype.is_floating_point:
        limit = graph.limit_of_indices(value)
        high = graph.size(limit, case.sizes) if limit is not None else 2
        flat = torch.randint(0, high, (reach,), device=device).to(dtype)
        return flat.as_strided(shape, strides)
    kind = case.kinds.get(value.name, "normal")
    flat = torch.empty(reach, dtype=dtype, device=device)
    for part in flat.split(1 << 28):
        part.copy_(torch.rand_like(part, dtype=torch.float32) if kind in ("uniform", "mask")
                   else torch.randn_like(part, dtype=torch.float32))
    x = flat.as_strided(shape, strides)
    match kind:
        case "log_softmax":
            return x.log_softmax(-1)
        case "softmax":
            return x.softmax(-1)
        case "mask":
            return x.copy_(torch.where(x < 0.3, -1e4, 0.0))
        case "log_probability":
            return x.sub_(10)
        case "one":
            return x.fill_(1)
        case "normal" | "uniform":
            products = graph.products_of(value, case.sizes)
            return x.mul_(products**-0.5) if products > 1 else x
    raise Failed(f"{value.name}: inputs of kind '{kind}' are unknown")


def poison(tensor):
    import torch

    tensor.reshape(-1).view(torch.uint8).fill_(0xFF)


@dataclasses.dataclass
class Wanted:
    """An output in float64, and by how much the roundings on the way to it change its elements; None
    if there are none."""
    values: object
    spread: object = None
    by_element: bool = False  # What an element is rounded from does not depend on others of its row.


def check(got, wanted, name, roundings=1):
    """Compares an output with its float64 reference.

    The statistic that a row waits for is off by some 2^-24 of its terms' magnitude times the
    root of their number, and what follows may enlarge that (the exponential of a number around 2^4,
    of which a grpo loss has two, by as much): so a float32 output may be off by 2^-13, which no wrong
    element escapes. Narrower ones are rounded once more, or as often as `roundings` says. Where the
    graph rounds on the way, so does the reference. A number beside a tie then rounds either way. That
    changes elements of its row by up to twice as much as rounding changes one of them, in units of the
    element or of the row; results of rows by as much as any of them. An element beside the mean of its
    row counts as the median of the row, where it is a difference from that mean. Where no row is
    reduced, what an element is rounded from may be any other's size. `sinter check` has the exact bounds.
    """
    import torch

    want, spread = wanted.values, wanted.spread

    if got.shape != want.shape:
        raise Failed(f"{name}: shape {tuple(got.shape)}, not {tuple(want.shape)}")
    if not got.dtype.is_floating_point:
        # A quotient beside a tie rounds either way.
        off = (got.double() - want.double()).abs()
        if off.numel() and (off.max() > 1 or (off > 0).double().mean() > 0.01):
            raise Failed(f"{name}: off by {off.max().item():.0f}, {(off > 0).sum().item()} elements")
        return 0.0
    info = torch.finfo(got.dtype)
    relative, least = 0, 0
    if info.bits < 32:
        relative, least = roundings * info.eps / 2, info.smallest_normal * info.eps / 2
    if want.numel() and bool(((want == 0) | (want == 1)).all()):
        # Answers to a question, which rounding may turn where it is a close one.
        turned = (got.double() != want).double().mean().item()
        if turned > 1e-3:
            raise Failed(f"{name}: {turned:.1%} of its answers are wrong")
        return turned
    worst = 0.0
    scale = want.pow(2).mean().sqrt()
    parts = [x.split(4096) if x is not None and x.dim() else [x] for x in (got, want, spread)]
    for g, w, s in itertools.zip_longest(*parts):
        allowed = (relative + 2.0**-13) * w.abs() + least + 2.0**-13 * scale
        if s is not None:
            of_row = s.amax(-1, keepdim=True) if s.dim() > 1 else spread.amax()
            if s.dim() > 1 and not wanted.by_element:
                share = (s / w.abs().clamp_min(1e-300)).amax(-1, keepdim=True)
                # Its own rounding and that of its row's mean may cancel in an element.
                of_row = torch.minimum(of_row, share * w.abs()).maximum(s.median(-1, keepdim=True)[0])
            allowed = allowed + 2 * (1 + 2.0**-7) * of_row
        excess = ((g.double() - w).abs() / allowed.clamp_min(1e-300)).max().item() if w.numel() else 0.0
        worst = max(worst, excess if not math.isnan(excess) else math.inf)
    if worst > 1:
        raise Failed(f"{name}: off by {worst:.3g} times what rounding explains")
    return worst


def reference(case, graph, inputs):
    """The outputs in float64, as the graph rounds on the way to them."""
    exact = evaluated(case, graph, inputs, True)
    if case.has_own_peer() or not fir.inner_roundings(graph):
        return [Wanted(x) for x in exact]
    rounded = evaluated(case, graph, inputs, fir.ROUNDED)
    by_element = not any(op.name.startswith(("reduce.", "welford", "logsumexp")) for op in graph.ops)
    return [Wanted(x, (x - y).abs_() if x.is_floating_point() else None, by_element)
            for x, y in zip(rounded, exact, strict=True)]


def evaluated(case, graph, inputs, exact):
    """The outputs in float64, formed of as many rows at a time as fit."""
    import torch

    function = case.function(exact)
    first = graph.symbols[0] if graph.symbols else None
    rows = case.sizes.get(first, 1)
    along = [v.shape and v.shape[0] == first for v in graph.inputs]
    largest = max(math.prod(graph.shape(v, case.sizes)) for v in graph.inputs + graph.outputs)
    step = rows
    if any(along) and graph.goes_by_rows():
        step = max(1, rows * REFERENCE_ELEMENTS // max(1, largest)) if largest > REFERENCE_ELEMENTS else rows
    parts = []
    for start in range(0, max(rows, 1), max(step, 1)):
        arguments = [
            (x[start : start + step] if cut else x)
            for x, cut in zip(inputs, along, strict=True)]
        parts.append(function(*[x.double() if x.is_floating_point() else x for x in arguments]))
    if len(parts) == 1:
        return parts[0]
    return [
        torch.cat(found) if value.shape and value.shape[0] == first else torch.stack(found).sum(0)
        for value, *found in zip(graph.outputs, *parts, strict=True)]


def captured(launch, stream):
    """A CUDA graph of one launch on a stream, and what the launch returned."""
    import torch

    with torch.cuda.stream(stream):
        for _ in range(2):
            launch()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            out = launch()
    torch.cuda.synchronize()
    return graph, out


def outputs_of(kernel):
    """Memory for the outputs of a kernel of Sinter."""
    import torch

    return [
        torch.empty(tuple(info.shape[: info.rank]), dtype=want_type(info), device="cuda")
        for info in kernel.outputs]


def launch_of(kernel, inputs, outputs):
    """A function that launches a kernel of Sinter on the current stream and gives its outputs. It
    keeps the workspace, of which CUDA graphs know no more than the address."""
    import torch

    workspace = torch.empty(max(1, kernel.info.workspace_bytes), dtype=torch.uint8, device="cuda")
    execute = kernel.bind(
        [x.data_ptr() for x in inputs], [y.data_ptr() for y in outputs], workspace.data_ptr())

    def launch(keep=workspace):
        execute(torch.cuda.current_stream().cuda_stream)
        return outputs

    return launch


def verified(arm, graph, wanted, stream):
    """A CUDA graph of one launch that computes what it should, and the largest share of its bound
    that an output is off by. Failed: it does not."""
    import torch

    replayed, out = captured(arm.launch, stream)
    for y in out:
        if y is not None:
            poison(y)
    arm.reset()
    replayed.replay()
    torch.cuda.synchronize()
    share = max(
        check(y, want, value.name, arm.roundings)
        for y, want, value in zip(out, wanted, graph.outputs, strict=True) if y is not None)
    return replayed, share


def compiled(case, mode, inputs):
    """The peer in one mode, as a function without parameters, compiled as one region.

    A peer part of which runs op by op is a comparison with something that nobody would run.
    NotCompiled: torch.compile cannot, or was told not to.
    """
    import torch
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    torch._dynamo.config.suppress_errors = False
    options = {} if mode == "default" else {"mode": mode}
    function = torch.compile(case.function(), dynamic=False, fullgraph=True, **options)
    counters.clear()
    try:
        function(*inputs)
    except torch._dynamo.exc.TorchDynamoException as error:
        raise NotCompiled(f"peer not compiled: {first_line(error)}") from error
    reason = why_not_compiled(
        counters["stats"].get("unique_graphs", 0), dict(counters["graph_break"]))
    if reason:
        raise NotCompiled(reason)
    return lambda: function(*inputs)


def first_line(error):
    return next(filter(None, map(str.strip, str(error).splitlines())), type(error).__name__)


def why_not_compiled(regions, breaks):
    """None if torch.compile made one region of a peer. `breaks`: reasons and how often each."""
    if breaks:
        return "peer not compiled: its graph breaks: " + "; ".join(sorted(breaks))
    if regions == 0:
        return "peer not compiled: torch.compile is switched off"
    if regions > 1:
        return f"peer not compiled: it became {regions} regions"
    return None


def ratio_of(us, arm):
    """How many times as fast as the faster mode of the peer an arm is; None unless all of them ran
    compiled, and right."""
    if arm not in us or any(mode not in us for mode in MODES):
        return None
    return min(us[mode] for mode in MODES) / us[arm]


def fastest_schedules(paths):
    """The schedule of every case that was fastest in files of timed ones, and spilled nothing."""
    best = {}
    for path in paths:
        for result in result_files.load(path)["results"]:
            key = (result["kernel"], result["type"], tuple(result["shape"]))
            if len(result["schedules"]) == 1 and not result["spill_bytes"]:
                best[key] = min(best.get(key, (math.inf, "")), (result["us"], result["schedules"][0]))
    return {key: text for key, (_, text) in best.items()}


def prepare_torch():
    import torch

    # Compiled kernels are shared with the processes that compile ahead; what was measured there,
    # beside others, is not.
    import torch._inductor.config as inductor

    inductor.autotune_local_cache = False
    inductor.bundled_autotune_remote_cache = False
    torch.manual_seed(0)
    return torch


def compile_ahead(arguments):
    """Compiles the peers of some cases, in a process of its own, into the caches on disk."""
    torch = prepare_torch()
    for case in arguments:
        graph = case.graph()
        try:
            inputs = [random_tensor(case, graph, value, "cuda") for value in graph.inputs]
            for mode in MODES:
                compiled(case, mode, inputs)()
            torch.cuda.synchronize()
        except Exception as error:  # The process that measures will say it.
            print(f"{case.key}: {error}", file=sys.stderr)
        inputs = None
        torch.cuda.empty_cache()


def bytes_of(case, graph, values):
    """Of tensors that are read or written once."""
    from fir import torch_type

    return sum(math.prod(graph.shape(v, case.sizes)) * torch_type(v.type).itemsize for v in values)


def traffic(case, graph):
    """Bytes that must move: each input read once, each output written once."""
    return bytes_of(case, graph, graph.inputs + graph.outputs)


def spilled(report):
    return sum(kernel["resources"]["spill_store_bytes"] for kernel in report["compiled"])


class Runner:
    def __init__(self, library, schedules=(), cublaslt=False):
        import cold_timing
        from sinter_ctypes import Sinter

        self.torch = prepare_torch()
        self.sinter = Sinter(library)
        self.runtime = self.sinter.handle("runtime_create", None)
        self.timing = cold_timing
        self.flushed = cold_timing.flushed_tensor()
        self.stream = self.torch.cuda.Stream()
        self.kernels = {}
        self.tuned = {}
        self.schedules = fastest_schedules(schedules)
        self.cublaslt = cublaslt

    def version(self):
        return self.sinter.library.sinter_version().decode()

    def prepare(self, cases, threads):
        """Plans and compiles Sinter's kernels of all cases."""
        from sinter_ctypes import Kernel

        def one(case, schedule=None):
            begin = time.monotonic()
            try:
                kernel = Kernel(self.sinter, self.runtime, case.text, case.sizes, schedule=schedule,
                                cublaslt=self.cublaslt)
                return kernel, time.monotonic() - begin
            except Exception as error:
                return error, 0.0

        def both(case):
            kernel, seconds = one(case)
            schedule = self.schedules.get((case.name, case.type, tuple(case.sizes.values())))
            own = isinstance(kernel, Exception) or schedule in (None, schedule_of(kernel))
            return kernel, seconds, None if own else one(case, schedule)[0]

        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            for case, (kernel, seconds, tuned) in zip(cases, pool.map(both, cases), strict=True):
                self.kernels[case.key] = (kernel, seconds)
                if isinstance(tuned, Exception):  # An older version's: the case is measured without.
                    print(f"{case.key}: its fastest schedule is left out: {tuned}", flush=True)
                elif tuned is not None:
                    self.tuned[case.key] = tuned

    def copy_rate(self):
        """Bytes a microsecond of a long device-to-device copy: read and written, from median."""
        torch = self.torch
        count = 2 << 30
        a, b = (torch.empty(count, dtype=torch.uint8, device="cuda") for _ in range(2))
        times = self.samples({"copy": lambda: b.copy_(a)})["copy"]
        return 2 * count / statistics.median(times)

    def samples(self, arms, tensors=()):
        """Microseconds of each arm's samples, which take turns; `tensors` are what arms read."""
        for launch in arms.values():
            for _ in range(WARMUPS):
                launch()
        return self.timing.interleaved_samples(arms, self.flushed, tensors)

    def times(self, builders, graph, inputs, wanted):
        """Samples of the arms that compute what they should, the share of its bound that each is off
        by, and why others were not timed; by name. A builder makes an Arm."""
        arms, results, errors, tensors = {}, {}, {}, list(inputs)
        for name, build in builders.items():
            try:
                arm = build()
                replayed, results[name] = verified(arm, graph, wanted, self.stream)
                # A graph keeps addresses only.
                arms[name] = lambda replayed=replayed, arm=arm: replayed.replay()
                tensors += arm.own
            except Exception as error:
                errors[name] = str(error)[:400]
                self.torch.cuda.synchronize()
        wanted.clear()  # What is timed has the memory to itself.
        return (self.samples(arms, tensors) if arms else {}), results, errors

    def measure(self, case, copy_rate):
        torch = self.torch
        graph = case.graph()
        kernel, seconds = self.kernels[case.key]
        if isinstance(kernel, Exception):
            raise Failed(f"Sinter: {kernel}")
        inputs = [random_tensor(case, graph, value, "cuda") for value in graph.inputs]
        wanted = list(reference(case, graph, inputs))
        # Memory that the reference gave back is taken again below, for use on another stream.
        torch.cuda.synchronize()
        outputs = outputs_of(kernel)
        own = {"sinter": kernel} | ({"tuned": self.tuned[case.key]} if case.key in self.tuned else {})
        builders = {
            name: lambda ours=ours: Arm(launch_of(ours, inputs, outputs)) for name, ours in own.items()}
        builders |= {mode: lambda mode=mode: Arm(compiled(case, mode, inputs)) for mode in MODES}
        times, results, errors = self.times(builders, graph, inputs, wanted)
        if not times:
            raise Failed("; ".join(f"{name}: {text}" for name, text in errors.items()))
        report = kernel.explain()
        row = {
            "kernel": case.name, "type": case.type, "sizes": case.sizes,
            "bytes": traffic(case, graph), "checked": not errors, "error_share": results,
            "us": {name: statistics.median(found) for name, found in times.items()},
            "least_us": {name: min(found) for name, found in times.items()},
            "predicted_us": kernel.info.predicted_us, "prepare_s": seconds,
            "kernels": [
                {"schedule": s["schedule"], "resources": compiled["resources"]}
                for s, compiled in zip(report["kernels"], report["compiled"])],
            "spill_bytes": spilled(report),
        }
        row["floor_us"] = row["bytes"] / copy_rate
        if errors:
            row["errors"] = errors
        if "sinter" in row["us"]:
            row["sol"] = row["floor_us"] / row["us"]["sinter"]
            ratio = ratio_of(row["us"], "sinter")
            if ratio is not None:
                row["ratio"] = ratio
            if ratio is not None and self.schedules:
                row["tuned_ratio"] = ratio_of(row["us"], "tuned" if "tuned" in row["us"] else "sinter")
        if "tuned" in own:
            row["tuned_schedule"] = schedule_of(own["tuned"])
        return row


def schedule_of(kernel):
    """The text of the schedule of a kernel's first segment."""
    return kernel.explain()["kernels"][0]["schedule"]["text"]


def want_type(info):
    from fir import torch_type

    return torch_type(info.type.decode())


def sizes_of(text):
    try:
        return {name: int(size) for name, size in (part.split("=") for part in text.split(","))}
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=SIZE,NAME=SIZE") from None


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*",
                        help="kernels or groups of the suite (kernels, quantisation, wide), or .fir files")
    parser.add_argument("--types", help="bf16,f32; the default is both, and a file's own as written")
    parser.add_argument("--size", action="append", type=sizes_of, default=[],
                        help="sizes of a file's symbols: rows=4096,cols=8192; may be given again")
    parser.add_argument("--peer", default=str(HERE / "suite_peers.py"),
                        help="a Python file with functions named as the graphs")
    parser.add_argument("--library", default=str(ROOT / "build/release/runtime/c_api/libsinter.so"))
    parser.add_argument("--cublaslt", action="store_true",
                        help="offer Sinter the matrix products of cuBLASLt")
    parser.add_argument("--schedules", nargs="*", default=[],
                        help="JSON of sweep_suite.py or tune_suite.py, for the arm `tuned`")
    parser.add_argument("--out", help="JSON file, which is continued where it exists")
    parser.add_argument("--commit", default="unknown", help="what is measured, to be written down")
    parser.add_argument("--budget", type=float, default=math.inf, help="seconds")
    parser.add_argument("--ahead", type=int, default=min(12, os.cpu_count() or 1),
                        help="processes that compile the peers before anything is timed; 0: none")
    return parser.parse_args()


def cases_of(options):
    files = [name for name in options.what if name.endswith(".fir")]
    names = [name for name in options.what if not name.endswith(".fir")]
    types = options.types.split(",") if options.types else []
    cases = []
    if names or not files:
        cases += suite_cases(names, types, options.peer)
    for path in files:
        cases += file_cases(path, types, options.size, options.peer)
    return cases


def compile_peers(cases, processes, work=compile_ahead, seconds=math.inf):
    """Runs `work` on parts of the cases in processes of their own, no longer than so many seconds."""
    small = [case for case in cases if traffic(case, case.graph()) <= WARMED_BYTES]
    if processes == 0 or len(small) < 2:
        return
    workers = [
        multiprocessing.get_context("spawn").Process(target=work, args=(small[i::processes],))
        for i in range(min(processes, len(small)))]
    end = time.monotonic() + seconds
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(max(0.1, end - time.monotonic()) if math.isfinite(seconds) else None)
        if worker.is_alive():  # What it has not compiled, the process that measures will.
            worker.kill()
            worker.join()


def line_of(row):
    sizes = " x ".join(str(size) for size in row["sizes"].values())
    peers = " ".join(f"{row['us'].get(mode, math.nan):9.1f}" for mode in MODES)
    error = "".join(f" {name}: {text}" for name, text in row.get("errors", {}).items())
    ratio = f"{row['ratio']:6.2f}" if "ratio" in row else "  none"
    return (f"{row['kernel']:24} {row['type']:5} {sizes:34} {row['us'].get('sinter', math.nan):9.1f} "
            f"{row['predicted_us']:9.1f} {peers} {ratio} "
            f"{row.get('sol', math.nan):5.2f}{error}")


def main():
    begin = time.monotonic()
    options = arguments()
    out = pathlib.Path(options.out) if options.out else None
    state = {"rows": []}
    if out and out.is_file():
        state = json.loads(out.read_text(encoding="utf-8"))
    done = {(row["kernel"], row["type"], tuple(row["sizes"].values())) for row in state["rows"]}
    cases = [
        case for case in cases_of(options)
        if (case.name, case.type, tuple(case.sizes.values())) not in done]
    compile_peers(cases, options.ahead)
    ahead = time.monotonic() - begin
    runner = Runner(options.library, options.schedules, options.cublaslt)
    runner.prepare(cases, os.cpu_count() or 1)
    torch = runner.torch
    rate = runner.copy_rate()
    state.update({
        "device": torch.cuda.get_device_name(), "torch": torch.__version__,
        "sinter": runner.version(), "commit": options.commit, "date": str(datetime.date.today()),
        "copy_tb_s": rate * 1e-6, "samples": runner.timing.SAMPLES})
    print(f"peers compiled ahead in {ahead:.0f} s, all prepared after {time.monotonic() - begin:.0f} s; "
          f"a copy moves {rate * 1e-6:.2f} TB/s", flush=True)
    print(f"{'kernel':24} {'type':5} {'sizes':34} {'us':>9} {'predicted':>9} {'default':>9} "
          f"{'autotune':>9} {'ratio':>6} {'SOL':>5}")
    status = 0
    for case in cases:
        if time.monotonic() - begin > options.budget:
            print("the budget is spent")
            return 3
        try:
            row = runner.measure(case, rate)
            print(line_of(row), flush=True)
            status |= int("errors" in row)
            state["rows"].append(row)
        except Exception as error:
            print(f"{case.key}: {error}", flush=True)
            status = 1
        torch.cuda.empty_cache()
        if out:
            out.write_text(json.dumps(state, indent=1) + "\n", encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main())
