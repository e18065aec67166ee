"""How arms are timed beside each other: each run begins with a cold L2, and arms take turns."""

import torch

SAMPLES = 15
FLUSHED_BYTES = 256 << 20


def flushed_tensor():
    """What is written between runs so that inputs come from memory: 256 MiB, or four times the L2 if
    that is more."""
    l2_bytes = getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 0)
    return torch.empty(max(FLUSHED_BYTES, 4 * l2_bytes), dtype=torch.uint8, device="cuda")


def samples_in_turns(arms, flushed):
    """Microseconds of SAMPLES runs of each arm, a function without parameters. Another one goes first
    each time, so that a clock that drifts favours none."""
    names = list(arms)
    pairs = {name: [] for name in names}
    for turn in range(SAMPLES):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            flushed.zero_()
            start.record()
            arms[name]()
            end.record()
            pairs[name].append((start, end))
    torch.cuda.synchronize()
    return {
        name: [start.elapsed_time(end) * 1e3 for start, end in taken] for name, taken in pairs.items()
    }
