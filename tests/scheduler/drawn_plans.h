#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "fusion_ir/composites.h"
#include "fusion_ir/fusion_builder.h"
#include "scheduler/planning/planner.h"
#include "tests/support/canned_fusions.h"
#include "tests/support/h200.h"
#include "tests/support/random_graph.h"

namespace sinter {

// Plans whose steps are drawn: of one kernel and of hundreds, with calls, and with odd names.

inline Plan planned(const Fusion& fusion) { return plan(fusion, {}, kLimits).value(); }

/// A kernel, a call, and a kernel that reads both of their results.
inline Plan small_plan() {
  FusionBuilder b("small");
  const ValueId x = b.input(DType::kF32, {64, 1024}, "x");
  const ValueId h = b.named(b.exp(x), "h");
  const ValueId called = b.external("matmul", {h}, {{DType::kF32, {64, 1024}}}, {"m"})[0];
  b.output(b.add(h, called), "y");
  return planned(b.build());
}

/// Layers of a transformer between calls.
inline Plan transformer(int layers) {
  constexpr int64_t kTokens = 8192;
  constexpr int64_t kHidden = 4096;
  constexpr int64_t kFfn = 14336;
  FusionBuilder b("transformer");
  const auto matmul = [&](ValueId x, int64_t columns, const std::string& name) {
    const int64_t rows = kHidden == columns || columns == kFfn ? kHidden : kFfn;
    const ValueId weight = b.input(DType::kBF16, {columns, rows}, name + "_weight");
    return b.external("matmul_nt", {x, weight}, {{DType::kBF16, {kTokens, columns}}}, {name})[0];
  };
  const auto sum = [&](ValueId x, ValueId y, const std::string& name) {
    return b.named(b.cast(b.add(b.cast(x, DType::kF32), b.cast(y, DType::kF32)), DType::kBF16),
                   name);
  };
  ValueId x = b.input(DType::kBF16, {kTokens, kHidden}, "x");
  for (int i = 0; i < layers; ++i) {
    const auto named = [&](const char* name) { return fmt::format("{}.{}", name, i); };
    const auto norm = [&](ValueId of, const char* name) {
      const ValueId weight = b.input(DType::kBF16, {kHidden}, named(name) + "_weight");
      return b.named(rms_norm(b, of, {.output = DType::kBF16, .weight = weight}).y, named(name));
    };
    const ValueId attention_in = norm(x, "attention_norm");
    const ValueId q = matmul(attention_in, kHidden, named("q"));
    const ValueId k = matmul(attention_in, kHidden, named("k"));
    const ValueId v = matmul(attention_in, kHidden, named("v"));
    const ValueId o =
        b.external("attention", {q, k, v}, {{DType::kBF16, {kTokens, kHidden}}}, {named("o")})[0];
    const ValueId h = sum(x, matmul(o, kHidden, named("attention")), named("h"));
    const ValueId mlp_in = norm(h, "mlp_norm");
    const ValueId gate = b.cast(matmul(mlp_in, kFfn, named("gate")), DType::kF32);
    const ValueId up = b.cast(matmul(mlp_in, kFfn, named("up")), DType::kF32);
    const ValueId act = b.named(b.cast(b.mul(silu(b, gate), up), DType::kBF16), named("act"));
    const ValueId weight = b.input(DType::kBF16, {kHidden, kFfn}, named("down") + "_weight");
    const ValueId down = b.external("matmul_nt", {act, weight},
                                    {{DType::kBF16, {kTokens, kHidden}}}, {named("down")})[0];
    x = sum(h, down, named("y"));
  }
  b.output(x, "y");
  return planned(b.build());
}

inline Plan odd_names() {
  FusionBuilder b("a \"graph\" <&> \\ \xFF");
  const ValueId x = b.input(DType::kF32, {64, 64}, "x \"<script>\" & \\n\n\x01");
  const std::string name = "f\\\"<g>&";
  b.output(b.neg(b.external(name, {b.exp(x)}, {{DType::kF32, {64, 64}}}, {"\xC3\xA4 \xC0"})[0]),
           std::string(1000, '"'));
  return planned(b.build());
}

inline Plan hundreds_of_steps() { return transformer(20); }

inline std::vector<Plan> some_plans() {
  std::vector<Plan> out;
  for (const char* name : {"rms_norm", "layer_norm_backward", "two_independent_chains"}) {
    const CannedFusion& canned = *find_canned_fusion(name);
    out.push_back(plan(canned.build(), canned.large, kLimits).value());
  }
  out.push_back(small_plan());
  out.push_back(transformer(3));
  out.push_back(odd_names());
  for (uint64_t seed = 0; seed < 6; ++seed)
    out.push_back(planned(random_graph(seed, {.ops = 60, .calls = true})));
  return out;
}

}  // namespace sinter
