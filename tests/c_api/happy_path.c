/* The C ABI from C99, with nothing but its header: text to plan, a graph built op by op, errors.
 * docs/embedding.md quotes it. */

#include <stdio.h>
#include <string.h>

#include "runtime/c_api/sinter_c.h"

/* Says what went wrong, and lets the error go. */
static int failed(sinter_error* error) {
  sinter_error_info info = {0};
  info.struct_size = sizeof info;
  if (sinter_error_describe(error, &info) == SINTER_OK) fprintf(stderr, "%s\n", info.text);
  sinter_error_release(error);
  return 1;
}

static const char* const kSoftmax =
    "fusion @softmax extents(rows, cols) {\n"
    "  %v0 x : bf16[rows, cols] = input\n"
    "  %v1 : f32[rows, cols] = cast %v0\n"
    "  %v2 : f32[rows] = reduce.max %v1 over(1)\n"
    "  %v3 : f32[rows, cols] = broadcast %v2 axes(0)\n"
    "  %v4 : f32[rows, cols] = sub %v1, %v3\n"
    "  %v5 : f32[rows, cols] = exp %v4\n"
    "  %v6 : f32[rows] = reduce.sum %v5 over(1)\n"
    "  %v7 : f32[rows, cols] = broadcast %v6 axes(0)\n"
    "  %v8 : f32[rows, cols] = div %v5, %v7\n"
    "  %v9 y : bf16[rows, cols] = cast %v8\n"
    "  return %v9\n"
    "}\n";

static int plan_softmax(void) {
  sinter_fusion* fusion = NULL;
  sinter_device* device = NULL;
  sinter_plan* plan = NULL;
  sinter_text* report = NULL;
  sinter_error* error = NULL;
  const char* json = NULL;

  const sinter_extent extents[] = {{"rows", 8192}, {"cols", 8192}};
  if (sinter_fusion_parse(kSoftmax, strlen(kSoftmax), &fusion, &error) ||
      sinter_device_preset("H200", &device, &error) ||
      sinter_plan_create(fusion, device, extents, 2, NULL, &plan, &error) ||
      sinter_plan_explain_json(plan, &report, &error) ||
      sinter_text_view(report, &json, NULL, &error))
    return failed(error); /* Prints what sinter_error_describe says, and releases the error. */
  puts(json);

  sinter_text_release(report, NULL);
  sinter_plan_release(plan, NULL);
  sinter_device_release(device, NULL);
  sinter_fusion_release(fusion, NULL);
  return 0;
}

/* Compiles a plan and runs it once. Called where there is a GPU and its memory. */
int run_plan(sinter_runtime* runtime, const sinter_plan* plan, const sinter_tensor* x,
             const sinter_tensor* y, void* workspace, int64_t workspace_bytes, void* stream) {
  sinter_executable* executable = NULL;
  sinter_error* error = NULL;
  sinter_execute_args args = {0};

  if (sinter_executable_prepare(runtime, plan, NULL, &executable, &error)) return failed(error);
  args.struct_size = sizeof args;
  args.inputs = x; /* DLPack tensors of the caller, in the order of the graph's inputs. */
  args.input_count = 1;
  args.outputs = y;
  args.output_count = 1;
  args.workspace = workspace;
  args.workspace_bytes = workspace_bytes;
  args.stream = stream;
  if (sinter_executable_execute(executable, &args, &error)) return failed(error);

  return sinter_executable_release(executable, NULL) != SINTER_OK;
}

/* y = x * 0.5, in f16. */
static int build_scale(void) {
  sinter_builder* builder = NULL;
  sinter_fusion* fusion = NULL;
  sinter_error* error = NULL;
  sinter_value x, half, y;
  sinter_value operands[2];
  if (sinter_builder_create("scale", &builder, &error) ||
      sinter_builder_symbol(builder, "n", 0, 0, &error) ||
      sinter_builder_op(builder, "input", "f16[n]", NULL, 0, "x", &x, 1, &error) ||
      sinter_builder_op(builder, "constant 0.5", "f32", NULL, 0, NULL, &half, 1, &error))
    return failed(error);
  operands[0] = x;
  operands[1] = half;
  if (sinter_builder_op(builder, "mul", NULL, operands, 2, NULL, &y, 1, &error) ||
      sinter_builder_op(builder, "cast", "f16[n]", &y, 1, "y", &y, 1, &error) ||
      sinter_builder_output(builder, y, NULL, NULL, &error) ||
      sinter_builder_finish(builder, &fusion, &error))
    return failed(error);
  sinter_builder_release(builder, NULL);
  sinter_fusion_release(fusion, NULL);
  return 0;
}

/* A mistake gives its kind, and no handle. */
static int refuse_a_mistake(void) {
  sinter_fusion* fusion = NULL;
  sinter_error* error = NULL;
  sinter_error_info info = {0};
  int wrong;
  info.struct_size = sizeof info;
  if (sinter_fusion_parse("fusion @", 8, &fusion, &error) != SINTER_INVALID_FUSION) return 1;
  wrong = fusion != NULL || sinter_error_describe(error, &info) != SINTER_OK ||
          strcmp(info.kind, "InvalidFusion") != 0;
  sinter_error_release(error);
  return wrong || sinter_fusion_release((sinter_fusion*)error, NULL) != SINTER_INVALID_HANDLE;
}

int main(void) {
  sinter_tensor none = {0};
  if (sinter_abi_version() != SINTER_ABI_VERSION) return 1;
  if (run_plan(NULL, NULL, &none, &none, NULL, 0, NULL) == 0) return 1; /* No runtime. */
  return plan_softmax() || build_scale() || refuse_a_mistake();
}
