"""How long a card takes for nothing but the bytes of each case of benchmarks/suite.

    traffic_floor.py results/h200_2026-11-24_suite_bf16.json ... --out results/h200_..._floor.json

For every case a kernel reads as many bytes as the case's inputs have and writes as many as its
outputs, and computes nothing: grids that pass and grids that stay, of three sizes of chunks each,
whose reads ask L2 for nothing, to leave it first or to leave it last, in a CUDA graph with a cold
L2, median of 15, as compare/suite.py times its arms. The least of them stands for what the bytes
alone take. It is no bound: a grid that suits a case better may be faster
by some per cent, and Sinter's own kernels are where `of_floor` is above 1.
"""

import argparse
import datetime
import itertools
import json
import pathlib
import statistics
import sys

import result_files

import cold_timing
import torch
import triton
import triton.language as tl
from suite import bytes_of, captured, suite_cases
from suite_report import mean, peer_us

ELEMENT = 8  # Bytes.
CHUNKS = (1024, 2048, 4096)  # Elements of a block's step.
STAYING = 8  # Blocks on each multiprocessor, of grids that stay.
PRIORITIES = ("", "evict_first", "evict_last")  # Of reads.


@triton.jit
def move(source, target, read, written, CHUNK: tl.constexpr, PRIORITY: tl.constexpr):
    lanes = tl.arange(0, CHUNK)
    seen = tl.zeros((CHUNK,), dtype=tl.int64)
    step = tl.num_programs(0).to(tl.int64) * CHUNK
    begin = tl.program_id(0).to(tl.int64) * CHUNK
    end = tl.maximum(read, written)
    while begin < end:
        at = begin + lanes
        seen ^= tl.load(source + at, mask=at < read, other=0, eviction_policy=PRIORITY)
        tl.store(target + at, at, mask=at < written)  # Waits for nothing.
        begin += step
    # Never: but what is read counts as used.
    tl.store(target + lanes, seen, mask=seen == 0x5A5A5A5A12345678)


def moved(case):
    """Bytes read and written."""
    graph = case.graph()
    return bytes_of(case, graph, graph.inputs), bytes_of(case, graph, graph.outputs)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", help="JSON of suite.py")
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    peers = {}
    for path in options.files:
        for row in result_files.load(path)["rows"]:
            key = (row["kernel"], row["type"], tuple(row["sizes"].values()))
            peers[key] = (peer_us(row), row["us"]["sinter"])

    cases = [case for case in suite_cases(["kernels"], ["bf16", "f32"], None)
             if (case.name, case.type, tuple(case.sizes.values())) in peers]
    wanted = {case.key: moved(case) for case in cases}
    most = [max(sizes[i] for sizes in wanted.values()) for i in range(2)]
    values = torch.randint(-2**62, 2**62, (most[0] // ELEMENT + 1,), device="cuda")
    target = torch.empty(most[1] // ELEMENT + 1, dtype=torch.int64, device="cuda")
    flushed = cold_timing.flushed_tensor()
    stream = torch.cuda.Stream()
    sms = torch.cuda.get_device_properties(0).multi_processor_count

    floors = {}
    for read, written in sorted(set(wanted.values())):
        arms = {}
        # Of its own: the priorities that outlive a flush are given up for whole tensors.
        source = values[: read // ELEMENT + 1].clone()
        for chunk, priority in itertools.product(CHUNKS, PRIORITIES):
            longest = max(read, written) // ELEMENT
            for kind, grid in (("passing", -(-longest // chunk)), ("staying", STAYING * sms)):
                run = lambda g=grid, c=chunk, p=priority, s=source: move[(g,)](  # noqa: E731
                    s, target, read // ELEMENT, written // ELEMENT, CHUNK=c, PRIORITY=p, num_warps=8)
                graph, _ = captured(run, stream)
                arms[f"{kind} {chunk * ELEMENT} {priority}".strip()] = graph.replay
        for replay in arms.values():
            replay()
        samples = cold_timing.interleaved_samples(arms, flushed, (source,))
        taken = {arm: statistics.median(own) for arm, own in samples.items()}
        best = min(taken, key=taken.get)
        floors[read, written] = (taken[best], best)

    rows = []
    for case in cases:
        floor, best = floors[wanted[case.key]]
        peer, sinter = peers[case.name, case.type, tuple(case.sizes.values())]
        rows.append({"kernel": case.name, "type": case.type, "sizes": case.sizes,
                     "read": wanted[case.key][0], "written": wanted[case.key][1],
                     "floor_us": floor, "grid": best, "most": peer / floor,
                     "of_floor": floor / sinter})
    for kind in ("bf16", "f32"):
        of_kind = [row for row in rows if row["type"] == kind]
        if of_kind:
            print(f"{kind}: {len(of_kind)} cells; a kernel at the floor would be "
                  f"{mean(r['most'] for r in of_kind):.3f} times as fast as the peer; Sinter is at "
                  f"{mean(r['of_floor'] for r in of_kind):.3f} of it")
            for kernel in dict.fromkeys(row["kernel"] for row in of_kind):
                own = [row for row in of_kind if row["kernel"] == kernel]
                print(f"  {kernel:24} most {mean(r['most'] for r in own):.3f}, "
                      f"at {mean(r['of_floor'] for r in own):.3f} of the floor")
    pathlib.Path(options.out).write_text(json.dumps(
        {"device": torch.cuda.get_device_name(), "date": str(datetime.date.today()),
         "samples": cold_timing.SAMPLES, "rows": rows}, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
