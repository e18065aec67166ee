// Whole layers of transformers on the current GPU, forward and backward, with stand-ins for their
// external calls: what their kernels compute is checked against the oracle, and how many there are
// and what the model predicts for each is written down. How long each takes is for a profiler to
// say, which sees the kernels of a peer in the same way: with --profile every layer runs once
// between cuProfilerStart and cuProfilerStop.

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <fstream>
#include <functional>
#include <random>

#include "fusion_ir/printer.h"
#include "runtime/check/device_run.h"
#include "runtime/driver/device_buffer.h"
#include "runtime/driver/device_query.h"
#include "runtime/driver/driver_api.h"
#include "runtime/driver/shared_library.h"
#include "scheduler/families/cublaslt.h"
#include "scheduler/planning/planner.h"
#include "tests/support/stand_in_calls.h"
#include "tests/support/stand_in_kernel.h"
#include "tests/support/training_layers.h"

namespace {

using sinter::check;
using sinter::DriverCall;
using sinter::fail;
using sinter::Result;

/// Profiles are read from their first kernels on: a call of this name begins each layer.
constexpr const char* kStandIn = "layer_stand_in";
constexpr const char* kMarker = "layer_marker";

struct Layer {
  std::string name;
  std::function<sinter::Fusion()> build;
  std::function<sinter::Fusion()> build_checked = build;  ///< What is held against the oracle.
};

/// An Adam step over the parameters of 25 layers like GPT-2's, 300 tensors in f32, updated in place
/// as torch.optim.Adam does.
sinter::Fusion adam(int64_t hidden) {
  const int64_t ffn = 4 * hidden;
  std::vector<sinter::Sizes> shapes;
  for (int layer = 0; layer < 25; ++layer) {
    for (const sinter::Sizes& shape : std::initializer_list<sinter::Sizes>{{hidden},
                                                                           {hidden},
                                                                           {3 * hidden, hidden},
                                                                           {3 * hidden},
                                                                           {hidden, hidden},
                                                                           {hidden},
                                                                           {hidden},
                                                                           {hidden},
                                                                           {ffn, hidden},
                                                                           {ffn},
                                                                           {hidden, ffn},
                                                                           {hidden}})
      shapes.push_back(shape);
  }
  return sinter::adam_over(shapes, {}, sinter::DType::kF32, sinter::Updates::kInPlace);
}

/// With matrix products as contractions in the place of calls, if wanted.
std::vector<Layer> layers(bool contracts) {
  std::vector<Layer> out = {
      {"llama_forward", [] { return sinter::llama_layer_forward(sinter::kLlama3With8B); }},
      {"llama_backward", [] { return sinter::llama_layer_backward(sinter::kLlama3With8B); }},
      {"gpt2_forward", [] { return sinter::gpt2_layer_forward(sinter::kGpt2); }},
      {"gpt2_backward", [] { return sinter::gpt2_layer_backward(sinter::kGpt2); }},
      {"bert_forward", [] { return sinter::bert_layer_forward(sinter::kBertBase); }},
      {"bert_backward", [] { return sinter::bert_layer_backward(sinter::kBertBase); }},
      {"adam", [] { return adam(768); }, [] { return adam(56); }},
  };
  if (!contracts) return out;
  for (Layer& layer : out) {
    layer.build = [calls = layer.build] { return sinter::with_contractions(calls()); };
    layer.build_checked = [calls = layer.build_checked] {
      return sinter::with_contractions(calls());
    };
  }
  return out;
}

/// cuProfilerStart and cuProfilerStop, which the library itself has no use for.
class Profiler {
 public:
  static Result<Profiler> open() {
    const std::vector<std::string> names = {"libcuda.so.1"};
    auto library = sinter::SharedLibrary::open(names, "the CUDA driver", "install the driver");
    if (!library) return fail(library.error());
    Profiler out(std::move(*library));
    std::string missing;
    out.library_.resolve("cuProfilerStart", out.start_, missing);
    out.library_.resolve("cuProfilerStop", out.stop_, missing);
    return out;
  }
  void start() const {
    if (start_ != nullptr) start_();
  }
  void stop() const {
    if (stop_ != nullptr) stop_();
  }

 private:
  explicit Profiler(sinter::SharedLibrary library) : library_(std::move(library)) {}
  sinter::SharedLibrary library_;
  int (*start_)() = nullptr;
  int (*stop_)() = nullptr;
};

class Suite {
 public:
  Suite(sinter::DeviceDriver& driver, sinter::DeviceLimits limits, sinter::NvrtcCompiler compiler,
        sinter::StandInKernel stand_in, sinter::StandInKernel marker, sinter::PlanOptions options)
      : driver_(driver),
        limits_(std::move(limits)),
        compiler_(std::move(compiler)),
        stand_in_(std::move(stand_in)),
        marker_(std::move(marker)),
        options_(std::move(options)),
        cache_({}) {}

  Result<sinter::Executable> prepare(const sinter::Fusion& fusion, int64_t tokens) {
    sinter::ExtentValues extents;
    if (fusion.find_symbol("tokens").valid()) extents["tokens"] = tokens;
    auto plan = sinter::plan(fusion, extents, limits_, options_);
    if (!plan) return fail(plan.error());
    auto compiled = sinter::compile_plan(std::move(*plan), compiler_, cache_, {.threads = 8});
    if (!compiled) return fail(compiled.error());
    return sinter::Executable::prepare(
        std::move(*compiled), driver_,
        {.external = [this](const sinter::ExternalRequest& request) -> Result<void> {
          return stand_in_.run(request);
        }});
  }

  /// Against the oracle, every element.
  Result<bool> check_layer(const Layer& layer, int64_t tokens) {
    const sinter::Fusion fusion = layer.build_checked();
    auto executable = prepare(fusion, tokens);
    if (!executable) return fail(executable.error());
    const sinter::DeviceRunOptions options{.time = false,
                                           .external = sinter::stand_in_calls().evaluate};
    const auto run = sinter::run_on_device(fusion, *executable, driver_, options);
    if (!run) return fail(run.error());
    fmt::print("{:16} {:6} tokens {:3} kernels  {}\n", layer.name, tokens,
               executable->compiled().kernels.size(),
               run->check.passed()
                   ? fmt::format("right, worst error over bound {:.2f}", run->check.worst_ratio)
                   : "WRONG " + run->check.text());
    std::fflush(stdout);
    return run->check.passed();
  }

  Result<nlohmann::json> profile(const Layer& layer, int64_t tokens, const Profiler& profiler) {
    auto executable = prepare(layer.build(), tokens);
    if (!executable) return fail(executable.error());
    const sinter::Plan& plan = executable->compiled().plan;
    std::vector<sinter::DeviceBuffer> buffers;
    auto inputs = random_tensors(plan.fusion, plan.fusion.inputs, buffers);
    if (!inputs) return fail(inputs.error());
    auto outputs = random_tensors(plan.fusion, plan.fusion.outputs, buffers);
    if (!outputs) return fail(outputs.error());
    for (size_t i = 0; i < plan.fusion.layouts.size(); ++i) {
      const auto input = std::ranges::find(plan.fusion.inputs, plan.fusion.layouts[i].alias);
      if (input == plan.fusion.inputs.end()) continue;
      (*outputs)[i] = (*inputs)[static_cast<size_t>(input - plan.fusion.inputs.begin())];
    }
    auto workspace =
        sinter::DeviceBuffer::allocate(driver_, static_cast<size_t>(executable->workspace_bytes()));
    if (!workspace) return fail(workspace.error());
    const auto execute = [&] {
      return executable->execute(*inputs, *outputs, workspace->pointer(),
                                 executable->workspace_bytes(), nullptr);
    };
    if (auto warm = execute(); !warm) return fail(warm.error());
    if (auto drained = drain(); !drained) return fail(drained.error());
    profiler.start();
    sinter::ExternalOp none;
    const sinter::ExternalTensor scratch{
        .address = outputs->front().address, .type = sinter::DType::kF32, .sizes = {}};
    const Result<void> marked = marker_.launch({.op = &none, .outputs = std::span(&scratch, 1)}, 0);
    const Result<void> done = execute();
    const Result<void> drained = drain();
    profiler.stop();
    for (const Result<void>& step : {marked, done, drained}) {
      if (!step) return fail(step.error());
    }
    nlohmann::json kernels = nlohmann::json::array();
    for (const sinter::KernelId id : plan.kernels.ids()) {
      const sinter::KernelBuild& kernel = executable->compiled().kernels[id];
      const auto& facts = plan.kernels[id].facts;
      kernels.push_back({{"entry", kernel.source.entry},
                         {"schedule", sinter::print(kernel.chosen.schedule)},
                         {"finishes", plan.kernels[id].finishes},
                         {"predicted_us", kernel.chosen.predicted.total_us},
                         {"bytes", facts.bytes_read + facts.bytes_written}});
    }
    return nlohmann::json{{"layer", layer.name},
                          {"tokens", tokens},
                          {"kernels", kernels},
                          {"predicted_us", plan.predicted_us()},
                          {"workspace_bytes", plan.workspace_bytes}};
  }

 private:
  [[nodiscard]] Result<void> drain() const {
    return check(driver_, DriverCall::kContextSynchronize, driver_.context_synchronize(),
                 "waiting for a layer");
  }

  /// A megabyte of random numbers, over and over.
  Result<std::vector<sinter::Tensor>> random_tensors(const sinter::Fusion& fusion,
                                                     const std::vector<sinter::ValueId>& values,
                                                     std::vector<sinter::DeviceBuffer>& buffers) {
    std::vector<sinter::Tensor> out;
    for (const sinter::ValueId id : values) {
      const sinter::Value& value = fusion.values[id];
      sinter::Tensor tensor{.type = value.type, .sizes = sinter::Binding{}.sizes_of(value.shape)};
      const auto bytes =
          static_cast<size_t>(sinter::element_count(tensor.sizes) * sinter::bytes_of(value.type));
      auto buffer = sinter::DeviceBuffer::allocate(driver_, bytes);
      if (!buffer) return fail(buffer.error());
      const size_t chunk = std::min<size_t>(bytes, 1 << 20);
      const auto random = sinter::HostTensor::random(
          value.type, {static_cast<int64_t>(chunk) / sinter::bytes_of(value.type)},
          {.seed = id.index + 1});
      if (auto copied = buffer->upload(random.storage()); !copied) return fail(copied.error());
      for (size_t at = chunk; at < bytes; at += chunk) {
        const sinter::DriverStatus status = driver_.copy_on_device_async(
            buffer->pointer() + at, buffer->pointer(), std::min(chunk, bytes - at), nullptr);
        if (auto copied = check(driver_, DriverCall::kCopyOnDeviceAsync, status, "filling");
            !copied)
          return fail(copied.error());
      }
      tensor.address = buffer->pointer();
      buffers.push_back(std::move(*buffer));
      out.push_back(std::move(tensor));
    }
    return out;
  }

  sinter::DeviceDriver& driver_;
  sinter::DeviceLimits limits_;
  sinter::NvrtcCompiler compiler_;
  sinter::StandInKernel stand_in_;
  sinter::StandInKernel marker_;
  sinter::PlanOptions options_;
  sinter::KernelCache cache_;
};

int report(const sinter::Error& error) {
  fmt::print(stderr, "{}\n", error.text());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Checks and profiles whole layers on the current GPU");
  std::vector<std::string> names;
  std::vector<int64_t> checked;
  int64_t tokens = 8192;
  bool profiles = false;
  bool contracts = false;
  bool with_library = false;
  bool prints = false;
  std::string json_path;
  app.add_option("layers", names, "names; none: all");
  app.add_option("--check", checked, "numbers of tokens to hold against the oracle");
  app.add_option("--tokens", tokens, "tokens of the profiled run");
  app.add_flag("--profile", profiles, "run every layer once between the profiler's start and stop");
  app.add_flag("--contractions", contracts, "matrix products are contractions, not calls");
  app.add_flag("--cublaslt", with_library, "offer the matrix products of cuBLASLt");
  app.add_flag("--graphs", prints,
               "print the graphs as .fir, and do nothing else: no GPU is needed");
  app.add_option("--json", json_path, "write what is profiled here");
  CLI11_PARSE(app, argc, argv);
  const auto is_named = [&](const Layer& layer) {
    return names.empty() || std::ranges::find(names, layer.name) != names.end();
  };
  if (prints) {
    for (const Layer& layer : layers(contracts)) {
      if (is_named(layer)) fmt::print("{}", sinter::print(layer.build()));
    }
    return 0;
  }

  auto driver = sinter::cuda_driver();
  if (!driver) return report(driver.error());
  auto limits = sinter::query_device(**driver, 0);
  if (!limits) return report(limits.error());
  auto compiler = sinter::NvrtcCompiler::open();
  if (!compiler) return report(compiler.error());
  auto context = sinter::DeviceContext::retain(**driver, 0);
  if (!context) return report(context.error());
  auto current = sinter::CurrentContext::enter(**driver, *context);
  if (!current) return report(current.error());
  auto stand_in = sinter::StandInKernel::make(**driver, *compiler, *limits, kStandIn);
  if (!stand_in) return report(stand_in.error());
  auto marker = sinter::StandInKernel::make(**driver, *compiler, *limits, kMarker);
  if (!marker) return report(marker.error());
  auto profiler = Profiler::open();
  if (!profiler) return report(profiler.error());

  sinter::FamilySet families = sinter::builtin_families();
  if (with_library) families = sinter::with_cublaslt(std::move(families));
  Suite suite(**driver, *limits, std::move(*compiler), std::move(*stand_in), std::move(*marker),
              {.families = std::move(families)});
  nlohmann::json rows = nlohmann::json::array();
  int status = 0;
  for (const Layer& layer : layers(contracts)) {
    if (!is_named(layer)) continue;
    for (const int64_t count : checked) {
      const auto right = suite.check_layer(layer, count);
      if (!right) return report(right.error());
      if (!*right) status = 1;
    }
    if (!profiles || status != 0) continue;
    auto row = suite.profile(layer, tokens, *profiler);
    if (!row) return report(row.error());
    rows.push_back(std::move(*row));
  }
  if (!json_path.empty()) std::ofstream(json_path) << rows.dump(1) << '\n';
  return status;
}
