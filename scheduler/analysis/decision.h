#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fusion_ir/id.h"

namespace sinter {

/// Why a family or candidate was rejected: a rule, the number that broke it, the limit, and the
/// remedy.
struct Rejection {
  std::string subject{};  ///< The rejected family or candidate.
  std::string rule{};     ///< One sentence, in the words of the family's header.
  double value = 0.0;
  double limit = 0.0;
  std::string unit{};
  ValueId at{};  ///< The graph value that the rule concerns, if any.
  std::string remedy{};
  friend bool operator==(const Rejection&, const Rejection&) = default;
};

/// A rejection of `subject` by a rule without numbers.
Rejection rejected_at(std::string_view subject, std::string rule, ValueId at, std::string remedy);

/// "multi_wave: a thread's share of the row exceeds its registers (value 300, limit 255 registers,
/// %v3). Remedy: ..."
std::string text_of(const Rejection& rejection);

/// Predicted time of one kernel in microseconds and its parts. `total` is launch + tail + the
/// largest of the overlapping parts + exposed latency.
struct Prediction {
  double total_us = 0.0;
  double launch_us = 0.0;
  double memory_us = 0.0;
  double l2_us = 0.0;  ///< Traffic between the SMs and L2.
  double issue_us = 0.0;
  double special_us = 0.0;
  double shared_us = 0.0;
  double matrix_us = 0.0;   ///< Matrix instructions.
  double exposed_us = 0.0;  ///< Latency that neither other blocks nor bytes in flight hide.
  double spill_us = 0.0;
  double second_stage_us = 0.0;   ///< Combining partial results.
  double block_latency_us = 0.0;  ///< Critical path of one block; not part of the sum.
  /// The model resolves per-row latency, so near-equal candidates need no tie-break.
  bool models_latency = false;
  friend bool operator==(const Prediction&, const Prediction&) = default;
};

struct Candidate {
  std::string what{};
  Prediction predicted{};
  bool legal = true;
  std::string because{};  ///< Verdict in words.
  friend bool operator==(const Candidate&, const Candidate&) = default;
};

/// A question the planner answered, and the candidates it compared.
struct Decision {
  std::string question{};
  std::vector<Candidate> candidates{};
  std::string chosen{};
  std::string because{};
  friend bool operator==(const Decision&, const Decision&) = default;
};

}  // namespace sinter
