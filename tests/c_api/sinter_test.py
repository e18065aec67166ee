"""Opens libsinter.so with nothing but ctypes: python3 sinter_test.py LIBRARY FIR_FILE"""

import array
import ctypes as c
import json
import math
import pathlib
import re
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples"))
from sinter_ctypes import (  # noqa: E402
    CheckOptions, FusionInfo, HostOptions, PlanInfo, PlanOptions, Sinter, SinterError, Struct,
    TensorInfo, check, execute_on_host, extents_of)

LIBRARY, FIR_FILE = sys.argv[1:3]


class SinterTest(unittest.TestCase):
    def setUp(self):
        self.sinter = Sinter(LIBRARY)
        with open(FIR_FILE, "rb") as file:
            text = file.read()
        self.fusion = self.sinter.handle("fusion_parse", text, c.c_size_t(len(text)))
        self.device = self.sinter.handle("device_preset", b"H200")

    def tearDown(self):
        self.sinter.device_release(self.device)
        self.sinter.fusion_release(self.fusion)

    def plan(self, **sizes):
        return self.sinter.handle(
            "plan_create", self.fusion, self.device, *extents_of(sizes), None)

    def refused(self, call, *arguments, **named):
        with self.assertRaises(SinterError) as raised:
            call(*arguments, **named)
        return raised.exception.detail

    def test_describes_a_fusion(self):
        info = FusionInfo()
        self.sinter.fusion_describe(self.fusion, c.byref(info))
        self.assertEqual(info.name, b"softmax")
        self.assertEqual((info.input_count, info.output_count, info.symbol_count), (1, 1, 2))

    def test_plans_and_explains(self):
        plan = self.plan(rows=8192, cols=8192)
        info = PlanInfo()
        self.sinter.plan_describe(plan, c.byref(info))
        self.assertEqual(info.kernel_count, 1)
        report = json.loads(self.sinter.text("plan_explain_json", plan))
        self.assertEqual(report["device"], "H200")
        self.assertEqual(report["predicted_us"], info.predicted_us)
        self.assertIn("family", report["kernels"][0]["schedule"])
        tensor = TensorInfo()
        self.sinter.plan_input(plan, c.c_size_t(0), c.byref(tensor))
        self.assertEqual((tensor.name, tensor.type), (b"x", b"bf16"))
        self.assertEqual(tensor.shape[: tensor.rank], [8192, 8192])
        cuda = self.sinter.text("plan_kernel_cuda", plan, c.c_size_t(0))
        self.assertIn("__global__", cuda)
        self.sinter.plan_release(plan)

    def test_a_plan_that_checks_indices_keeps_them_in_its_workspace(self):
        text = b"""fusion @pick {
          %v0 x : f32[4, 64] = input
          %v1 labels : i64[4] = input
          %v2 : f32[4] = take %v0, %v1 axis(1)
          %v3 : f32[4] = reduce.sum %v0 over(1)
          %v4 y : f32[4] = add %v2, %v3
          return %v4
        }"""
        fusion = self.sinter.handle("fusion_parse", text, c.c_size_t(len(text)))
        bytes_of = {}
        for check in (0, 1):
            options = PlanOptions(check_indices=check)
            plan = self.sinter.handle(
                "plan_create", fusion, self.device, *extents_of({}), c.byref(options))
            info = PlanInfo()
            self.sinter.plan_describe(plan, c.byref(info))
            self.assertEqual((info.output_count, info.kernel_count), (1, 1))
            bytes_of[check] = info.workspace_bytes
            refused = self.refused(self.sinter.plan_output, plan, c.c_size_t(1),
                                   c.byref(TensorInfo()))
            self.assertEqual(refused["kind"], "InvalidArgument")
            cuda = self.sinter.text("plan_kernel_cuda", plan, c.c_size_t(0))
            self.assertEqual(cuda.count("long long* __restrict__"), 1 + check)
            self.sinter.plan_release(plan)
        self.assertEqual(bytes_of, {0: 0, 1: 256})
        refused = self.refused(
            self.sinter.executable_check_indices, fusion, None, c.c_int64(256))
        self.assertEqual(refused["kind"], "InvalidHandle")
        self.sinter.fusion_release(fusion)

    def test_errors_are_typed(self):
        self.assertEqual(self.refused(self.plan, rows=8)["kind"], "InvalidArgument")
        bad = b"fusion @f { %v0 : f32[4] = input return %v0 }"
        detail = self.refused(self.sinter.handle, "fusion_parse", bad, c.c_size_t(len(bad)))
        self.assertEqual(detail["kind"], "InvalidFusion")
        self.assertEqual(detail["values"], ["%v0"])
        self.assertEqual(
            self.refused(self.sinter.text, "plan_explain", self.fusion)["kind"], "InvalidHandle")

    def test_released_handles_are_refused(self):
        plan = self.plan(rows=64, cols=1000)
        self.sinter.plan_release(plan)
        self.assertEqual(self.refused(self.sinter.plan_release, plan)["kind"], "InvalidHandle")

    def test_threads_share_handles(self):
        texts = []

        def work():
            plan = self.plan(rows=64, cols=1000)
            texts.append(self.sinter.text("plan_explain_json", plan))
            self.sinter.plan_release(plan)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(texts), 4)
        self.assertEqual(len(set(texts)), 1)

    def plan_of(self, text, options=None, **sizes):
        fusion = self.sinter.handle("fusion_parse", text, c.c_size_t(len(text)))
        plan = self.sinter.handle(
            "plan_create", fusion, self.device, *extents_of(sizes),
            None if options is None else c.byref(options))
        self.sinter.fusion_release(fusion)
        return plan

    def test_executes_on_the_host(self):
        plan = self.plan_of(b"""fusion @sums extents(rows, cols) {
          %v0 x : f32[rows, cols] = input
          %v1 sum : f32[rows] = reduce.sum %v0 over(1)
          %v2 : f32[rows, cols] = broadcast %v1 axes(0)
          %v3 y : f32[rows, cols] = div %v0, %v2
          return %v1, %v3
        }""", rows=3, cols=37)
        x = array.array("f", (float(i % 8 + 1) for i in range(3 * 37)))
        sums, y = array.array("f", [0.0] * 3), array.array("f", [0.0] * (3 * 37))
        execute_on_host(self.sinter, plan, [x], [sums, y], HostOptions(seed=5, threads=2))
        for row in range(3):
            expected = sum(x[row * 37:(row + 1) * 37])
            self.assertEqual(sums[row], expected)
            for i in range(row * 37, (row + 1) * 37):
                self.assertTrue(math.isclose(y[i], x[i] / expected, rel_tol=1e-6))
        refused = self.refused(execute_on_host, self.sinter, plan, [x], [sums])
        self.assertEqual((refused["kind"], refused["measured"], refused["limit"]),
                         ("InvalidArgument", 1, 2))
        self.sinter.plan_release(plan)

    def test_indices_are_checked_on_the_host(self):
        plan = self.plan_of(b"""fusion @pick {
          %v0 x : f32[2, 4] = input
          %v1 labels : i64[2] = input
          %v2 y : f32[2] = take %v0, %v1 axis(1)
          %v3 sum : f32[2] = reduce.sum %v0 over(1)
          return %v2, %v3
        }""", PlanOptions(check_indices=1))
        x = array.array("f", range(8))
        y, sums = array.array("f", [-1.0] * 2), array.array("f", [-1.0] * 2)
        execute_on_host(self.sinter, plan, [x, array.array("q", [3, 1])], [y, sums])
        self.assertEqual(list(y), [3.0, 5.0])
        refused = self.refused(
            execute_on_host, self.sinter, plan, [x, array.array("q", [7, 2])], [y, sums])
        self.assertEqual((refused["kind"], refused["measured"], refused["limit"]),
                         ("InvalidArgument", 7, 4))
        self.assertEqual(list(y), [0.0, 6.0])
        self.sinter.plan_release(plan)

    def test_a_check_runs_sample_data_or_what_it_is_given(self):
        plan = self.plan(rows=5, cols=33)
        info, report = check(self.sinter, plan)
        self.assertEqual((info.passed, info.mismatch_count, info.finding_count, report),
                         (1, 0, 0, ""))
        self.assertGreater(info.data_sets, 1)
        kinds = (c.c_char_p * 1)(b"constant in rows")
        info, _ = check(self.sinter, plan, options=CheckOptions(data=kinds, data_count=1))
        self.assertEqual((info.passed, info.data_sets), (1, 1))
        info, _ = check(self.sinter, plan, [bytearray(2 * 5 * 33)], CheckOptions(seed=3, threads=2))
        self.assertEqual((info.passed, info.data_sets), (1, 1))
        unknown = (c.c_char_p * 1)(b"constant in row")
        refused = self.refused(check, self.sinter, plan,
                               options=CheckOptions(data=unknown, data_count=1))
        self.assertIn("did you mean 'constant in rows'?", refused["remedy"])
        self.sinter.plan_release(plan)

    def test_structs_are_those_of_the_header(self):
        sizes = dict(re.findall(r"sizeof\(sinter_(\w+)\) == (\d+)",
                                pathlib.Path(__file__).with_name("abi_test.cpp").read_text()))
        self.assertGreater(len(Struct.__subclasses__()), 5)
        for struct in Struct.__subclasses__():
            name = re.sub(r"(?<!^)(?=[A-Z])", "_", struct.__name__).lower()
            self.assertEqual(c.sizeof(struct), int(sizes[name]), name)

    def test_every_status_has_a_name(self):
        from sinter_ctypes import STATUS
        for status, name in STATUS.items():
            self.assertEqual(self.sinter.library.sinter_status_name(status).decode(), name)
        self.assertEqual(
            self.sinter.library.sinter_status_name(max(STATUS) + 1).decode(), "unknown")

    def test_a_runtime_needs_no_gpu(self):
        runtime = self.sinter.handle("runtime_create", None)
        self.sinter.runtime_release(runtime)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
