"""Times torch.compile on the work of the canned fusions: same outputs, precision and protocol.

usage: torch_compile.py OUT.json fusion:rows:columns ...

Both modes (default, max-autotune-no-cudagraphs) are timed in turns; the better one is the peer.
Outputs are checked against float64 before timing. A time is the median of 15 replays of a CUDA
graph, each after 256 MiB were written so that L2 is cold.
"""

import json
import statistics
import sys
import types

try:
    import torch
except ImportError:
    print("torch is not installed: no peer to compare with")
    raise SystemExit(0)

MODES = {"default": {}, "max-autotune-no-cudagraphs": {"mode": "max-autotune-no-cudagraphs"}}
WARMUPS = 3
SAMPLES = 15
CHECKED_ROWS = 64
# Largest error of rounding to a type, relative to the value.
ROUNDOFF = {torch.bfloat16: 2.0**-8, torch.float32: 2.0**-24}


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


def inputs_of(fusion, rows, columns):
    def random(*shape):
        return torch.randn(*shape, device="cuda").to(torch.bfloat16)

    x = random(rows, columns)
    if fusion == "rms_norm":
        return rms_norm, (x, random(columns))
    if fusion == "layer_norm":
        return layer_norm, (x, random(columns), random(columns))
    if fusion == "softmax":
        return softmax, (x,)
    if fusion == "cross_entropy":
        return cross_entropy, (x, torch.randint(0, columns, (rows,), device="cuda"))
    return None


def check(function, arguments, outputs):
    """Compares the first rows with float64; fails where rounding does not explain an error.

    An output is rounded once. Before that, a f32 sum of n terms is off by n * 2^-24 of the terms'
    magnitude at most, in whatever order it is formed (Higham, Accuracy and Stability of Numerical
    Algorithms, section 4.2).
    """
    columns = arguments[0].shape[1]
    rows = slice(0, CHECKED_ROWS)
    # Vectors of floats are weights along the columns; all else has a row axis.
    part = [a[rows] if a.dim() == 2 or not a.is_floating_point() else a for a in arguments]
    expected = function(*[a.double() if a.is_floating_point() else a for a in part])
    for got, want in zip(outputs, expected):
        error = (got[rows].double() - want).abs()
        magnitude = want.abs() + want.abs().mean(-1, keepdim=True)
        allowed = ROUNDOFF[got.dtype] * want.abs() + columns * 2.0**-24 * magnitude
        if not bool((error <= allowed).all()):  # A NaN is not below the bound.
            worst = (error / allowed).max().item()
            raise RuntimeError(f"an output is off by {worst:.2g} times what rounding explains")


def capture(function, arguments, options):
    """A checked graph of the compiled function."""
    # What was compiled is kept with the code object: each mode needs one of its own.
    name = f"{function.__name__}_{options.get('mode', 'default').replace('-', '_')}"
    own = types.FunctionType(function.__code__.replace(co_name=name), globals())
    compiled = torch.compile(own, dynamic=False, **options)
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
    check(function, arguments, outputs)
    return graph


def time_in_turns(graphs):
    """Median microseconds of each graph. Another one goes first each time, so that a clock that
    drifts favours none."""
    scratch = torch.empty(256 << 20, dtype=torch.int8, device="cuda")
    names = list(graphs)
    pairs = {name: [] for name in names}
    for turn in range(SAMPLES):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            scratch.zero_()
            start.record()
            graphs[name].replay()
            end.record()
            pairs[name].append((start, end))
    torch.cuda.synchronize()
    return {
        name: statistics.median(start.elapsed_time(end) for start, end in taken) * 1e3
        for name, taken in pairs.items()
    }


def main():
    if not torch.cuda.is_available():
        print("torch finds no CUDA device: no peer to compare with")
        return
    out, cases = sys.argv[1], sys.argv[2:]
    results = []
    for case in cases:
        fusion, rows, columns = case.split(":")[0], *map(int, case.split(":")[1:])
        torch.manual_seed(0)
        known = inputs_of(fusion, rows, columns)
        if known is None:
            continue
        function, arguments = known
        torch._dynamo.reset()
        graphs = {mode: capture(function, arguments, options) for mode, options in MODES.items()}
        times = time_in_turns(graphs)
        best = min(times, key=times.get)
        row = {"fusion": fusion, "rows": rows, "cols": columns}
        results.append({**row, "us": times[best], "mode": best, "modes": times})
        size = f"{rows:6}x{columns:<7}"
        print(f"{fusion:15} {size} torch.compile {times[best]:8.1f} us ({best})", flush=True)
        del arguments, known, graphs
        torch.cuda.empty_cache()
    run = {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "device": torch.cuda.get_device_name(),
        "results": results,
    }
    with open(out, "w", encoding="utf-8") as file:
        json.dump(run, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
