"""Times torch.compile on the work of the canned fusions: same outputs, precision and protocol.

Both modes (default, max-autotune-no-cudagraphs) are timed in turns; the better one is the peer.
Outputs are checked against float64 before timing. A time is the median of 15 replays of a CUDA
graph, each after 256 MiB (or four times the L2, if that is more) were written so that L2 is cold.

A case that fails is recorded with its error, and the others are timed all the same. Exit status:
0 every case was timed, or there is no torch or no CUDA device and so no peer; 1 a case failed;
2 a wrong command line.
"""

import argparse
import json
import statistics
import sys
import types

try:
    import torch

    import cold_timing
except ImportError:
    torch = None

MODES = {"default": {}, "max-autotune-no-cudagraphs": {"mode": "max-autotune-no-cudagraphs"}}
WARMUPS = 3
CHECKED_ROWS = 64
GRADIENTS = ("rms_norm_backward", "layer_norm_backward", "dyt_backward", "bias_gradient")
FUSIONS = ("rms_norm", "layer_norm", "softmax", "cross_entropy") + tuple(
    name + suffix for name in GRADIENTS for suffix in ("", "_f32")
)


def rms_norm(x, weight):
    a = x.to(torch.float64 if x.dtype == torch.float64 else torch.float32)
    rstd = torch.rsqrt(a.pow(2).mean(-1, keepdim=True) + 1e-5)
    return ((a * rstd * weight.to(a.dtype)).to(x.dtype),)


def layer_norm(x, weight, bias):
    a = x.to(torch.float64 if x.dtype == torch.float64 else torch.float32)
    mean = a.mean(-1, keepdim=True)
    variance = (a - mean).pow(2).mean(-1, keepdim=True)
    rstd = torch.rsqrt(variance + 1e-5)
    y = (a - mean) * rstd * weight.to(a.dtype) + bias.to(a.dtype)
    return y.to(x.dtype), mean.squeeze(-1), rstd.squeeze(-1)


def softmax(x):
    return (torch.softmax(x, -1),)


def cross_entropy(logits, labels):
    a = logits.to(torch.float64 if logits.dtype == torch.float64 else torch.float32)
    return (torch.logsumexp(a, -1) - a.gather(1, labels[:, None])[:, 0],)


def rms_norm_backward(x, dy, weight, rstd):
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    xhat = x.to(wide) * rstd[:, None]
    g = dy.to(wide) * weight.to(wide)
    dx = (g - xhat * (g * xhat).mean(-1, keepdim=True)) * rstd[:, None]
    return dx.to(x.dtype), (dy.to(wide) * xhat).sum(0).to(weight.dtype)


def layer_norm_backward(x, dy, weight, mean, rstd):
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    xhat = (x.to(wide) - mean[:, None]) * rstd[:, None]
    g = dy.to(wide) * weight.to(wide)
    centred = g - g.mean(-1, keepdim=True) - xhat * (g * xhat).mean(-1, keepdim=True)
    dweight = (dy.to(wide) * xhat).sum(0).to(weight.dtype)
    return (centred * rstd[:, None]).to(x.dtype), dweight, dy.to(wide).sum(0).to(weight.dtype)


def dyt_backward(x, dy, alpha, weight):
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    t = torch.tanh(x.to(wide) * alpha)
    s = dy.to(wide) * weight.to(wide) * (1 - t * t)
    dweight = (dy.to(wide) * t).sum(0).to(weight.dtype)
    dalpha = (s * x.to(wide)).sum()
    return (s * alpha).to(x.dtype), dalpha, dweight, dy.to(wide).sum(0).to(weight.dtype)


def bias_gradient(dy):
    wide = torch.float64 if dy.dtype == torch.float64 else torch.float32
    return (dy.to(wide).sum(0).to(dy.dtype),)


def gradient_inputs(fusion, rows, columns):
    """A gradient's function and its inputs; the statistics are those of x."""
    name = fusion.removesuffix("_f32")
    dtype = torch.float32 if name != fusion else torch.bfloat16
    x, dy = (torch.randn(rows, columns, device="cuda").to(dtype) for _ in range(2))
    weight = torch.randn(columns, device="cuda").to(dtype)
    wide = x.float()
    if name == "bias_gradient":
        return bias_gradient, (dy,)
    if name == "dyt_backward":
        return dyt_backward, (x, dy, torch.tensor(0.7, device="cuda"), weight)
    if name == "rms_norm_backward":
        rstd = torch.rsqrt(wide.pow(2).mean(-1) + 1e-5)
        return rms_norm_backward, (x, dy, weight, rstd)
    rstd = torch.rsqrt(wide.var(-1, correction=0) + 1e-5)
    return layer_norm_backward, (x, dy, weight, wide.mean(-1), rstd)


def inputs_of(fusion, rows, columns):
    def random(*shape):
        return torch.randn(*shape, device="cuda").to(torch.bfloat16)

    if fusion.removesuffix("_f32") in GRADIENTS:
        return gradient_inputs(fusion, rows, columns)
    x = random(rows, columns)
    if fusion == "rms_norm":
        return rms_norm, (x, random(columns))
    if fusion == "layer_norm":
        return layer_norm, (x, random(columns), random(columns))
    if fusion == "softmax":
        return softmax, (x,)
    return cross_entropy, (x, torch.randint(0, columns, (rows,), device="cuda"))


def check_gradient(function, arguments, outputs):
    """Compares whole gradients with float64 by norm: an output is rounded once from f32 sums."""
    expected = function(*[a.double() for a in arguments])
    roundoff = {torch.bfloat16: 2.0**-8, torch.float32: 2.0**-18}
    for got, want in zip(outputs, expected):
        error = (got.double() - want).norm() / want.norm()
        if not bool(error <= roundoff[got.dtype]):  # A NaN is not below the bound.
            raise RuntimeError(f"an output is off by {error.item():.2g} of its norm")


def check(function, arguments, outputs):
    """Compares the first rows with float64; fails where rounding does not explain an error.

    An output is rounded once. Before that, a f32 sum of n terms is off by n * 2^-24 of the terms'
    magnitude at most, in whatever order it is formed (Higham, Accuracy and Stability of Numerical
    Algorithms, section 4.2).
    """
    # Largest error of rounding to a type, relative to the value.
    roundoff = {torch.bfloat16: 2.0**-8, torch.float32: 2.0**-24}
    columns = arguments[0].shape[1]
    rows = slice(0, CHECKED_ROWS)
    # Vectors of floats are weights along the columns; all else has a row axis.
    part = [a[rows] if a.dim() == 2 or not a.is_floating_point() else a for a in arguments]
    expected = function(*[a.double() if a.is_floating_point() else a for a in part])
    for got, want in zip(outputs, expected):
        error = (got[rows].double() - want).abs()
        magnitude = want.abs() + want.abs().mean(-1, keepdim=True)
        allowed = roundoff[got.dtype] * want.abs() + columns * 2.0**-24 * magnitude
        if not bool((error <= allowed).all()):  # A NaN is not below the bound.
            worst = (error / allowed).max().item()
            raise RuntimeError(f"an output is off by {worst:.2g} times what rounding explains")


def capture(function, arguments, options):
    """A checked graph of the compiled function."""
    # What was compiled is kept with the code object: each mode needs one of its own.
    name = f"{function.__name__}_{options.get('mode', 'default').replace('-', '_')}"
    own = types.FunctionType(function.__code__.replace(co_name=name), globals())
    compiled = torch.compile(own, dynamic=False, fullgraph=True, **options)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        for _ in range(WARMUPS):
            compiled(*arguments)
        stream.synchronize()
        with torch.cuda.graph(graph, stream=stream):
            outputs = compiled(*arguments)
    torch.cuda.synchronize()
    for output in outputs:
        output.fill_(float("nan"))
    graph.replay()
    torch.cuda.synchronize()
    is_gradient = function.__name__ in GRADIENTS
    (check_gradient if is_gradient else check)(function, arguments, outputs)
    return graph


def time_interleaved(graphs, arguments):
    """Median microseconds of each graph, which all read the arguments."""
    arms = {name: graph.replay for name, graph in graphs.items()}
    tensors = [x for x in arguments if torch.is_tensor(x)]
    times = cold_timing.interleaved_samples(arms, cold_timing.flushed_tensor(), tensors)
    return {name: statistics.median(taken) for name, taken in times.items()}


def time_case(fusion, rows, columns):
    """Microseconds of each mode."""
    torch.cuda.empty_cache()  # Of the case before.
    torch.manual_seed(0)
    torch._dynamo.reset()
    function, arguments = inputs_of(fusion, rows, columns)
    graphs = {mode: capture(function, arguments, options) for mode, options in MODES.items()}
    return time_interleaved(graphs, arguments)


def time_cases(cases, after_each=lambda rows: None):
    """One row a case: its times, or the error that it stopped with. `after_each` gets all so far."""
    results = []
    for fusion, rows, columns in cases:
        row = {"fusion": fusion, "rows": rows, "cols": columns}
        label = f"{fusion:15} {rows:6}x{columns:<7} torch.compile"
        try:
            times = time_case(fusion, rows, columns)
        except Exception as error:  # Whatever the compiler, the check or the device stops with.
            row["error"] = f"{type(error).__name__}: {error}"
            print(f"{label} failed: {row['error']}", file=sys.stderr, flush=True)
        else:
            best = min(times, key=times.get)
            row.update(us=times[best], mode=best, modes=times)
            print(f"{label} {times[best]:8.1f} us ({best})", flush=True)
        results.append(row)
        after_each(results)
    return results


def parse_case(text):
    fusion, *sizes = text.split(":")
    if fusion not in FUSIONS:
        raise argparse.ArgumentTypeError(f"{text}: the fusions are {', '.join(FUSIONS)}")
    if len(sizes) != 2 or not all(size.isdecimal() and int(size) > 0 for size in sizes):
        raise argparse.ArgumentTypeError(f"{text}: a case is fusion:rows:columns, both at least 1")
    return fusion, int(sizes[0]), int(sizes[1])


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("out", metavar="OUT.json", help="where to write the times")
    parser.add_argument("cases", metavar="fusion:rows:columns", nargs="+", type=parse_case)
    arguments = parser.parse_args(argv)
    if torch is None:
        print("torch is not installed: no peer to compare with")
        return 0
    if not torch.cuda.is_available():
        print("torch finds no CUDA device: no peer to compare with")
        return 0
    run = {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "device": torch.cuda.get_device_name(),
        "results": [],
    }

    # After every case, so that what ends a long run early loses nothing.
    def write(results):
        run["results"] = results
        with open(arguments.out, "w", encoding="utf-8") as file:
            json.dump(run, file, indent=1)
            file.write("\n")

    results = time_cases(arguments.cases, write)
    return 1 if any("error" in row for row in results) else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
