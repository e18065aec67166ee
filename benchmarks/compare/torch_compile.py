"""Times torch.compile on the work of the canned fusions: same outputs, same precision, same protocol.

usage: torch_compile.py OUT.json fusion:rows:columns ...

Both modes (default, max-autotune-no-cudagraphs) are timed; the better one is the peer. Outputs are checked against float64
before timing. A time is the median of 15 replays of a CUDA graph, each after 256 MiB were written so that L2 is cold.
"""
import json
import statistics
import sys

try:
    import torch
except ImportError:
    print("torch is not installed: no peer to compare with")
    raise SystemExit(0)

MODES = {"default": {}, "max-autotune-no-cudagraphs": {"mode": "max-autotune-no-cudagraphs"}}
# Share of the largest magnitude of an output that bf16 rounding and f32 accumulation may cost here.
TOLERANCE = {torch.bfloat16: 2.0**-7, torch.float32: 1e-4}


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


def check(function, compiled, arguments):
    """Largest error over the outputs of 64 rows, relative to the largest magnitude of each output."""
    actual = compiled(*arguments)
    rows = slice(0, 64)
    wide = [a[rows] if a.dim() == 2 or not a.is_floating_point() else a for a in arguments]
    expected = function(*[a.double() if a.is_floating_point() else a for a in wide])
    for got, want in zip(actual, expected):
        error = (got[rows].double() - want).abs().max().item() / max(want.abs().max().item(), 1e-30)
        if not error <= TOLERANCE[got.dtype]:
            raise RuntimeError(f"an output of torch.compile is off by {error:.2e}")


def replay_us(compiled, arguments, samples=15):
    scratch = torch.empty(256 << 20, dtype=torch.int8, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        for _ in range(3):
            compiled(*arguments)
        stream.synchronize()
        with torch.cuda.graph(graph, stream=stream):
            compiled(*arguments)
    pairs = []
    for _ in range(samples):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        scratch.zero_()
        start.record()
        graph.replay()
        end.record()
        pairs.append((start, end))
    torch.cuda.synchronize()
    return statistics.median(start.elapsed_time(end) for start, end in pairs) * 1e3


def main():
    out, cases = sys.argv[1], sys.argv[2:]
    results = []
    for case in cases:
        fusion, rows, columns = case.split(":")[0], *map(int, case.split(":")[1:])
        torch.manual_seed(0)
        known = inputs_of(fusion, rows, columns)
        if known is None:
            continue
        function, arguments = known
        times = {}
        for mode, options in MODES.items():
            torch._dynamo.reset()
            compiled = torch.compile(function, dynamic=False, **options)
            check(function, compiled, arguments)
            times[mode] = replay_us(compiled, arguments)
        best = min(times, key=times.get)
        results.append({"fusion": fusion, "rows": rows, "cols": columns, "us": times[best], "mode": best, "modes": times})
        print(f"{fusion:15} {rows:6}x{columns:<7} torch.compile {times[best]:8.1f} us ({best})", flush=True)
        del arguments, known
        torch.cuda.empty_cache()
    with open(out, "w") as file:
        json.dump({"torch": torch.__version__, "cuda": torch.version.cuda, "device": torch.cuda.get_device_name(), "results": results}, file, indent=1)


if __name__ == "__main__":
    main()
