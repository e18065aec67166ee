#include "fusion_ir/pass.h"

#include <algorithm>
#include <chrono>

#include "fusion_ir/verifier.h"

namespace sinter {
namespace {

constexpr std::string_view kAllPasses = "all";

void check_names(std::span<const Pass> passes, const PassOptions& options) {
  for (const std::string& name : options.dump_after) {
    if (name == kAllPasses || std::ranges::find(passes, name, &Pass::name) != passes.end())
      continue;
    std::vector<std::string_view> known;
    for (const Pass& pass : passes) known.push_back(pass.name);
    throw_error({.kind = ErrorKind::kInvalidArgument,
                 .message = fmt::format("there is no pass '{}' to dump after", name),
                 .remedy = fmt::format("name one of {}, or 'all'", fmt::join(known, ", "))});
  }
}

void check_result(const Pass& pass, const Fusion& fusion) {
  const auto violations = verify(fusion);
  if (violations.empty()) return;
  Error error{.kind = ErrorKind::kInternalError,
              .message = fmt::format("pass {} broke fusion '{}'", pass.name, fusion.name),
              .remedy = fmt::format("report this with the fusion as it was before {}", pass.name),
              .log = text_of(violations)};
  for (const Violation& violation : violations) {
    if (violation.op.valid()) error.ops.push_back(violation.op);
    if (violation.value.valid()) error.values.push_back(violation.value);
  }
  throw_error(std::move(error));
}

bool wants_dump(const Pass& pass, const PassOptions& options) {
  return options.dump && std::ranges::any_of(options.dump_after, [&](const std::string& name) {
           return name == kAllPasses || name == pass.name;
         });
}

PassRecord run_pass(const Pass& pass, Fusion& fusion, const PassOptions& options) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  std::optional<Fusion> next = pass.function(fusion);
  const std::chrono::duration<double, std::micro> spent = Clock::now() - start;
  const bool changed = next && *next != fusion;
  if (changed) fusion = std::move(*next);
  if (changed && options.verify) check_result(pass, fusion);
  if (changed && wants_dump(pass, options)) options.dump(pass.name, fusion);
  return {.name = pass.name, .changed = changed, .microseconds = spent.count()};
}

}  // namespace

PassRun run_passes(const Fusion& fusion, std::span<const Pass> passes, const PassOptions& options,
                   size_t rounds) {
  check_names(passes, options);
  PassRun run{.fusion = fusion, .records = {}};
  // Passes in a row that changed nothing; after a full circle of them none will.
  size_t idle = 0;
  for (size_t round = 0; round < rounds; ++round) {
    for (const Pass& pass : passes) {
      if (run.records.size() >= options.stop_after || idle >= passes.size()) return run;
      run.records.push_back(run_pass(pass, run.fusion, options));
      idle = run.records.back().changed ? 0 : idle + 1;
    }
  }
  return run;
}

}  // namespace sinter
