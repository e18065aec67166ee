"""Times matrix products of cuBLAS, through torch.mm, with a cold L2: what the constants of the family
cublaslt (scheduler/families/cublaslt.cpp) were fitted to.

    python3 benchmarks/compare/products.py --out benchmarks/results/h200_DATE_cublas.json

Prints and writes the median of nine times of x w^T for each type and size, in microseconds."""

import argparse
import json
import statistics

import torch

SIZES = [(size, size, size) for size in (128, 256, 512, 1024, 1536, 2048, 3072, 4096)] + [
    (8192, 4096, 4096), (131072, 256, 256), (131072, 512, 512), (131072, 512, 2048),
    (65536, 1024, 1024), (16, 4096, 14336), (1, 4096, 14336), (16, 14336, 4096), (4, 14336, 4096),
    (64, 4096, 14336), (256, 4096, 4096), (512, 4096, 14336), (2048, 512, 2048), (4096, 64, 4096),
    (256, 8192, 256), (512, 65536, 512), (8192, 1024, 1024), (1000, 1000, 1000), (200, 300, 5000),
    (64, 64, 65536), (128, 128, 131072), (384, 16384, 768)]
TYPES = {"bf16": torch.bfloat16, "f32": torch.float32, "tf32": torch.float32, "f64": torch.float64}
# Larger products of the slower types take long and say nothing new.
MOST_OPERATIONS = 3e11
SAMPLES = 9


def median_us(run, flush):
    """Microseconds between two events around `run`, after writes to all of L2."""
    run()
    times = []
    for _ in range(SAMPLES):
        flush.zero_()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        torch.cuda.synchronize()
        times.append(1e3 * begin.elapsed_time(end))
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="file of results")
    arguments = parser.parse_args()
    flush = torch.empty(64 << 20, dtype=torch.int32, device="cuda")
    rows = []
    for name, dtype in TYPES.items():
        torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
        for m, k, n in SIZES:
            if name != "bf16" and 2.0 * m * n * k > MOST_OPERATIONS:
                continue
            x = torch.randn(m, k, device="cuda", dtype=dtype)
            w = torch.randn(n, k, device="cuda", dtype=dtype)
            y = torch.empty(m, n, device="cuda", dtype=dtype)
            us = median_us(lambda: torch.mm(x, w.T, out=y), flush)
            rows.append({"type": name, "M": m, "K": k, "N": n, "us": round(us, 2)})
            print(name, m, k, n, f"{us:.1f}", flush=True)
    with open(arguments.out, "w", encoding="utf-8") as file:
        json.dump({"device": torch.cuda.get_device_name(), "torch": torch.__version__,
                   "cuda": torch.version.cuda, "rows": rows}, file, indent=0)


if __name__ == "__main__":
    main()
