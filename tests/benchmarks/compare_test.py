"""Tests what benchmarks/compare does with arguments, failures and missing parts, without a GPU.

usage: compare_test.py COMPARE_DIR [unittest options]
"""

import contextlib
import importlib
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

COMPARE = pathlib.Path(sys.argv.pop(1)).resolve()
sys.dont_write_bytecode = True
sys.path.insert(0, str(COMPARE))

import limits  # noqa: E402
import report  # noqa: E402
import suite  # noqa: E402
import suite_report  # noqa: E402
import torch_compile  # noqa: E402

DEVICE = "NVIDIA Test/GPU 1"


def sinter_row(fusion, checked=True):
    return {"fusion": fusion, "rows": 8, "cols": 16, "rank": 0, "checked": checked, "us": 2.0,
            "floor_us": 1.0, "sol": 0.5, "predicted": {"total_us": 2.5}}


def torch_row(fusion, **extra):
    return {"fusion": fusion, "rows": 8, "cols": 16, **extra}


class Silent(unittest.TestCase):
    def call(self, main, *arguments):
        """The exit status; what was printed is in self.out and self.err."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                status = main([str(argument) for argument in arguments])
            except SystemExit as stop:
                status = stop.code
        self.out, self.err = out.getvalue(), err.getvalue()
        return status


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


class PeerOfGraph(unittest.TestCase):
    def test_what_a_graph_makes_itself_is_where_its_inputs_are(self):
        torch = unittest.mock.MagicMock()
        with unittest.mock.patch.dict(sys.modules, {"torch": torch}):
            fir = importlib.import_module("fir")
            sys.modules.pop("fir")
        graph = fir.parse("""fusion @half_mean extents(rows, cols) {
          %v0 x : f32[rows, cols] = input
          %v1 : i64 = extent(cols)
          %v2 : f32 = cast %v1
          %v3 : f32 = constant 0x1p+1  ; 2
          %v4 : f32 = mul %v2, %v3
          return %v4
        }""")
        x = unittest.mock.MagicMock(shape=(4, 8), device="cuda:3", dtype=torch.float32)
        fir.function(graph, {"rows": 4, "cols": 8})(x)
        made = torch.full.call_args_list
        self.assertEqual([call.args[1] for call in made], [8, 2.0])
        self.assertEqual([call.kwargs["device"] for call in made], ["cuda:3"] * 2)
        torch.tensor.assert_not_called()


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
    def run_script(self, *arguments):
        return subprocess.run([COMPARE / "run.sh", *arguments], capture_output=True, text=True,
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


if __name__ == "__main__":
    unittest.main()
