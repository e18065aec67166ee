"""Tests the peers of benchmarks/compare: cells, functions and report. Part of compare_test.py."""

import ast
import contextlib
import importlib.util
import json
import os
import pathlib
import re
import sys
import tempfile
import types
import unittest
import unittest.mock

from compare_support import COMPARE, DEVICE, Silent

import fir
import fir_nvfuser
import peer_report
import peers
import suite
import suite_cases


def small_cell(name):
    """A cell of a family whose extents are a few elements."""
    families = json.loads(peers.TABLE.read_text(encoding="utf-8"))["families"]
    family = next(family for family in families if family["name"] == name)
    return peers.Cell(family, [3 + 2 * i for i in range(len(family["extents"]))])


FAMILIES = list(dict.fromkeys(cell.name for cell in peers.cells_of()))


def peer_row(cell, ratio=1.0, ratio_to_torch=1.0):
    us = {"sinter": 10.0, "default": 20.0 * ratio_to_torch, "eager": 10.0 * ratio,
          "max-autotune-no-cudagraphs": 10.0 * ratio_to_torch}
    return peers.row_of(cell, us, {}, 9.0, 8.0, 0)


class Peers(Silent):
    def test_every_cell_has_a_graph_with_its_type_and_sizes_and_a_function(self):
        tree = ast.parse((COMPARE / "peer_functions.py").read_text(encoding="utf-8"))
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
        functions |= {alias.asname or alias.name for node in imports for alias in node.names}
        cells = peers.cells_of()
        self.assertEqual(len({cell.key for cell in cells}), len(cells))
        for cell in cells:
            with self.subTest(cell=cell.key):
                graph = cell.graph()
                self.assertEqual(sorted(cell.sizes), sorted(graph.symbols))
                self.assertEqual(graph.inputs[0].type, cell.type)
                self.assertLessEqual(set(cell.kinds), {value.name for value in graph.inputs})
                self.assertIn(cell.name, functions)

    def test_calls_are_of_families(self):
        text = (COMPARE / "peer_libraries.py").read_text(encoding="utf-8")
        called = re.findall(r'^@peer\("(\w+)", "(\w+)"\)', text, re.MULTILINE)
        self.assertGreater(len(called), 20)
        self.assertEqual(len(set(called)), len(called))
        for name, family in called:
            self.assertIn(name.split("_")[0], ("eager", *peers.MODULES))
            self.assertIn(family, FAMILIES)

    def test_shards_are_all_cells(self):
        parts = [cell.key for i in range(4) for cell in peers.cells_of(shard=(i, 4))]
        self.assertEqual(sorted(parts), sorted(cell.key for cell in peers.cells_of()))

    def test_cells_are_listed_without_a_gpu(self):
        self.assertEqual(self.call(peers.main, "--list", "--only", "rope"), 0)
        self.assertIn("rope bf16 batch=4 length=4096 heads=32\n1 cells, and 0 measured", self.out)

    def test_wrong_command_lines_are_refused(self):
        self.assertEqual(self.call(peers.main), 2)
        for options in (["--shard", "4/4"], ["--shard", "x"], ["--without", "x"]):
            with self.subTest(options=options):
                self.assertEqual(self.call(peers.main, "--list", *options), 2)
        self.assertIn("no_such", self.call(peers.main, "--list", "--only", "no_such"))

    def test_what_was_measured_otherwise_is_not_continued(self):
        head = {"device": DEVICE, "peers": {"liger": "1"}}
        self.assertIsNone(peers.difference_of({"rows": []}, head))
        self.assertIsNone(peers.difference_of(head | {"rows": []}, head))
        other = head | {"peers": {"liger": "2"}}
        self.assertIn("with peers {'liger': '2'}", peers.difference_of(other, head))

    def test_a_library_that_is_not_there_or_does_not_load_is_absent(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("sinter_fine", ""), ("sinter_deadly", "import os; os.abort()"),
                               ("sinter_broken", "raise ImportError('for want of a nail')")):
                (pathlib.Path(folder) / f"{name}.py").write_text(text, encoding="utf-8")
            with unittest.mock.patch.object(sys, "path", [folder, *sys.path]), \
                    unittest.mock.patch.dict(os.environ, PYTHONPATH=folder), \
                    unittest.mock.patch.object(peers, "MODULES", {
                        "fine": "sinter_fine", "broken": "sinter_broken", "deadly": "sinter_deadly",
                        "missing": "sinter_missing", "unwanted": "sinter_fine"}):
                versions, absent = peers.installed(["unwanted"])
        self.assertEqual(versions, {"fine": "unknown"})
        self.assertEqual(absent["missing"], "not installed")
        self.assertEqual(absent["unwanted"], "left out")
        self.assertIn("for want of a nail", absent["broken"])
        self.assertIn("does not load", absent["deadly"])

    def test_the_fastest_of_those_that_ran_and_were_right_counts(self):
        cell = peers.cells_of(["softmax"])[0]
        us = {"sinter": 10.0, "default": 12.0, "liger": 11.0}
        autotuned = "max-autotune-no-cudagraphs"
        wrong = {autotuned: "peer not compiled: it became 2 regions", "quack": "y: off by inf"}
        row = peers.row_of(cell, us, wrong, 9.0, 8.0, 0)
        self.assertEqual((row["peer"], row["peer_ratio"], row.get("ratio")), ("liger", 1.1, None))
        self.assertIn("quack: y: off by inf", peers.line_of(row))
        us[autotuned] = 10.5
        row = peers.row_of(cell, us, {}, 9.0, 8.0, 0)
        self.assertEqual((row["peer"], row["peer_ratio"], row["ratio"]), (autotuned, 1.05, 1.05))
        del us["sinter"]
        self.assertNotIn("peer", peers.row_of(cell, us, {"sinter": "y: off by 2"}, 9.0, 8.0, 0))
        self.assertEqual(json.loads(peers.text_of({"device": DEVICE, "rows": [row, row]})),
                         {"device": DEVICE, "rows": [row, row]})

    def report(self, rows, *options):
        state = {"device": DEVICE, "commit": "c", "date": "d", "torch": "2", "peers": {"liger": "1"},
                 "absent": {"quack": "not installed"}, "rows": rows}
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "rows.json"
            path.write_text(peers.text_of(state), encoding="utf-8")
            return self.call(peer_report.main, path, *options)

    def test_a_whole_run_without_losses_passes(self):
        self.assertEqual(self.report([peer_row(cell) for cell in peers.cells_of()]), 0, self.err)
        self.assertIn("quack is absent: not installed", self.out)
        self.assertIn("| argmax | 3 | 1.000 | 1.000 | 1.000 | 1.000 |", self.out)
        self.assertIn(f"{len(peers.cells_of())} cells, 0 below 0.95", self.out)

    def test_what_falls_short_is_named(self):
        cells = peers.cells_of(["argmax", "rope", "swiglu"])
        rows = {cell.key: peer_row(cell) for cell in cells}
        swiglu, rope, argmax = (next(cell for cell in cells if cell.name == name)
                                for name in ("swiglu", "rope", "argmax"))
        rows[argmax.key] = peer_row(argmax, ratio_to_torch=0.99)
        rows[rope.key] = peer_row(rope, ratio=0.94)
        rows[swiglu.key] = peers.row_of(
            swiglu, {"eager": 9.0}, {"sinter": "y: off by 2"}, 9.0, 8.0, 0)
        missing = list(rows)[-1]
        del rows[missing]
        only = [word for name in ("argmax", "rope", "swiglu") for word in ("--only", name)]
        self.assertEqual(self.report([*rows.values()], *only), 1)
        for said in ("rope 4 x 4096 x 32: 0.940 beside eager, below 0.95",
                     "rope: geometric mean 0.940, below 0.99",
                     "argmax 65536 x 512: 0.990 beside torch.compile, below 1.0",
                     "swiglu 8192 x 11008: Sinter is not timed: y: off by 2",
                     f"1 cells are not measured: {missing}"):
            self.assertIn(said, self.err)

    def test_graphs_of_norms_and_gates_are_said_in_nvfuser(self):
        self.assertEqual(
            {name for name in FAMILIES if fir_nvfuser.is_translated(small_cell(name).graph())},
            {"rms_norm", "add_rms_norm", "layer_norm", "rms_norm_backward", "layer_norm_backward", "softmax",
             "softmax_backward", "swiglu", "geglu", "group_norm", "batch_norm"})


@unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
class PeersInPyTorch(unittest.TestCase):
    def inputs(self, cell):
        """As of a cell, in float64 on the host."""
        graph = cell.graph()
        random = [suite.random_tensor(cell, graph, value, "cpu") for value in graph.inputs]
        made = getattr(suite_cases.load(cell.peer), cell.name + "_inputs", lambda *tensors: tensors)(*random)
        return [x.double() if x.is_floating_point() else x for x in made]

    def same(self, got, wanted):
        import torch

        for y, want in zip(got, wanted, strict=True):
            torch.testing.assert_close(y.double(), want.double(), rtol=1e-6, atol=1e-9)

    def test_functions_compute_what_their_graphs_say(self):
        for name in FAMILIES:
            with self.subTest(family=name):
                cell = small_cell(name)
                inputs = self.inputs(cell)
                said = fir.function(cell.graph(), cell.sizes, exact=True)
                self.same(cell.function(exact=True)(*inputs), said(*inputs))

    def test_a_peer_overwrites_what_its_graph_overwrites(self):
        cell = small_cell("adam")
        inputs = self.inputs(cell)
        wanted = cell.function(exact=True)(*inputs)
        out = cell.function()(*inputs)
        self.same([inputs[0], *inputs[2:]], wanted)
        self.assertEqual([y.data_ptr() for y in out], [inputs[i].data_ptr() for i in (0, 2, 3)])

    def test_fusions_of_nvfuser_compute_what_their_graphs_say(self):
        import torch

        def definition():
            """Stands for nvFuser's: runs the ops at once, on the inputs in their order."""
            given, out = iter(inputs), []
            ops = types.SimpleNamespace(
                **{name: getattr(torch, name) for name in fir_nvfuser.POINTWISE},
                cast=lambda x, dtype: x.clone(), sum=lambda x, dims: x.sum(dims),
                max=lambda x, dims: x.amax(dims),
                var_mean=lambda x, dims, correction, keepdim: torch.var_mean(
                    x, dims, correction=correction, keepdim=keepdim),
                broadcast_in_dim=lambda x, shape, broadcast_dims: x.reshape(
                    [shape[i] if i in broadcast_dims else 1 for i in range(len(shape))]).expand(shape))

            def tensor(shape, contiguity, dtype):
                x = next(given)
                self.assertEqual(list(x.shape), shape)
                return x

            return contextlib.nullcontext(types.SimpleNamespace(
                ops=ops, define_tensor=tensor, add_output=out.append, execute=lambda _: out,
                define_scalar=lambda x, dtype: torch.tensor(x, dtype=torch.float64)))

        module = types.SimpleNamespace(FusionDefinition=definition, DataType=unittest.mock.Mock())
        for name in FAMILIES:
            cell = small_cell(name)
            if not fir_nvfuser.is_translated(cell.graph()):
                continue
            with self.subTest(family=name), unittest.mock.patch.dict(sys.modules, nvfuser_direct=module):
                inputs = self.inputs(cell)
                run = fir_nvfuser.function(cell.graph(), cell.sizes)
                self.same(run(*inputs), fir.function(cell.graph(), cell.sizes, True)(*inputs))

    def test_an_arm_that_is_wrong_is_named_and_not_timed(self):
        import torch

        graph = fir.parse("fusion @f { %v0 x : f32[4] = input\n%v1 y : f32[4] = neg %v0\n"
                          "%v2 z : f32[4] = abs %v0\nreturn %v1, %v2 }")
        x = torch.ones(4)
        own = torch.ones(4)

        def captured(launch, stream):
            out = launch()
            again = lambda: [y.copy_(z) for y, z in zip(out, launch()) if y is not None]  # noqa: E731
            return types.SimpleNamespace(replay=again), out

        def fails():
            raise RuntimeError("out of luck")

        builders = {
            "right": lambda: suite.Arm(lambda: (-x, None)),
            "restored": lambda: suite.Arm(lambda: (own.neg_(), x.abs()), lambda: own.fill_(1), (own,)),
            "wrong": lambda: suite.Arm(lambda: (x + 0, x.abs())), "broken": fails}
        runner = unittest.mock.Mock(torch=unittest.mock.Mock(), samples=lambda arms, tensors: {
            name: [len(tensors)] for name in arms})
        with unittest.mock.patch.object(suite, "captured", captured), \
                unittest.mock.patch.object(torch.cuda, "synchronize"):
            wanted = [-torch.ones(4).double(), torch.ones(4).double()]
            times, shares, errors = suite.Runner.times(runner, builders, graph, [x], wanted)
        self.assertEqual(times, {"right": [2], "restored": [2]})
        self.assertEqual(shares, {"right": 0.0, "restored": 0.0})
        self.assertRegex(errors["wrong"], "y: off by .* times what rounding explains")
        self.assertEqual(errors["broken"], "out of luck")
