"""Tests what benchmarks/compare does with arguments, failures and missing parts, without a GPU.

usage: compare_test.py COMPARE_DIR [unittest options]
"""

import contextlib
import functools
import importlib.util
import io
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

sys.dont_write_bytecode = True

# It makes the modules under test importable.
from compare_support import COMPARE, DEVICE, Silent  # noqa: E402, I001
from compare_peers import Peers, PeersInPyTorch  # noqa: E402, F401 (run with the tests here)

import fir  # noqa: E402
import limits  # noqa: E402
import peers  # noqa: E402
import report  # noqa: E402
import suite  # noqa: E402
import suite_report  # noqa: E402
import torch_compile  # noqa: E402


def sinter_row(fusion, checked=True):
    return {"fusion": fusion, "rows": 8, "cols": 16, "rank": 0, "checked": checked, "us": 2.0,
            "floor_us": 1.0, "sol": 0.5, "predicted": {"total_us": 2.5}}


def torch_row(fusion, **extra):
    return {"fusion": fusion, "rows": 8, "cols": 16, **extra}


class TorchCompile(Silent):
    def test_wrong_command_lines_are_refused(self):
        for cases in ([], ["softmax"], ["softmax:8"], ["softmax:8:x"], ["softmax:0:8"],
                      ["softmax:8:-8"], ["softmax:8:8:8"], ["no_such:8:8"]):
            with self.subTest(cases=cases):
                self.assertEqual(self.call(torch_compile.main, "unwritten.json", *cases), 2)
                self.assertIn("usage:", self.err)

    def test_a_failing_case_is_recorded_and_the_others_are_timed(self):
        def time_case(fusion, rows, columns):
            if fusion == "softmax":
                raise RuntimeError("out of luck")
            return {"default": 3.0, "max-autotune-no-cudagraphs": 2.0}

        cases = [(fusion, 8, 16) for fusion in ("rms_norm", "softmax", "layer_norm")]
        real, torch_compile.time_case = torch_compile.time_case, time_case
        try:
            with contextlib.redirect_stdout(io.StringIO()), \
                    contextlib.redirect_stderr(io.StringIO()):
                rows = torch_compile.time_cases(cases)
        finally:
            torch_compile.time_case = real
        self.assertEqual([row.get("us") for row in rows], [2.0, None, 2.0])
        self.assertEqual(rows[1]["error"], "RuntimeError: out of luck")
        self.assertEqual(rows[0]["mode"], "max-autotune-no-cudagraphs")


class Report(Silent):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.work = pathlib.Path(scratch.name)

    def write(self, name, content):
        (self.work / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")

    def write_sinter(self, *rows):
        self.write("sinter", {"device": DEVICE, "copy_tb_per_s": 4.0, "results": rows})

    def write_torch(self, *rows, device=DEVICE):
        self.write("torch", {"torch": "2", "cuda": "13", "device": device, "results": rows})

    def report(self, *options):
        return self.call(report.main, self.work, self.work / "out", "--date", "2026-01-31", *options)

    def written(self):
        return json.loads((self.work / "out" / "test_gpu_1_2026-01-31.json").read_text("utf-8"))

    def test_wrong_command_lines_are_refused(self):
        self.write_sinter(sinter_row("softmax"))
        for options in (["--run", "driver"], ["--run", "=1"], ["--cases", "softmax"],
                        ["--cases", "softmax:a:8"], ["--no-such-option"]):
            with self.subTest(options=options):
                self.assertEqual(self.report(*options), 2)
        self.assertEqual(self.call(report.main), 2)
        self.assertFalse((self.work / "out").exists())

    def test_nothing_measured_is_an_error(self):
        self.assertEqual(self.report(), 2)
        self.assertIn("sinter.json is missing", self.err)

    def test_a_run_without_peer_is_whole(self):
        self.write_sinter(sinter_row("softmax"))
        self.assertEqual(self.report("--run", "driver=1=2", "--cases", "softmax:8:16"), 0)
        self.assertEqual(self.written()["run"]["driver"], "1=2")
        self.assertNotIn("ratio", self.written()["results"][0])

    def test_peers_are_compared(self):
        self.write_sinter(sinter_row("softmax"), sinter_row("rms_norm"))
        self.write_torch(torch_row("rms_norm", us=8.0, mode="default"),
                         torch_row("softmax", us=2.0, mode="default"))
        self.assertEqual(self.report(), 0)
        self.assertEqual([row["ratio"] for row in self.written()["results"]], [1.0, 4.0])
        self.assertIn("geometric mean of 2 ratios: 2.00", self.out)

    def test_a_failed_peer_is_named_and_the_rest_compared(self):
        self.write_sinter(sinter_row("softmax"), sinter_row("rms_norm"))
        self.write_torch(torch_row("rms_norm", us=8.0, mode="default"),
                         torch_row("softmax", error="RuntimeError: out of luck"))
        self.assertEqual(self.report(), 1)
        self.assertIn("softmax 8 x 16: no peer, RuntimeError: out of luck", self.err)
        first, second = self.written()["results"]
        self.assertEqual(first["torch_error"], "RuntimeError: out of luck")
        self.assertEqual(second["ratio"], 4.0)

    def test_wrong_values_missing_cases_and_another_device_are_named(self):
        self.write_sinter(sinter_row("softmax", checked=False))
        self.write_torch(torch_row("softmax", us=1.0, mode="default"), device="NVIDIA Other")
        self.assertEqual(self.report("--cases", "softmax:8:16", "rms_norm:8:16"), 1)
        self.assertIn("softmax 8 x 16: wrong values", self.err)
        self.assertIn("rms_norm 8 x 16: not measured", self.err)
        self.assertIn("another device: NVIDIA Other", self.err)
        self.assertNotIn("ratio", self.written()["results"][0])

    def test_a_failed_host_benchmark_is_shown(self):
        self.write_sinter(sinter_row("softmax"))
        self.write("host", {"benchmarks": [
            {"name": "plan", "run_type": "iteration", "cpu_time": 1.5, "time_unit": "us"},
            {"name": "nvrtc", "run_type": "iteration", "error_occurred": True,
             "error_message": "no NVRTC"}]})
        self.assertEqual(self.report(), 0)
        self.assertIn("| plan | 1.5 us |", self.out)
        self.assertIn("| nvrtc | failed: no NVRTC |", self.out)


class SuiteReport(Silent):
    def row(self, kernel, kind, ratio, spilled=0):
        us = 10.0
        return {"kernel": kernel, "type": kind, "sizes": {"rows": 8, "cols": 16}, "bytes": 2e8,
                "checked": True, "us": {"sinter": us, "default": 2 * ratio * us,
                                        "max-autotune-no-cudagraphs": ratio * us},
                "predicted_us": us, "floor_us": 9.0, "sol": 0.9, "ratio": ratio,
                "spill_bytes": spilled}

    def written(self, rows):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder)
            (path / "rows.json").write_text(json.dumps({"rows": rows}), encoding="utf-8")
            status = self.call(suite_report.main, path / "rows.json", "--charts", path / "charts")
            return status, {chart.name: chart.read_text(encoding="utf-8")
                            for chart in (path / "charts").iterdir()}

    def test_the_overview_has_a_bar_for_every_kernel_and_type(self):
        status, charts = self.written([self.row("sum", "bf16", 2.0), self.row("sum", "bf16", 0.98),
                                       self.row("sum", "f32", 1.25), self.row("jsd", "bf16", 3.0)])
        self.assertEqual(status, 0)
        self.assertEqual(set(charts), {"suite.svg", "sum.svg", "jsd.svg"})
        for said in ("sum", "jsd", "bf16", "f32", ">1.40<", ">1.25<", ">3.00<"):
            self.assertIn(said, charts["suite.svg"])
        # Bars, and the squares of the legend, before a white ground.
        self.assertEqual(charts["suite.svg"].count("<rect"), 3 + 2 + 1)

    def test_a_cell_that_is_slower_is_an_error(self):
        self.assertEqual(self.written([self.row("sum", "bf16", 0.9)])[0], 1)
        self.assertEqual(self.written([self.row("sum", "bf16", 0.9), self.row("sum", "bf16", 0.9)])[0], 1)

    def test_what_measuring_first_gains_is_said(self):
        rows = [self.row("sum", "bf16", 1.0), self.row("sum", "bf16", 1.0)]
        rows[0]["tuned_ratio"] = 1.21
        rows[1]["tuned_ratio"] = 0.64  # Slower in this run, so none that a tuner would take.
        rows[0]["us"]["tuned"], rows[1]["us"]["tuned"] = 10.0 / 1.21, 10.0 / 0.64
        self.assertEqual(self.written(rows)[0], 0)
        self.assertIn("bf16, tuned: geometric mean 1.10, 0 below 0.97; the planner's choices take 10.0 % longer, "
                      "21.0 % at most; 2 cells have another schedule that was once the fastest, "
                      "which takes 13.6 % longer", self.out)


# A graph for every op that fir.py knows, with inputs and what must come out of them, in full.
INF, NAN = float("inf"), float("nan")
I64_LEAST, I32_MOST = -(2**63), 2**31 - 1
GRAPHS = {
    "extent and welford": (
        """fusion @f extents(rows, cols) {
          %v0 x : f32[rows, cols] = input
          %v1, %v2 : f32[rows], f32[rows] = welford %v0 over(1)
          %v3 : i64 = extent(rows, cols)
          %v4 : f32 = cast %v3
          %v5 : f32[rows] = broadcast %v4 axes()
          %v6 : f32[rows] = mul %v2, %v5
          return %v1, %v6
        }""", {"rows": 2, "cols": 2}, [[[1.0, 3.0], [5.0, 5.0]]], [[2.0, 5.0], [8.0, 0.0]]),
    "contractions": (
        """fusion @f extents(rows, cols) {
          %v0 x : f32[rows, 3] = input
          %v1 w : f32[3, cols] = input
          %v2 i : i8[rows, 3] = input
          %v3 : f32[rows, cols] = contract.sum %v0, %v1 left(0, 2) right(2, 1) over(2)
          %v4 : f32[cols, rows] = contract.max %v0, %v1 left(1, 2) right(2, 0) over(2)
          %v5 : f32[rows, cols] = contract.logsumexp %v0, %v1 left(0, 2) right(2, 1) over(2)
          %v6 : i32[rows] = contract.sum %v2, %v2 left(0, 1) right(0, 1) over(1)
          %v7 : f32[rows, cols] = contract.sum %v0, %v1 left(0, 2) right(2, 1) over(2) precision(tf32x3)
          return %v3, %v4, %v5, %v6, %v7
        }""", {"rows": 2, "cols": 2},
        [[[1.0, 2.0, 3.0], [-INF, -INF, -INF]], [[1.0, 2.0], [0.0, 2.0], [1.0, 2.0]], [[100, 100, 100], [1, 2, 3]]],
        [[[4.0, 12.0], [NAN, -INF]], [[4.0, -INF], [5.0, -INF]], [[4.23954477, 5.40760596], [-INF, -INF]],
         [30000, 14], [[4.0, 12.0], [NAN, -INF]]]),
    "no pairs": (
        """fusion @f extents(rows) {
          %v0 x : bf16[rows, 0] = input
          %v1 : f32[rows] = contract.max %v0, %v0 left(0, 1) right(0, 1) over(1)
          %v2 : f32[rows] = contract.logsumexp %v0, %v0 left(0, 1) right(0, 1) over(1)
          %v3 : f32[rows] = contract.sum %v0, %v0 left(0, 1) right(0, 1) over(1)
          return %v1, %v2, %v3
        }""", {"rows": 2}, [[[], []]], [[-INF, -INF], [-INF, -INF], [0.0, 0.0]]),
    "take and iota": (
        """fusion @f extents(rows, cols) {
          %v0 x : f32[rows, cols] = input
          %v1 labels : i64[rows] = input
          %v2 : f32[rows] = take %v0, %v1 axis(1)
          %v3 : i64[rows] = iota axis(0)
          return %v2, %v3
        }""", {"rows": 3, "cols": 2}, [[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [1, -1, 2]],
        [[2.0, 0.0, 0.0], [0, 1, 2]]),
    "integers": (
        """fusion @f extents(n) {
          %v0 a : i64[n] = input
          %v1 b : i64[n] = input
          %v2 : i64[n] = div %v0, %v1
          %v3 : i64[n] = rem %v0, %v1
          %v4 : u8[n] = cast %v0
          %v5 : i32[n] = cast %v0
          return %v2, %v3, %v4, %v5
        }""", {"n": 4}, [[-7, 7, I64_LEAST, 300], [2, 0, -1, 7]],
        [[-3, 0, I64_LEAST, 42], [-1, 0, 0, 6], [0, 7, 0, 255], [-7, 7, -(2**31), 300]]),
    "casts of floats": (
        """fusion @f extents(n) {
          %v0 x : f32[n] = input
          %v1 : i32[n] = cast %v0
          %v2 : i8[n] = cast %v0
          %v3 : f8e4m3[n] = cast %v0
          %v4 : f32[n] = cast %v3
          %v5 : bool[n] = cast %v0
          return %v1, %v2, %v4, %v5
        }""", {"n": 4}, [[NAN, INF, -1000.0, -2.75]],
        [[0, I32_MOST, -1000, -2], [0, 127, -128, -2], [NAN, 448.0, -448.0, -2.75], [True] * 4]),
    "extremes": (
        """fusion @f extents(rows, cols) {
          %v0 x : f32[rows, cols] = input
          %v1 : i64[rows] = reduce.argmax %v0 over(1)
          %v2 : f32[rows] = reduce.max %v0 over(1)
          %v3, %v4 : f32[rows], f32[rows] = logsumexp %v0 over(1)
          %v5 : f32[rows] = min %v2, %v3
          %v6 : f32[rows] = reduce.prod %v0 over(1)
          return %v1, %v2, %v4, %v5, %v6
        }""", {"rows": 2, "cols": 3}, [[[1.0, 2.0, 2.0], [1.0, NAN, 3.0]]],
        [[1, 1], [2.0, NAN], [2.3678794, NAN], [2.0, NAN], [4.0, NAN]]),
    "no columns": (
        """fusion @f extents(rows, cols) {
          %v0 x : f32[rows, cols] = input
          %v1 : f32[rows] = reduce.max %v0 over(1)
          %v2 : f32[rows] = reduce.prod %v0 over(1)
          %v3, %v4 : f32[rows], f32[rows] = welford %v0 over(1)
          return %v1, %v2, %v3
        }""", {"rows": 1, "cols": 0}, [[[]]], [[-INF], [1.0], [0.0]]),
    "moves": (
        """fusion @f {
          %v0 x : f32[2, 3] = input
          %v1 : f32[3, 2] = permute %v0 order(1, 0)
          %v2 : f32[6] = reshape %v1
          %v3 : f32[2, 2] = slice %v0 start(0, 0) stop(-1, 3) step(1, 2)
          %v4 : f32[2, 5] = concatenate %v0, %v3 axis(1)
          %v5 : f32[3, 3] = pad %v0 low(1, 0) high(0, 0) value 0x1p+1
          return %v2, %v4, %v5
        }""", {}, [[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]],
        [[1.0, 4.0, 2.0, 5.0, 3.0, 6.0], [[1.0, 2.0, 3.0, 1.0, 3.0], [4.0, 5.0, 6.0, 4.0, 6.0]],
         [[2.0, 2.0, 2.0], [1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]]),
    # The numbers of tests/fusion_ir/philox_test.cpp's function, from the paper's test vectors.
    "random": (
        """fusion @f extents(n) {
          %v0 seed : i64[n] = input
          %v1 index : i64[n] = input
          %v2 : f32[n] = philox_uniform %v0, %v1
          return %v2
        }""", {"n": 2}, [[0, 0], [0, 1]],
        [[(0x6627E8D5 >> 8) * 2.0**-24, (0xE169C58D >> 8) * 2.0**-24]]),
    "columns first": (
        """fusion @f extents(rows, cols) {
          %v0 x : f32[rows, cols] = input
          %v1 y : f32[rows, cols] = neg %v0
          return %v1 strides(1, rows)
        }""", {"rows": 2, "cols": 3}, [[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]],
        [[[-1.0, -2.0, -3.0], [-4.0, -5.0, -6.0]]]),
}


class PeerOfGraph(unittest.TestCase):
    def test_what_a_graph_makes_itself_is_where_its_inputs_are(self):
        text, sizes, _, _ = GRAPHS["extent and welford"]
        source = fir.source(fir.parse(text), sizes)
        self.assertIn("torch.full((), 4, dtype=torch.int64, device=device)", source)
        self.assertIn(".var([1], correction=0) * 2", source)

    def test_an_output_that_is_an_input_is_written(self):
        graph = fir.parse("fusion @f { %v0 x : f32[2, 3] = input\n"
                          "%v1 : f32[3, 2] = permute %v0 order(1, 0)\nreturn %v1 }")
        self.assertIn("v1.clone(", fir.source(graph, {}))

    def test_an_output_is_laid_out_as_the_graph_says(self):
        graph = fir.parse("fusion @f extents(n) { %v0 x : f32[n, 3] = input\n"
                          "%v1 : f32[n, 3] = neg %v0\n%v2 : bf16[n] = cast %v0\n"
                          "return %v1 strides(1, n) align(4) alias(%v0), %v2 }")
        self.assertEqual([value.id for value in graph.outputs], ["%v1", "%v2"])
        self.assertEqual(graph.aliases, ["%v0", None])
        source = fir.source(graph, {"n": 8})
        self.assertIn("torch.empty_strided((8, 3), (1, 8), dtype=torch.float32, device=device).copy_(v1)", source)
        self.assertIn("v2.contiguous()", source)

    def test_names_may_be_any_text(self):
        graph = fir.parse('fusion @"my; fusion {" {\n  %v0 "x: = %v7, \\"y\\"" : f32[4] = input\n'
                          '  %v1 "return" : f32[4] = neg %v0  ; "a comment\n  return %v1\n}')
        self.assertEqual(graph.name, "my; fusion {")
        self.assertEqual(graph.inputs[0].name, 'x: = %v7, \\"y\\"')
        self.assertEqual((graph.ops[1].operands, graph.outputs[0].name), (["%v0"], "return"))
        compile(fir.source(graph, {}), "peer", "exec")

    def test_an_op_without_translation_is_named_before_anything_runs(self):
        for op, named in (('external "matmul" %v0', 'external "matmul'), ("reduce.median %v0 over(0)", "reduce.median"),
                          ("sort %v0", "sort")):
            with self.subTest(op=op):
                graph = fir.parse(f"fusion @f {{ %v0 x : f32[4] = input\n%v1 : f32[4] = {op}\nreturn %v1 }}")
                with self.assertRaisesRegex(fir.Untranslated, "%v1: '" + named):
                    fir.source(graph, {})

    def test_every_pointwise_function_and_reduction_has_a_translation(self):
        table = (COMPARE.parents[1] / "fusion_ir" / "op_list.def").read_text(encoding="utf-8")
        functions = re.findall(r'^SINTER_POINTWISE\(\w+, "(\w+)", (\d)', table, re.MULTILINE)
        reductions = re.findall(r'^SINTER_REDUCE\(\w+, "(\w+)"', table, re.MULTILINE)
        self.assertGreater(len(functions), 40)
        for name, arity in functions:
            operands = ", ".join(["%v0"] * int(arity))
            fir.source(fir.parse(f"fusion @f {{ %v0 x : f32[4] = input\n%v1 : f32[4] = {name} {operands}\n"
                                 "return %v1 }"), {})
        for name in reductions:
            fir.source(fir.parse("fusion @f { %v0 x : f32[4] = input\n"
                                 f"%v1 : f32 = reduce.{name} %v0 over(0)\nreturn %v1 }}"), {})

    def test_a_contraction_has_the_type_that_its_readers_round_to(self):
        text = ("fusion @f {{ %v0 x : bf16[2, 4] = input\n%v1 w : bf16[4, 8] = input\n"
                "%v2 : f32[2, 8] = contract.sum %v0, %v1 left(0, 2) right(2, 1) over(2)\n"
                "%v3 : bf16[2, 8] = cast %v2\nreturn %v3{} }}")
        self.assertIn("torch.einsum('ac,cb->ab', v0, v1)", fir.source(fir.parse(text.format("")), {}))
        self.assertIn("v0.to(torch.float32), v1.to(torch.float32)", fir.source(fir.parse(text.format(", %v2")), {}))

    def test_weights_are_known_by_the_products_that_an_element_sums(self):
        graph = fir.parse("fusion @f extents(K) { %v0 x : bf16[2, 3, K] = input\n%v1 w : bf16[3, K, 8] = input\n"
                          "%v2 y : f32[2, 8] = contract.sum %v0, %v1 left(0, 2, 3) right(2, 3, 1) over(2, 3)\n"
                          "return %v2 }")
        self.assertEqual([graph.products_of(value, {"K": 5}) for value in graph.inputs], [1, 15])

    def test_chunks_of_rows_are_taken_where_rows_stand_alone(self):
        self.assertTrue(fir.parse(GRAPHS["contractions"][0].replace("[cols, rows]", "[rows, cols]").replace(
            "left(1, 2) right(2, 0)", "left(0, 2) right(2, 1)")).goes_by_rows())
        self.assertFalse(fir.parse(GRAPHS["contractions"][0]).goes_by_rows())
        self.assertTrue(fir.parse(GRAPHS["extremes"][0]).goes_by_rows())
        self.assertFalse(fir.parse(GRAPHS["take and iota"][0]).goes_by_rows())
        self.assertFalse(fir.parse(GRAPHS["moves"][0]).goes_by_rows())


@unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
class PeerInPyTorch(unittest.TestCase):
    def tensors(self, graph, sizes, inputs):
        import torch

        return [torch.tensor(x, dtype=fir.torch_type(value.type)).reshape(graph.shape(value, sizes))
                for x, value in zip(inputs, graph.inputs, strict=True)]

    def same(self, got, wanted):
        import torch

        for y, want in zip(got, wanted, strict=True):
            want = torch.tensor(want, dtype=torch.float64)
            torch.testing.assert_close(y.double(), want, rtol=1e-6, atol=0, equal_nan=True)

    def test_values_are_those_of_the_semantics(self):
        for name, (text, sizes, inputs, wanted) in GRAPHS.items():
            graph = fir.parse(text)
            for exact in (False, True):
                if exact and name == "casts of floats":
                    continue  # An exact cast to f8 rounds nothing.
                with self.subTest(graph=name, exact=exact):
                    run = fir.function(graph, sizes, exact)
                    self.same(run(*self.tensors(graph, sizes, inputs)), wanted)

    def test_every_graph_is_one_region(self):
        import torch

        for name, (text, sizes, inputs, wanted) in GRAPHS.items():
            with self.subTest(graph=name):
                torch._dynamo.reset()
                graph = fir.parse(text)
                run = torch.compile(fir.function(graph, sizes), dynamic=False, fullgraph=True, backend="eager")
                self.same(run(*self.tensors(graph, sizes, inputs)), wanted)

    def case_of(self, function):
        return unittest.mock.Mock(function=lambda: function)

    def compiled(self, function):
        import torch

        x = torch.ones(4)
        with unittest.mock.patch.object(torch, "compile", functools.partial(torch.compile, backend="eager")):
            return suite.compiled(self.case_of(function), "default", [x])

    def test_a_peer_that_breaks_its_graph_is_refused(self):
        import torch

        def broken(x):
            y = x + 1
            torch._dynamo.graph_break()
            return y * 2

        with self.assertRaisesRegex(suite.NotCompiled, "peer not compiled"):
            self.compiled(broken)
        self.compiled(lambda x: x + 1)

    def test_a_compiler_that_is_switched_off_is_noticed(self):
        import torch

        with unittest.mock.patch.object(torch, "compile", lambda function, **_: function):
            with self.assertRaisesRegex(suite.NotCompiled, "switched off"):
                suite.compiled(self.case_of(lambda x: x + 1), "default", [torch.ones(4)])


class Ratio(unittest.TestCase):
    def test_there_is_none_unless_the_peer_ran_in_all_modes(self):
        us = {"sinter": 2.0, "default": 8.0, "max-autotune-no-cudagraphs": 6.0}
        self.assertEqual(suite.ratio_of(us, "sinter"), 3.0)
        for missing in us:
            self.assertIsNone(suite.ratio_of({arm: us[arm] for arm in us if arm != missing}, "sinter"))

    def test_a_line_without_ratio_says_why(self):
        why = suite.why_not_compiled(1, {"call to print": 1})
        self.assertEqual(why, "peer not compiled: its graph breaks: call to print")
        self.assertIsNone(suite.why_not_compiled(1, {}))
        self.assertIn("2 regions", suite.why_not_compiled(2, {}))
        self.assertIn("switched off", suite.why_not_compiled(0, {}))
        line = suite.line_of({"kernel": "f", "type": "f32", "sizes": {}, "us": {"sinter": 2.0, "default": 8.0},
                              "predicted_us": 2.0, "errors": {"default": why}})
        self.assertIn(" none ", line)
        self.assertIn("default: peer not compiled", line)


class Limits(Silent):
    def test_the_least_of_all_that_ran_counts(self):
        row = SuiteReport.row(self, "sum", "bf16", 0.9)
        key = {"kernel": "sum", "type": "bf16"}
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder)
            for name, content in (
                    ("rows", {"rows": [row, row | {"sizes": {"rows": 9, "cols": 16}}]}),
                    ("floor", {"rows": [key | {"sizes": row["sizes"], "floor_us": 8.0}]}),
                    ("timed", {"results": [key | {"shape": [8, 16], "us": us, "spill_bytes": spilled,
                                                  "schedules": [f"schedule {us}"]}
                                           for us, spilled in ((9.0, 0), (9.5, 0), (7.0, 4))]})):
                (path / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
            self.assertEqual(self.call(limits.main, path / "rows.json", "--floor", path / "floor.json",
                                       "--timed", path / "timed.json"), 0)
            self.assertIn("| sum | bf16 | 0.900 | 1.286 | 1.125 | 1.286 |", self.out)
            self.assertIn("sum bf16 8 x 16: 0.900", self.out)
            self.assertIn("left out: sum bf16 9 x 16", self.err)  # Has no floor.
            self.assertEqual(suite.fastest_schedules([path / "timed.json"]),
                             {("sum", "bf16", (8, 16)): "schedule 9.0"})


class Run(unittest.TestCase):
    def run_script(self, *arguments, script="run.sh"):
        return subprocess.run([COMPARE / script, *arguments], capture_output=True, text=True,
                              check=False)

    def test_wrong_command_lines_are_refused(self):
        for arguments in ([], ["--help"], ["a", "b", "c"]):
            with self.subTest(arguments=arguments):
                result = self.run_script(*arguments)
                self.assertEqual(result.returncode, 2)
                self.assertIn("usage:", result.stderr)

    def test_programs_that_are_not_built_are_named_before_anything_is_made(self):
        with tempfile.TemporaryDirectory() as scratch:
            out = pathlib.Path(scratch) / "out"
            result = self.run_script(out, scratch)
            self.assertEqual(result.returncode, 1)
            self.assertIn("sinter_gpu_suite is not built", result.stderr)
            self.assertFalse(out.exists())
            result = self.run_script(out, pathlib.Path(scratch) / "libsinter.so", script="peers.sh")
            self.assertEqual(result.returncode, 1)
            self.assertIn("libsinter.so is not built", result.stderr)
            self.assertFalse(out.exists())

    def test_wrong_command_lines_of_peers_are_refused(self):
        for arguments in ([], ["--help"], ["out.json", "--budget"]):
            with self.subTest(arguments=arguments):
                result = self.run_script(*arguments, script="peers.sh")
                self.assertEqual(result.returncode, 2)
                self.assertIn("usage:", result.stderr)


if __name__ == "__main__":
    unittest.main()
