// One run of a protocol over a number of rows finds a fault if and only if some interleaving of the
// items that these rows fill shows it.

#include "codegen/protocol/protocol_run.h"

#include <gmock/gmock.h>

#include "codegen/protocol/vector_clocks.h"

namespace sinter::protocol_run_test {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using Kind = ProtocolFaultKind;

std::optional<Kind> fault_of(const AsyncProtocol& protocol, int64_t rows) {
  const auto fault = run_protocol(protocol, rows, false);
  return fault ? std::optional(fault->kind) : std::nullopt;
}

/// One group of two warps, and one copy of 64 bytes to an item.
AsyncProtocol pipeline(int64_t stages, int64_t item_rows = 1) {
  return pipeline_protocol(stages, 1, 2, {64}, SlotRelease::kEarly, item_rows);
}

std::vector<ProtocolAction>& producer(AsyncProtocol& protocol) {
  return protocol.roles.front().actions;
}

void erase(std::vector<ProtocolAction>& actions, ProtocolVerb verb) {
  std::erase_if(actions, [&](const ProtocolAction& action) { return action.verb == verb; });
}

TEST(ProtocolRunTest, ASoundPipelineRunsAnyNumberOfRows) {
  for (const int64_t stages : {1, 2, 3}) {
    for (const int64_t item_rows : {1, 2, 4}) {
      for (int64_t rows = 0; rows <= 4 * stages * item_rows; ++rows)
        EXPECT_EQ(fault_of(pipeline(stages, item_rows), rows), std::nullopt)
            << stages << " stages, " << item_rows << " rows an item, " << rows << " rows";
    }
  }
}

/// Nothing waits for the release of a stage that was never filled: the third item is the first that
/// comes to a stage of two for the second time.
TEST(ProtocolRunTest, AStageIsRefilledOnlyWhenThereAreMoreItemsThanStages) {
  for (const int64_t stages : {1, 2, 3}) {
    AsyncProtocol protocol = pipeline(stages);
    erase(producer(protocol), ProtocolVerb::kWait);
    EXPECT_EQ(fault_of(protocol, stages), std::nullopt);
    EXPECT_NE(fault_of(protocol, stages + 1), std::nullopt);
  }
}

/// Of four rows in two stages of two rows, no stage is filled again; a fifth row is an item.
TEST(ProtocolRunTest, AShortItemFillsAStage) {
  AsyncProtocol protocol = pipeline(2, 2);
  for (ProtocolRole& role : protocol.roles) {
    if (&role != &protocol.roles.front()) continue;
    erase(role.actions, ProtocolVerb::kWait);
    erase(role.short_actions, ProtocolVerb::kWait);
  }
  EXPECT_EQ(fault_of(protocol, 3), std::nullopt);
  EXPECT_EQ(fault_of(protocol, 4), std::nullopt);
  EXPECT_NE(fault_of(protocol, 5), std::nullopt);
}

/// Without an item there is no step, so there is no fault either.
TEST(ProtocolRunTest, NoRowsShowNoFault) {
  AsyncProtocol protocol = pipeline(2);
  erase(producer(protocol), ProtocolVerb::kExpect);
  EXPECT_EQ(fault_of(protocol, 0), std::nullopt);
  EXPECT_EQ(fault_of(protocol, 1), Kind::kDeadlock) << "no phase of `full` is ever complete";
}

TEST(ProtocolRunTest, ExplainsOnlyWhereAsked) {
  AsyncProtocol protocol = pipeline(2);
  erase(protocol.roles[1].actions, ProtocolVerb::kWait);
  const ProtocolFault brief = run_protocol(protocol, 1, false).value();
  const ProtocolFault full = run_protocol(protocol, 1, true).value();
  EXPECT_EQ(brief.kind, Kind::kUnfilledRead);
  EXPECT_EQ(full.kind, brief.kind);
  EXPECT_EQ(full.message, brief.message);
  EXPECT_THAT(brief.states, IsEmpty());
  EXPECT_EQ(full.states.size(), protocol.roles.size());
}

TEST(VectorClocksTest, AClockCoversWhatItHasJoined) {
  VectorClocks clocks(2);
  const auto first = clocks.add();
  const auto second = clocks.add();
  EXPECT_TRUE(clocks.covers(first, second)) << "nothing has happened yet";
  clocks[first][0] = 3;
  clocks[second][1] = 5;
  EXPECT_FALSE(clocks.covers(first, second));
  EXPECT_FALSE(clocks.covers(second, first)) << "neither came before the other";
  const auto both = clocks.copy(first);
  clocks.join(both, second);
  EXPECT_TRUE(clocks.covers(both, first));
  EXPECT_TRUE(clocks.covers(both, second));
  EXPECT_FALSE(clocks.covers(first, both));
  clocks.clear(both);
  EXPECT_TRUE(clocks.covers(first, both));
}

}  // namespace sinter::protocol_run_test
