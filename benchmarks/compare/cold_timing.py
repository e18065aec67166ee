"""How arms are timed beside each other: each run begins with a cold L2, and arms take turns."""

import torch
import triton
import triton.language as tl

SAMPLES = 15
FLUSHED_BYTES = 256 << 20
# What L2 holds its priorities for.
LINE_BYTES = tl.constexpr(128)
LINES_PER_BLOCK = 1024


@triton.jit
def demote(first, lines, block: tl.constexpr):
    """Gives up what was asked of L2 for some lines: to keep them longest (evict_last)."""
    line = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    address = first + tl.minimum(line, lines - 1) * LINE_BYTES
    tl.inline_asm_elementwise(
        "applypriority.global.L2::evict_normal [$1], 128; mov.u32 $0, 0;", "=r,l", [address],
        dtype=tl.int32, is_pure=False, pack=1)


def flushed_tensor():
    """What is written between runs so that inputs come from memory: 256 MiB, or four times the L2 if
    that is more."""
    l2_bytes = getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 0)
    return torch.empty(max(FLUSHED_BYTES, 4 * l2_bytes), dtype=torch.uint8, device="cuda")


def flush_of(flushed, tensors):
    """A CUDA graph that empties L2 of what kernels left there of some tensors. Lines that reads asked
    it to keep longest outlive 256 MiB of writes and more: after such a kernel all arms would find
    some of their inputs there (a softmax of 8192 x 896 takes 12 us then, and 14 without). A graph,
    because the host must stay ahead of the device."""

    def flush():
        for x in tensors:
            storage = x.untyped_storage()
            lines = storage.nbytes() // LINE_BYTES.value
            if lines:
                first = torch.empty(0, dtype=torch.uint8, device=x.device).set_(storage)
                demote[(triton.cdiv(lines, LINES_PER_BLOCK),)](first, lines, block=LINES_PER_BLOCK)
        flushed.zero_()

    flush()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        flush()
    return graph


def interleaved_samples(arms, flushed, tensors=()):
    """Microseconds of SAMPLES runs of each arm, a function without parameters; `tensors` are what
    arms read. Another one goes first each time, so that a clock that drifts favours none."""
    names = list(arms)
    pairs = {name: [] for name in names}
    flush = flush_of(flushed, tensors)
    for turn in range(SAMPLES):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            flush.replay()
            start.record()
            arms[name]()
            end.record()
            pairs[name].append((start, end))
    torch.cuda.synchronize()
    return {
        name: [start.elapsed_time(end) * 1e3 for start, end in taken] for name, taken in pairs.items()
    }
