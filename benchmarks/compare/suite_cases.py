"""What is timed: kernels of benchmarks/suite and graphs in files, at their sizes and types."""

import importlib.util
import json
import math
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SUITE = ROOT / "benchmarks" / "suite"


class Case:
    def __init__(self, name, text, type_name, sizes, inputs, peer):
        self.name = name
        self.type = type_name
        self.text = text.replace("bf16", "f32") if type_name == "f32" else text
        self.sizes = sizes
        self.kinds = inputs
        self.peer = peer

    @property
    def key(self):
        sizes = " ".join(f"{name}={size}" for name, size in self.sizes.items())
        return f"{self.name} {self.type} {sizes}"

    def graph(self):
        import fir

        return fir.parse(self.text)

    def ask(self, sinter, command, *arguments):
        """What the tool's command says of the case, as JSON."""
        with tempfile.NamedTemporaryFile("w", suffix=".fir", encoding="utf-8") as file:
            file.write(self.text)
            file.flush()
            sizes = [f"{name}={size}" for name, size in self.sizes.items()]
            done = subprocess.run([sinter, command, file.name, *sizes, *arguments, "--json"],
                                  capture_output=True, text=True, check=False)
        try:
            report = json.loads(done.stdout)
            if "kernels" in report:
                return report
        except json.JSONDecodeError:
            pass
        raise RuntimeError((done.stderr or done.stdout).strip()[-300:])

    def has_own_peer(self):
        """True if the peer is a function of its file, not the graph said in PyTorch."""
        return hasattr(load(self.peer), self.name)

    def function(self, exact=False):
        """The peer, a function of the inputs alone; `exact`: the reference, which is the same in
        float64."""
        import fir

        graph = self.graph()
        rows = math.prod(
            graph.size(extent, self.sizes) for extent in graph.inputs[0].shape[:-1])
        peers = load(self.peer)
        if hasattr(peers, self.name):
            written = getattr(peers, self.name)
            return lambda *inputs: tuple(written(*inputs, rows))
        return fir.function(graph, self.sizes, exact)


def load(path):
    name = "peers_" + pathlib.Path(path).stem
    if name not in sys.modules:  # Where torch.compile looks a function's module up.
        spec = importlib.util.spec_from_file_location(name, path)
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def suite_cases(names, types, peer):
    """Kernels by their names, or by that of their group; by default those of the group `kernels`. The
    group `wide`, which has other sizes of the same kernels, by its name alone."""
    listed = json.loads((SUITE / "suite.json").read_text(encoding="utf-8"))
    groups = {"kernels": types or ["bf16", "f32"], "quantisation": ["bf16"], "wide": types or ["bf16", "f32"]}
    known = set(groups) | {kernel["name"] for group in groups for kernel in listed[group]}
    if set(names) - known:
        raise SystemExit(f"not in {SUITE}: {', '.join(sorted(set(names) - known))}")
    for group, group_types in groups.items():
        for kernel in listed[group]:
            asked = {group} if group == "wide" else {group, kernel["name"]}
            if not asked & set(names or ["kernels"]):
                continue
            text = (SUITE / (kernel["name"] + ".fir")).read_text(encoding="utf-8")
            for type_name in group_types:
                for shape in kernel["shapes"]:
                    sizes = dict(zip(kernel["extents"], shape, strict=True))
                    yield Case(kernel["name"], text, type_name, sizes, kernel.get("inputs", {}), peer)


def file_cases(path, types, sizes, peer):
    text = pathlib.Path(path).read_text(encoding="utf-8")
    name = text.split("@", 1)[1].split()[0]
    # A graph says its types; they are exchanged only where that is asked for.
    for type_name in types or ["as written"]:
        for size in sizes or [{}]:
            yield Case(name, text, type_name, size, {}, peer)
