#!/usr/bin/env python3
"""Times torch.compile on the work of GPU suite cases, on the current device.

Each case does what the canned fusion of the same name does: same inputs, same outputs, same types.
Its results are checked against float64 first. Then every mode is timed with a cold L2, both as a
replay of a CUDA graph and as a plain call, in turns; the best of them counts.
"""

import argparse
import json
import statistics
import sys
import types

try:
    import torch
except ImportError:
    torch = None

EPSILON = 1e-5
MODES = ("default", "max-autotune-no-cudagraphs")
COLD_BYTES = 256 << 20
WARMUPS = 3
SAMPLES = 15
CHECKED_ROWS = 256  # Rows are independent of each other, and float64 takes room.
BF16_ROUNDOFF = 2.0**-8
F32_ROUNDOFF = 2.0**-24


def rms_norm(x, weight):
    wide = x.float()
    rstd = torch.rsqrt((wide * wide).mean(-1, keepdim=True) + EPSILON)
    return ((wide * rstd * weight.float()).to(x.dtype),)


def rms_norm_f64(x, weight):
    return (x * torch.rsqrt((x * x).mean(-1, keepdim=True) + EPSILON) * weight,)


def layer_norm(x, weight, bias):
    wide = x.float()
    mean = wide.mean(-1, keepdim=True)
    rstd = torch.rsqrt((wide - mean).square().mean(-1, keepdim=True) + EPSILON)
    y = (wide - mean) * rstd * weight.float() + bias.float()
    return y.to(x.dtype), mean[:, 0], rstd[:, 0]


def layer_norm_f64(x, weight, bias):
    mean = x.mean(-1, keepdim=True)
    rstd = torch.rsqrt((x - mean).square().mean(-1, keepdim=True) + EPSILON)
    return (x - mean) * rstd * weight + bias, mean[:, 0], rstd[:, 0]


def softmax(x):
    return (torch.softmax(x, -1),)


def cross_entropy(logits, labels):
    wide = logits.float()
    return (torch.logsumexp(wide, -1) - wide.gather(1, labels[:, None])[:, 0],)


def cross_entropy_f64(logits, labels):
    return (torch.logsumexp(logits, -1) - logits.gather(1, labels[:, None])[:, 0],)


def matrix(rows, cols):
    return torch.randn(rows, cols, device="cuda", dtype=torch.bfloat16)


def along_columns(rows, cols):
    return torch.randn(cols, device="cuda", dtype=torch.bfloat16)


def class_labels(rows, cols):
    return torch.randint(0, cols, (rows,), device="cuda", dtype=torch.int64)


# What is compiled, the same in float64, and how the inputs are made.
WORK = {
    "rms_norm": (rms_norm, rms_norm_f64, (matrix, along_columns)),
    "layer_norm": (layer_norm, layer_norm_f64, (matrix, along_columns, along_columns)),
    "softmax": (softmax, softmax, (matrix,)),
    "cross_entropy": (cross_entropy, cross_entropy_f64, (matrix, class_labels)),
}


def check(reference, makers, inputs, outputs):
    """Compares some rows with float64; raises ValueError where rounding does not explain the error.

    One rounding to bf16 is off by 2^-8 of the value at most. A f32 sum of n terms, in whatever order,
    is off by n * 2^-24 of the terms' magnitude (Higham, Accuracy and Stability of Numerical
    Algorithms, section 4.2).
    """
    rows, cols = inputs[0].shape
    picked = torch.linspace(0, rows - 1, min(CHECKED_ROWS, rows), device="cuda").long()
    arguments = []
    for maker, tensor in zip(makers, inputs):
        part = tensor if maker is along_columns else tensor[picked]
        arguments.append(part.double() if part.is_floating_point() else part)
    for index, (output, expected) in enumerate(zip(outputs, reference(*arguments), strict=True)):
        error = (output[picked].double() - expected).abs()
        rounding = BF16_ROUNDOFF if output.dtype == torch.bfloat16 else F32_ROUNDOFF
        magnitude = expected.abs() + expected.abs().mean(-1, keepdim=True)
        allowed = rounding * expected.abs() + cols * F32_ROUNDOFF * magnitude
        # A NaN is no error below the bound, so it fails too.
        if not bool((error <= allowed).all()):
            worst = (error / allowed).max().item()
            raise ValueError(f"output {index} is off by {worst:.3g} times what rounding explains")


class Arm:
    """A mode of torch.compile on one case, with a graph of it."""

    def __init__(self, name, mode, inputs):
        function, reference, makers = WORK[name]
        # A code object of its own: torch keeps what it compiled with the code object.
        code = function.__code__.replace(co_name=f"{name}_{mode.replace('-', '_')}")
        own = types.FunctionType(code, globals())
        compiled = torch.compile(
            own, fullgraph=True, dynamic=False, mode=None if mode == "default" else mode
        )
        check(reference, makers, inputs, compiled(*inputs))

        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARMUPS):
                compiled(*inputs)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            outputs = compiled(*inputs)
        for output in outputs:
            output.fill_(-1)
        graph.replay()
        check(reference, makers, inputs, outputs)
        self.ways = {
            f"{mode}, graph": graph.replay,
            f"{mode}, call": lambda: compiled(*inputs),
        }


def time_cold(launch, scratch, byte):
    """Events around one launch that follows a write longer than the host takes to launch."""
    start = torch.cuda.Event(enable_timing=True)
    end = torch.cuda.Event(enable_timing=True)
    scratch.fill_(byte)
    start.record()
    launch()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) * 1000.0


def time_case(case):
    name, rows, cols = case.split(":")
    torch.manual_seed(1)
    inputs = [make(int(rows), int(cols)) for make in WORK[name][2]]
    arms = [Arm(name, mode, inputs) for mode in MODES]
    ways = [way for arm in arms for way in arm.ways.items()]
    scratch = torch.empty(COLD_BYTES, device="cuda", dtype=torch.uint8)
    samples = {label: [] for label, _ in ways}
    for turn in range(WARMUPS + SAMPLES):
        first = turn % len(ways)
        for label, launch in ways[first:] + ways[:first]:
            us = time_cold(launch, scratch, turn)
            if turn >= WARMUPS:
                samples[label].append(us)
    medians = {label: statistics.median(values) for label, values in samples.items()}
    best = min(medians, key=medians.get)
    return {"case": case, "us": medians[best], "way": best, "medians_us": medians}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="+", help="fusion:rows:columns ...")
    parser.add_argument("--json", help="write results here")
    options = parser.parse_args()
    if torch is None or not torch.cuda.is_available():
        missing = "this python3 has no torch" if torch is None else "torch finds no CUDA device"
        print(f"torch.compile is left out: {missing}")
        return 0

    results = []
    failed = False
    for case in options.cases:
        if case.split(":")[0] not in WORK:
            print(f"{case}: torch.compile has no such case")
            continue
        try:
            row = time_case(case)
        except Exception as error:  # One case that fails must not cost the others.
            print(f"{case}: torch.compile failed: {error}", file=sys.stderr)
            failed = True
            continue
        results.append(row)
        print(f"{case:28} torch.compile {row['us']:9.1f} us ({row['way']})", flush=True)
        torch.cuda.empty_cache()
    if options.json:
        import triton

        out = {
            "device": torch.cuda.get_device_name(),
            "torch": torch.__version__,
            "triton": triton.__version__,
            "cuda": torch.version.cuda,
            "results": results,
        }
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(out, file, indent=1)
            file.write("\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
