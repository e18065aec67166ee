"""Times Sinter beside the compilers and libraries that its users would take instead, in one process.

    peers.py --out peers.json                   every cell of cells/peers.json
    peers.py --out peers.json --only softmax    a family, as often as --only is given
    peers.py --out peers.json --shard 0/4       every fourth cell
    peers.py --list                             the cells; needs neither PyTorch nor a GPU

The peers are torch.compile in two modes, PyTorch op by op (eager), Liger Kernel, QuACK and nvFuser.
Each library runs as its users call it (peer_libraries.py) where it can be imported: one that is not
installed, or does not load, is said to be absent, here and in the file. All of them work on the same
tensors, and are held to float64 before they are timed (suite.py says how): what is wrong, or what
torch.compile makes no single region of, is reported, not timed, and in no ratio. Arms take turns,
each sample with a cold L2.

--out is written after every cell. Cells that it has are not measured again, so that a run may be made
of several calls, all with the same sources, libraries and kind of card. peer_report.py makes the
tables. Exit status: 0 all was measured; 1 Sinter failed in a cell, or is wrong; 2 a wrong command
line; 3 the budget was spent before the end.
"""

import argparse
import concurrent.futures
import datetime
import functools
import importlib.metadata
import importlib.util
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import time

import suite
import suite_cases

HERE = pathlib.Path(__file__).resolve().parent
TABLE = HERE / "cells" / "peers.json"
# What is imported for a library.
MODULES = {"liger": "liger_kernel", "quack": "quack", "nvfuser": "nvfuser_direct"}
# Peers that put nothing into caches on disk.
UNCACHED = ("eager", "nvfuser")
# Of what went wrong, as many characters are written down.
REASON_LENGTH = 200


class Cell(suite_cases.Case):
    """A problem of a family. Where the graph overwrites inputs, so does its peer."""

    def __init__(self, family, shape):
        text = (TABLE.parent / family["graph"]).read_text(encoding="utf-8")
        sizes = dict(zip(family["extents"], shape, strict=True))
        super().__init__(family["name"], text, family["type"], sizes, family.get("inputs", {}),
                         str(HERE / "peer_functions.py"))

    def written(self):
        """The place among the inputs of that which each output takes over, or None."""
        graph = self.graph()
        places = {value.id: i for i, value in enumerate(graph.inputs)}
        return [places.get(alias) for alias in graph.aliases]

    def function(self, exact=False):
        function = super().function(exact)
        written = self.written()
        if exact or written == [None] * len(written):
            return function

        def in_place(*inputs):
            out = list(function(*inputs))
            for i, place in enumerate(written):
                if place is not None:
                    out[i] = inputs[place].copy_(out[i])
            return tuple(out)

        return in_place

    def inputs(self):
        """Random ones of the kind that the family is for."""
        graph = self.graph()
        tensors = [suite.random_tensor(self, graph, value, "cuda") for value in graph.inputs]
        made = getattr(suite_cases.load(self.peer), self.name + "_inputs", None)
        return list(made(*tensors)) if made else tensors


def cells_of(only=(), shard=(0, 1)):
    families = json.loads(TABLE.read_text(encoding="utf-8"))["families"]
    known = {family["name"] for family in families}
    if set(only) - known:
        raise SystemExit(f"not in {TABLE}: {', '.join(sorted(set(only) - known))}")
    cells = [Cell(family, shape) for family in families for shape in family["shapes"]
             if not only or family["name"] in only]
    return cells[shard[0] :: shard[1]]


def version_of(module):
    """The version of what is installed, or None and why it cannot be used. It is imported in a process
    of its own, which may die of it."""
    if importlib.util.find_spec(module) is None:
        return None, "not installed"
    done = subprocess.run(
        [sys.executable, "-c", f"import {module}"], capture_output=True, text=True, check=False)
    if done.returncode:
        lines = (done.stderr.strip() or f"status {done.returncode}").splitlines()
        return None, "does not load: " + lines[-1][:REASON_LENGTH]
    names = importlib.metadata.packages_distributions().get(module, [])
    return (importlib.metadata.version(names[0]) if names else "unknown"), None


def installed(left_out):
    """Versions of the libraries that can be used, and why others cannot."""
    versions, absent = {}, {}
    for name in left_out:
        absent[name] = "left out"
    asked = [name for name in MODULES if name not in absent]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        found = pool.map(lambda name: version_of(MODULES[name]), asked)
        for name, (version, reason) in zip(asked, found, strict=True):
            if reason:
                absent[name] = reason
            else:
                versions[name] = version
    return versions, absent


def calls_of(cell, absent):
    """Of the libraries that are there, what makes an arm of the inputs, by name."""
    import peer_libraries

    calls = peer_libraries.calls_of(cell.name, cell.graph(), cell.sizes)
    return {name: call for name, call in calls.items() if name.split("_")[0] not in absent}


def compile_ahead(absent, cells):
    """Compiles the peers of some cells, in a process of its own, into the caches on disk."""
    suite.compile_ahead(cells)
    import torch

    for cell in cells:
        inputs = None
        torch.cuda.empty_cache()
        try:
            inputs = cell.inputs()
            for name, call in calls_of(cell, absent).items():
                if name.split("_")[0] not in UNCACHED:
                    call(*inputs).launch()
                    torch.cuda.synchronize()
        except Exception as error:  # The process that measures will say it.
            print(f"{cell.key}: {error}", file=sys.stderr)


def builders_of(cell, kernel, inputs, absent):
    """What makes the arms, by name."""
    import peer_libraries

    written = cell.written()
    places = [place for place in written if place is not None]

    def sinter():
        own, reset, memory = peer_libraries.apart(inputs, places)
        outputs = [made if place is None else own[place]
                   for made, place in zip(suite.outputs_of(kernel), written, strict=True)]
        return suite.Arm(suite.launch_of(kernel, own, outputs), reset, memory)

    def compiled(mode):
        own, reset, memory = peer_libraries.apart(inputs, places)
        return suite.Arm(suite.compiled(cell, mode, own), reset, memory)

    builders = {"sinter": sinter}
    builders |= {mode: lambda mode=mode: compiled(mode) for mode in suite.MODES}
    builders |= {name: lambda call=call: call(*inputs) for name, call in calls_of(cell, absent).items()}
    return builders


def measure(runner, cell, copy_rate, absent):
    graph = cell.graph()
    kernel, _ = runner.kernels[cell.key]
    if isinstance(kernel, Exception):
        raise suite.Failed(f"Sinter: {kernel}")
    inputs = cell.inputs()
    wanted = list(suite.reference(cell, graph, inputs))
    # Memory that the reference gave back is taken again below, for use on another stream.
    runner.torch.cuda.synchronize()
    times, _, errors = runner.times(builders_of(cell, kernel, inputs, absent), graph, inputs, wanted)
    floor = suite.traffic(cell, graph) / copy_rate
    return row_of(cell, {name: statistics.median(found) for name, found in times.items()},
                  {name: text[:REASON_LENGTH] for name, text in errors.items()},
                  kernel.info.predicted_us, floor, suite.spilled(kernel.explain()))


def row_of(cell, us, errors, predicted, floor, spilled):
    """What is written down of a cell. `ratio` is beside the faster mode of torch.compile, as in
    suite.py; `peer_ratio` beside `peer`, the fastest of all that are right."""
    row = {"kernel": cell.name, "type": cell.type, "sizes": cell.sizes,
           "us": {name: round(one, 2) for name, one in us.items()}, "predicted_us": round(predicted, 1),
           "floor_us": round(floor, 1), "spill_bytes": spilled}
    if errors:
        row["errors"] = errors
    peers = {name: one for name, one in us.items() if name != "sinter"}
    if "sinter" in us and peers:
        row["peer"] = min(peers, key=peers.get)
        row["peer_ratio"] = round(peers[row["peer"]] / us["sinter"], 4)
        ratio = suite.ratio_of(us, "sinter")
        if ratio is not None:
            row["ratio"] = round(ratio, 4)
    return row


def line_of(row):
    sizes = " x ".join(str(size) for size in row["sizes"].values())
    best = f"{row['peer_ratio']:6.3f} {row['peer']}" if "peer" in row else "  none"
    times = " ".join(f"{name} {us:.1f}" for name, us in row["us"].items())
    return (f"{row['kernel']:20} {sizes:20} {best:30} {times}"
            + "".join(f"\n    {name}: {text}" for name, text in row.get("errors", {}).items()))


def text_of(state):
    """The state as JSON, with a line for each row."""
    head = json.dumps({name: value for name, value in state.items() if name != "rows"}, indent=1)
    rows = ",\n".join("  " + json.dumps(row) for row in state["rows"])
    return head[:-2] + f',\n "rows": [\n{rows}\n ]\n}}\n'


def difference_of(state, head):
    """Why a state is not to be continued with what `head` says of this run, or None."""
    for name, value in head.items():
        if state.get(name, value) != value:
            return f"was measured with {name} {state[name]}, not {value}"
    return None


def shard_of(text):
    try:
        index, count = map(int, text.split("/"))
    except ValueError:
        index, count = 0, 0
    if not 0 <= index < count:
        raise argparse.ArgumentTypeError(f"'{text}' is not INDEX/COUNT with an index below the count")
    return index, count


def arguments(argv):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", help="JSON file, which is continued where it exists")
    parser.add_argument("--list", action="store_true", help="print what would be timed, and end")
    parser.add_argument("--only", action="append", default=[], metavar="FAMILY")
    parser.add_argument("--shard", type=shard_of, default=(0, 1), metavar="INDEX/COUNT",
                        help="of COUNT parts of the cells, that one")
    parser.add_argument("--without", action="append", default=[], choices=[*MODULES],
                        help="a library to leave out")
    parser.add_argument("--library", default=str(suite_cases.ROOT / "build/release/runtime/c_api/libsinter.so"))
    parser.add_argument("--commit", default="unknown", help="what is measured, to be written down")
    parser.add_argument("--budget", type=float, default=math.inf, help="seconds")
    parser.add_argument("--ahead", type=int, default=min(12, os.cpu_count() or 1),
                        help="processes that compile the peers before anything is timed; 0: none")
    options = parser.parse_args(argv)
    if not options.list and not options.out:
        parser.error("--out or --list is needed")
    return parser, options


def main(argv):
    begin = time.monotonic()
    parser, options = arguments(argv)
    out = pathlib.Path(options.out) if options.out else None
    state = json.loads(out.read_text(encoding="utf-8")) if out and out.is_file() else {"rows": []}
    done = {(row["kernel"], tuple(row["sizes"].values())) for row in state["rows"]}
    cells = [cell for cell in cells_of(options.only, options.shard)
             if (cell.name, tuple(cell.sizes.values())) not in done]
    if options.list:
        for cell in cells:
            print(cell.key)
        print(f"{len(cells)} cells, and {len(done)} measured")
        return 0
    if not cells:
        print("all cells are measured")
        return 0
    import torch

    versions, absent = installed(options.without)
    head = {"device": torch.cuda.get_device_name(), "commit": options.commit,
            "torch": torch.__version__, "peers": versions, "absent": absent}
    difference = difference_of(state, head)
    if difference:
        parser.error(f"{out} {difference}")
    for name, reason in absent.items():
        print(f"{name} is absent: {reason}", flush=True)
    # Half of the time is for what is compiled in any case, and for timing it.
    suite.compile_peers(cells, options.ahead, functools.partial(compile_ahead, absent), options.budget / 2)
    ahead = time.monotonic() - begin
    runner = suite.Runner(options.library)
    runner.prepare(cells, os.cpu_count() or 1)
    rate = runner.copy_rate()
    state = head | {"sinter": runner.version(), "date": str(datetime.date.today()),
                    "samples": runner.timing.SAMPLES, "copy_tb_s": round(rate * 1e-6, 3),
                    "rows": state["rows"]}
    print(f"peers compiled ahead in {ahead:.0f} s, all prepared after {time.monotonic() - begin:.0f} s; "
          f"a copy moves {rate * 1e-6:.2f} TB/s", flush=True)
    status = 0
    for cell in cells:
        if time.monotonic() - begin > options.budget:
            print("the budget is spent")
            return 3
        try:
            row = measure(runner, cell, rate, absent)
            state["rows"].append(row)
            print(line_of(row), flush=True)
            status |= int("sinter" not in row["us"])
        except Exception as error:
            print(f"{cell.key}: {error}", flush=True)
            status = 1
        torch.cuda.empty_cache()
        out.write_text(text_of(state), encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
