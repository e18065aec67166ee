"""Tables, a bar chart of all kernels and one per kernel of what compare/suite.py measured.

    suite_report.py results/h200_2026-11-23_suite.json --charts charts/

A ratio is the time of the faster mode of torch.compile over Sinter's; SOL is the bytes that must
move, at the rate of a long copy in the same run, over Sinter's time. Exit status: 0, or 1 where a
case is wrong, failed, or is no faster than --least.
"""

import argparse
import math
import pathlib
import sys
from xml.sax.saxutils import escape

import result_files

MODES = ("default", "max-autotune-no-cudagraphs")

# Geometric means that Helion publishes over torch.compile in its default mode, for the same sizes,
# on an H100 (pytorch/helion pull request 2828, July 2026): bf16, f32.
HELION = {
    "rms_norm": (1.036, 1.014), "layer_norm": (1.041, 1.017), "softmax": (1.352, 1.158),
    "sum": (1.049, 0.995), "long_sum": (0.925, 0.926), "cross_entropy": (1.143, 0.826),
    "kl_div": (1.088, 1.086), "jsd": (0.802, 1.037), "fused_add_rmsnorm": (0.993, 1.012),
    "fused_add_layernorm": (1.085, 0.986), "gated_rmsnorm": (1.015, 1.000),
    "scaled_masked_softmax": (1.110, 1.003), "cross_entropy_ls_zloss": (1.014, 1.075),
    "dynamic_quant": (1.131, 1.058), "grpo": (1.253, 1.023), "fused_linear_jsd": (0.835, 1.141),
}
LARGE_BYTES = 100e6  # Cases of whose SOL the mean is said.

BAR = 16  # Pixels.
GAP = 5
LEFT = 250
WIDTH = 560
KINDS = {"bf16": "#2f6f4f", "f32": "#8fb9a3"}
COLOURS = {"sinter": "#2f6f4f", "torch": "#b0b7bf"}


def mean(values):
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def peer_us(row):
    return min((row["us"][mode] for mode in MODES if mode in row["us"]), default=math.nan)


def size_of(row):
    sizes = [size for name, size in row["sizes"].items() if name != "batch_stride"]
    return " x ".join(str(size) for size in sizes)


def head(height, title):
    """How a chart begins: its size, a white ground and its title."""
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 130}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{LEFT}" y="20" font-size="15" font-weight="bold">{escape(title)}</text>',
    ]


def chart(kernel, rows):
    """Bars of SOL, Sinter's above its peer's, a pair for every size and type."""
    height = 70 + len(rows) * (2 * BAR + 3 * GAP)
    top = max([1.0] + [row["sol"] for row in rows])
    scale = WIDTH / (math.ceil(top * 10) / 10)
    out = head(height, f"{kernel}: share of the copy floor") + [
        f'<rect x="{LEFT}" y="30" width="12" height="12" fill="{COLOURS["sinter"]}"/>'
        f'<text x="{LEFT + 18}" y="41">Sinter</text>'
        f'<rect x="{LEFT + 80}" y="30" width="12" height="12" fill="{COLOURS["torch"]}"/>'
        f'<text x="{LEFT + 98}" y="41">torch.compile, the faster of two modes</text>',
    ]
    floor = LEFT + scale
    out.append(f'<line x1="{floor:.1f}" y1="50" x2="{floor:.1f}" y2="{height - 10}" stroke="#888" '
               'stroke-dasharray="3 3"/>')
    y = 56
    for row in rows:
        peer = row["floor_us"] / peer_us(row)
        out.append(f'<text x="{LEFT - 8}" y="{y + BAR + 4}" text-anchor="end">{escape(size_of(row))} '
                   f'{row["type"]}</text>')
        for share, who, note in ((row["sol"], "sinter", f'{row["us"]["sinter"]:.1f} us, {row["ratio"]:.2f}x'),
                                 (peer, "torch", f"{peer_us(row):.1f} us")):
            out.append(f'<rect x="{LEFT}" y="{y}" width="{share * scale:.1f}" height="{BAR}" '
                       f'fill="{COLOURS[who]}"/>'
                       f'<text x="{LEFT + share * scale + 5:.1f}" y="{y + 12}">{note}</text>')
            y += BAR + GAP
        y += GAP
    return "\n".join(out + ["</svg>", ""])


def overview(rows):
    """A bar for every kernel and type: how many times as fast as its peer, in the geometric mean,
    with a mark at its least cell."""
    kernels = list(dict.fromkeys(row["kernel"] for row in rows))
    kinds = [kind for kind in KINDS if any(row["type"] == kind for row in rows)]
    ratios = {(kernel, kind): [row["ratio"] for row in rows
                               if row["kernel"] == kernel and row["type"] == kind]
              for kernel in kernels for kind in kinds}
    height = 90 + len(kernels) * (len(kinds) * (BAR + 2) + 2 * GAP)
    top = max(mean(values) for values in ratios.values() if values)
    scale = WIDTH / (math.ceil(top * 2) / 2)
    out = head(height, "Times as fast as torch.compile, the faster of two modes")
    for i, kind in enumerate(kinds):
        out.append(f'<rect x="{LEFT + 80 * i}" y="30" width="12" height="12" fill="{KINDS[kind]}"/>'
                   f'<text x="{LEFT + 80 * i + 18}" y="41">{kind}</text>')
    out.append(f'<text x="{LEFT + 80 * len(kinds)}" y="41">geometric mean over all sizes; '
               "the mark is the least of them</text>")
    out.append(f'<line x1="{LEFT + scale:.1f}" y1="50" x2="{LEFT + scale:.1f}" y2="{height - 10}" '
               'stroke="#444" stroke-dasharray="3 3"/>')
    y = 56
    for kernel in kernels:
        middle = y + len(kinds) * (BAR + 2) / 2 + 3
        out.append(f'<text x="{LEFT - 8}" y="{middle:.1f}" text-anchor="end">{escape(kernel)}</text>')
        for kind in kinds:
            values = ratios[kernel, kind]
            if values:
                long, least = mean(values) * scale, LEFT + min(values) * scale
                out.append(f'<rect x="{LEFT}" y="{y}" width="{long:.1f}" height="{BAR}" '
                           f'fill="{KINDS[kind]}"/><line x1="{least:.1f}" y1="{y}" x2="{least:.1f}" '
                           f'y2="{y + BAR}" stroke="black" stroke-width="2"/>'
                           f'<text x="{LEFT + long + 5:.1f}" y="{y + 12}">{mean(values):.2f}</text>')
            y += BAR + 2
        y += 2 * GAP
    return "\n".join(out + ["</svg>", ""])


def table(rows):
    kernels = list(dict.fromkeys(row["kernel"] for row in rows))
    print("| kernel | bf16 | least | Helion | f32 | least | Helion | SOL of 100 MB and more |")
    print("| --- " * 8 + "|")
    for kernel in kernels:
        cells = []
        for i, kind in enumerate(("bf16", "f32")):
            ratios = [row["ratio"] for row in rows if row["kernel"] == kernel and row["type"] == kind]
            published = HELION.get(kernel)
            cells += [f"{mean(ratios):.2f}" if ratios else "-", f"{min(ratios):.2f}" if ratios else "-",
                      f"{published[i]:.2f}" if published else "-"]
        sol = [row["sol"] for row in rows if row["kernel"] == kernel and row["bytes"] >= LARGE_BYTES]
        print(f"| {kernel} | " + " | ".join(cells) + f" | {mean(sol):.2f} |" if sol
              else f"| {kernel} | " + " | ".join(cells) + " | - |")


def summary(rows, least):
    for kind in ("bf16", "f32"):
        of_kind = [row for row in rows if row["type"] == kind]
        if not of_kind:
            continue
        sol = [row["sol"] for row in of_kind if row["bytes"] >= LARGE_BYTES]
        error = mean(math.exp(abs(math.log(row["predicted_us"] / row["us"]["sinter"]))) for row in of_kind)
        print(f"\n{kind}: {len(of_kind)} cells, geometric mean {mean(row['ratio'] for row in of_kind):.2f}; "
              f"SOL of {len(sol)} with 100 MB and more {mean(sol):.3f}, least {min(sol, default=math.nan):.2f}; "
              f"predictions off by {100 * (error - 1):.1f} % in the mean")
        tuned = [row for row in of_kind if "tuned_ratio" in row]
        if tuned:
            # A tuner keeps the planner's choice where another is slower in this run.
            behind = [max(1.0, row["tuned_ratio"] / row["ratio"]) for row in tuned]
            others = [row for row in tuned if "tuned" in row["us"]]
            ratios = [row["ratio"] * by for row, by in zip(tuned, behind, strict=True)]
            print(f"{kind}, tuned: geometric mean {mean(ratios):.2f}, {sum(r < least for r in ratios)} below {least}; "
                  f"the planner's choices take {100 * (mean(behind) - 1):.1f} % longer, "
                  f"{100 * (max(behind) - 1):.1f} % at most; {len(others)} cells have another schedule "
                  f"that was once the fastest, which takes {100 * (1 / mean_of_gains(others) - 1):.1f} % longer")
    below = sorted(((row["ratio"], row) for row in rows if row["ratio"] < least), key=lambda pair: pair[0])
    for ratio, row in below:
        print(f"below {least}: {row['kernel']} {row['type']} {size_of(row)}: {ratio:.3f}, "
              f"{row['us']['sinter']:.1f} us, predicted {row['predicted_us']:.1f}")
    spilled = [row for row in rows if row.get("spill_bytes")]
    for row in spilled:
        print(f"spills {row['spill_bytes']} B: {row['kernel']} {row['type']} {size_of(row)}")
    return bool(below)


def mean_of_gains(rows):
    """How many times as fast the tuned arm is in the mean, be it slower in this run."""
    return mean(row["tuned_ratio"] / row["ratio"] for row in rows) if rows else 1.0


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", help="JSON of suite.py; of one run each")
    parser.add_argument("--charts", help="folder for an SVG of all kernels and one of each")
    parser.add_argument("--least", type=float, default=0.97, help="ratio below which a case is named")
    options = parser.parse_args(arguments)
    rows = [row for path in options.files
            for row in result_files.load(path)["rows"]]
    failed = [row for row in rows if "ratio" not in row or not row["checked"]]
    for row in failed:
        print(f"failed: {row['kernel']} {row['type']} {size_of(row)}: {row.get('errors')}")
    rows = [row for row in rows if row not in failed]
    table(rows)
    slow = summary(rows, options.least)
    if options.charts:
        folder = pathlib.Path(options.charts)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "suite.svg").write_text(overview(rows), encoding="utf-8")
        for kernel in dict.fromkeys(row["kernel"] for row in rows):
            of_kernel = [row for row in rows if row["kernel"] == kernel]
            (folder / f"{kernel}.svg").write_text(chart(kernel, of_kernel), encoding="utf-8")
    return 1 if failed or slow else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
