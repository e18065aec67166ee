#include "codegen/protocol/async_protocol.h"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <functional>

#include "tests/codegen/protocol_interleavings.h"

namespace sinter::async_protocol_test {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using enum ProtocolVerb;
using enum PipelineBarrier;
using Kind = ProtocolFaultKind;

std::vector<ProtocolAction>& producer(AsyncProtocol& protocol) {
  return protocol.roles.front().actions;
}
std::vector<ProtocolAction>& group(AsyncProtocol& protocol, size_t g = 0) {
  return protocol.roles[1 + g].actions;
}
std::vector<ProtocolAction>& short_group(AsyncProtocol& protocol) {
  return protocol.roles[1].short_actions;
}
void erase(std::vector<ProtocolAction>& actions, ProtocolVerb verb) {
  std::erase_if(actions, [&](const ProtocolAction& action) { return action.verb == verb; });
}
ProtocolAction& find(std::vector<ProtocolAction>& actions, ProtocolVerb verb) {
  return *std::ranges::find(actions, verb, &ProtocolAction::verb);
}

/// Two slots, two warps to a group, two copies of 64 bytes.
AsyncProtocol sound(int groups = 1, SlotRelease release = SlotRelease::kLate) {
  return pipeline_protocol(2, groups, 2, {64, 64}, release);
}

/// The same with rows side by side.
AsyncProtocol sound_unrolled_rows(int64_t rows, SlotRelease release = SlotRelease::kLate) {
  return pipeline_protocol(2, 1, 2, {64}, release, rows);
}

struct Fault {
  std::string name;
  Kind kind;
  int64_t items;  ///< The fewest that show it.
  std::function<AsyncProtocol()> plant;
  int64_t rows = items;  ///< Of those items.
  friend void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }
};

std::vector<Fault> planted_faults() {
  const auto in = [](auto change) {
    return [change] {
      AsyncProtocol out = sound();
      change(out);
      return out;
    };
  };
  return {
      {"ProducerNeverWaits", Kind::kArrivalOverflow, 3,
       in([](auto& p) { erase(producer(p), kWait); })},
      {"ProducerWaitsForItsOwnItem", Kind::kOverwrite, 3, in([](auto& p) {
         // The item before has arrived, but nobody says that it is read.
         find(producer(p), kWait) = {.verb = kWait, .barrier = kFull, .item_offset = -2};
       })},
      {"ProducerWaitsForTheFirstRelease", Kind::kWrongParity, 1,
       in([](auto& p) { find(producer(p), kWait).other_parity = false; })},
      {"GroupWaitsForTheOtherParity", Kind::kWrongParity, 1,
       in([](auto& p) { find(group(p), kWait).other_parity = true; })},
      {"GroupNeverWaits", Kind::kUnfilledRead, 1, in([](auto& p) { erase(group(p), kWait); })},
      {"FirstWarpWaitsForAll", Kind::kUnfilledRead, 1,
       in([](auto& p) { find(group(p), kWait).first_warp_only = true; })},
      {"TooFewBytesAnnounced", Kind::kHalfFilledRead, 1,
       in([](auto& p) { find(producer(p), kExpect).bytes = 64; })},
      {"TooManyBytesAnnounced", Kind::kDeadlock, 1,
       in([](auto& p) { find(producer(p), kExpect).bytes = 192; })},
      {"CopyAnnouncedByNobody", Kind::kDeadlock, 1,
       in([](auto& p) { erase(producer(p), kExpect); })},
      {"CopyOfTheNextSlotAnnounced", Kind::kDeadlock, 1,
       in([](auto& p) { find(producer(p), kExpect).item_offset = 1; })},
      {"GroupNeverReleases", Kind::kDeadlock, 3, in([](auto& p) { erase(group(p), kArrive); })},
      {"FirstWarpReleasesForAll", Kind::kLeftover, 1,
       in([](auto& p) { find(group(p), kArrive).first_warp_only = true; })},
      {"OneArrivalFreesTheSlot", Kind::kArrivalOverflow, 1,
       in([](auto& p) { p.empty_arrivals = 1; })},
      {"OneArrivalTooManyFreesTheSlot", Kind::kLeftover, 1,
       in([](auto& p) { p.empty_arrivals = 3; })},
      {"ReleasedBeforeItIsReadAgain", Kind::kOverwrite, 3,
       in([](auto& p) { std::swap(group(p)[3], group(p)[4]); })},
      {"FirstWarpReleasesBeforeTheOthersRead", Kind::kOverwrite, 3, in([](auto& p) {
         p.empty_arrivals = 1;
         find(group(p), kArrive).first_warp_only = true;
       })},
      {"ReleasedTwice", Kind::kArrivalOverflow, 1,
       in([](auto& p) { group(p).push_back(find(group(p), kArrive)); })},
      {"GroupReleasesFull", Kind::kArrivalOverflow, 1,
       in([](auto& p) { find(group(p), kArrive).barrier = kFull; })},
      {"FullWantsTwoArrivals", Kind::kDeadlock, 1, in([](auto& p) { p.full_arrivals = 2; })},
      {"ReadsTheNextItem", Kind::kUnfilledRead, 2,
       in([](auto& p) { find(group(p), kRead).item_offset = 1; })},
      {"ReleasesTwoItemsLateInARingOfTwo", Kind::kDeadlock, 3, in([](auto& p) {
         // It holds as many slots as there are.
         find(group(p), kArrive).item_offset = -2;
       })},
      {"TwoGroupsTakeTheSameItems", Kind::kArrivalOverflow, 1,
       [] {
         AsyncProtocol out = sound(2);
         out.roles[2].first = 0;
         return out;
       }},
      {"AGroupIsMissing", Kind::kLeftover, 2,
       [] {
         AsyncProtocol out = sound(2);
         out.roles.pop_back();
         return out;
       }},
      {"SlotsChangeGroups", Kind::kWrongParity, 4,
       [] { return pipeline_protocol(3, 2, 1, {64}, SlotRelease::kEarly); }},
      {"SecondProducerWaitsForNoRelease", Kind::kOverwrite, 2,
       [] {
         AsyncProtocol out = pipeline_protocol(1, 1, 1, {64}, SlotRelease::kEarly);
         find(producer(out), kExpect).bytes = 128;
         std::swap(out.roles[0], out.roles[1]);
         out.roles.push_back({.name = "second producer",
                              .actions = {{.verb = kWait, .barrier = kFull, .item_offset = -1},
                                          {.verb = kCopy, .bytes = 64}}});
         return out;
       }},
      {"CopyAndLeave", Kind::kLeftover, 1,
       [] {
         AsyncProtocol out = sound();
         out.roles.pop_back();
         return out;
       }},
      {"WarpsPartAtABarrier", Kind::kDeadlock, 1,
       in([](auto& p) { find(group(p), kSync).first_warp_only = true; })},
  };
}

class PlantedFault : public testing::TestWithParam<Fault> {};

TEST_P(PlantedFault, IsFoundWithItsShortestInterleaving) {
  const AsyncProtocol protocol = GetParam().plant();
  const auto fault = prove(protocol);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind, GetParam().kind) << fault->text();
  EXPECT_EQ(fault->items, GetParam().items) << fault->text();
  EXPECT_EQ(fault->rows, GetParam().rows) << fault->text();
  EXPECT_EQ(fault->states.size(), protocol.roles.size());
  const auto found = faults_of_all_interleavings(protocol, fault->rows);
  ASSERT_TRUE(found.contains(fault->kind)) << fault->text();
  EXPECT_EQ(fault->interleaving.size(), found.at(fault->kind)) << fault->text();
  for (int64_t rows = 0; rows < fault->rows; ++rows)
    EXPECT_THAT(faults_of_all_interleavings(protocol, rows), IsEmpty()) << rows << " rows";
}

INSTANTIATE_TEST_SUITE_P(AsyncProtocol, PlantedFault, testing::ValuesIn(planted_faults()),
                         [](const auto& test) { return test.param.name; });

/// Those that only items of several rows can have.
std::vector<Fault> faults_of_unrolled_rows() {
  const auto in = [](int64_t rows, auto change) {
    return [rows, change] {
      AsyncProtocol out = sound_unrolled_rows(rows);
      change(out);
      return out;
    };
  };
  const auto before_the_last_row = [](auto& actions, auto verb) {
    const auto free = find(actions, kArrive);
    erase(actions, kArrive);
    const auto last = std::ranges::find_if(
        actions, [&](const ProtocolAction& a) { return a.verb == verb && a.row == 1; });
    actions.insert(last, free);
  };
  return {
      {"TheNextSlotIsReleased", Kind::kWrongParity, 2,
       in(2, [](auto& p) { find(group(p), kArrive).item_offset = 1; }), 3},
      {"TheSlotBeforeIsReleased", Kind::kDeadlock, 3,
       in(2,
          [](auto& p) {
            // The last one of a pipeline of two is held while the next one is waited for.
            find(group(p), kArrive).item_offset = -2;
          }),
       5},
      {"ReleasedBetweenTheRows", Kind::kOverwrite, 3,
       [before_the_last_row] {
         AsyncProtocol out = sound_unrolled_rows(2, SlotRelease::kEarly);
         before_the_last_row(group(out), kRead);
         return out;
       },
       5},
      {"EachRowIsReleased", Kind::kArrivalOverflow, 1,
       in(2, [](auto& p) { group(p).push_back(find(group(p), kArrive)); }), 2},
      {"ShortItemIsReadWhole", Kind::kUnfilledRead, 1,
       in(2, [](auto& p) { short_group(p).clear(); }), 1},
      {"ShortItemIsNotWaitedFor", Kind::kUnfilledRead, 1,
       in(2, [](auto& p) { erase(short_group(p), kWait); }), 1},
      {"OneTailReadsARowTooMany", Kind::kUnfilledRead, 1,
       in(4,
          [](auto& p) {
            for (ProtocolAction& action : short_group(p)) {
              if (action.verb == kRead && action.row == 2) action = {.verb = kRead, .row = 3};
            }
          }),
       1},
      {"OneTailIsReleasedTwice", Kind::kArrivalOverflow, 1,
       in(4,
          [](auto& p) {
            ProtocolAction free = find(short_group(p), kArrive);
            free.row = 2;
            free.where_row_exists = true;
            short_group(p).push_back(free);
          }),
       3},
      {"RowsThatAreNotThereAreAnnounced", Kind::kDeadlock, 1,
       in(2,
          [](auto& p) {
            auto& expect = find(producer(p), kExpect);
            expect.of_each_row = false;
            expect.bytes = 128;
          }),
       1},
      {"OneRowIsAnnounced", Kind::kHalfFilledRead, 1,
       in(2, [](auto& p) { find(producer(p), kExpect).of_each_row = false; }), 2},
      {"OneRowIsCopied", Kind::kDeadlock, 1,
       in(2, [](auto& p) { std::erase_if(producer(p), [](auto& a) { return a.row == 1; }); }), 2},
  };
}

INSTANTIATE_TEST_SUITE_P(SideRows, PlantedFault, testing::ValuesIn(faults_of_unrolled_rows()),
                         [](const auto& test) { return test.param.name; });

/// Three stages, two warps that hold an item while they start on the next.
std::vector<Fault> faults_of_products() {
  const auto in = [](auto change) {
    return [change] {
      AsyncProtocol out = product_protocol(3, 2, {64, 64}, 1);
      change(out);
      return out;
    };
  };
  return {
      {"ReleasedWhileItsProductGoesOn", Kind::kOverwrite, 4,
       in([](auto& p) { std::swap(group(p)[2], group(p)[3]); })},
      {"HoldsAsManyItemsAsThereAreStages", Kind::kDeadlock, 4,
       [] { return product_protocol(3, 2, {64}, 3); }},
      {"StartsBeforeTheItemHasArrived", Kind::kUnfilledRead, 1,
       in([](auto& p) { erase(group(p), kWait); })},
      {"OneWarpReleasesForAll", Kind::kLeftover, 1,
       in([](auto& p) { find(group(p), kArrive).first_warp_only = true; })},
  };
}
INSTANTIATE_TEST_SUITE_P(Products, PlantedFault, testing::ValuesIn(faults_of_products()),
                         testing::PrintToStringParamName());

TEST(AsyncProtocol, ProductsThatHoldFewerItemsThanStagesAreSound) {
  for (const int64_t stages : {2, 3, 4, 8}) {
    for (int64_t held = 0; held < std::min<int64_t>(stages, 3); ++held) {
      for (const int warps : {1, 4, 8}) {
        const auto fault = prove(product_protocol(stages, warps, {64, 4096, 4096}, held));
        EXPECT_FALSE(fault) << stages << " " << held << " " << warps << "\n" << fault->text();
      }
    }
  }
}

/// The proof finds a fault where the search of all interleavings does: in all tables but "sound".
void expect_as_all_interleavings(const AsyncProtocol& protocol, std::string_view name) {
  SCOPED_TRACE(fmt::format("{}, {} stages", name, protocol.stages));
  bool is_broken = false;
  for (int64_t items = 0; items <= 5 && !is_broken; ++items)
    is_broken = !faults_of_all_interleavings(protocol, items).empty();
  const auto fault = prove(protocol);
  EXPECT_EQ(fault.has_value(), is_broken) << (fault ? fault->text() : "");
  EXPECT_EQ(is_broken, name != "sound");
}

// Warps of their own rewrite a stage before the others multiply it.
TEST(AsyncProtocol, SplitsAreSound) {
  for (const int64_t stages : {2, 3, 4, 8}) {
    for (const int64_t held : {0, 1}) {
      for (const int splitting : {1, 3}) {
        const auto fault = prove(product_protocol(stages, 8, {64, 4096}, held, splitting));
        EXPECT_FALSE(fault) << stages << " " << held << " " << splitting << "\n" << fault->text();
      }
    }
  }
}

// The faults are also those that the search of all interleavings finds.
TEST(AsyncProtocol, FaultsOfSplitsAreThoseOfAllInterleavings) {
  using Change = std::function<void(AsyncProtocol&)>;
  const auto split = [](AsyncProtocol& p) -> auto& { return p.roles[1].actions; };
  const auto multiply = [](AsyncProtocol& p) -> auto& { return p.roles[2].actions; };
  const auto without = [](std::vector<ProtocolAction>& actions, PipelineBarrier barrier) {
    std::erase_if(actions, [&](const ProtocolAction& action) {
      return action.verb == ProtocolVerb::kWait && action.barrier == barrier;
    });
  };
  const std::vector<std::pair<const char*, Change>> changes = {
      {"sound", [](auto&) {}},
      {"an item is split before it has arrived", [&](auto& p) { erase(split(p), kWait); }},
      {"an item is multiplied before it is split",
       [&](auto& p) { without(multiply(p), PipelineBarrier::kSplit); }},
      {"the first warp's part is enough", [](auto& p) { p.split_arrivals = 1; }},
      {"one warp says that all have split",
       [&](auto& p) { find(split(p), kArrive).first_warp_only = true; }},
      {"an item is passed on before it is split",
       [&](auto& p) { std::swap(split(p)[1], split(p)[2]); }},
      {"nobody passes items on", [&](auto& p) { erase(split(p), kArrive); }},
      {"the wait for a split takes the other parity",
       [&](auto& p) { multiply(p)[1].other_parity = true; }},
      {"an item is released while its product goes on",
       [&](auto& p) { std::swap(multiply(p)[3], multiply(p)[4]); }},
      {"those who split release too", [&](auto& p) {
         split(p).push_back({.verb = kArrive, .barrier = PipelineBarrier::kEmpty});
         p.empty_arrivals += 1;
       }}};
  for (const auto& [name, change] : changes) {
    AsyncProtocol protocol = product_protocol(2, 1, {64}, 1, 2);
    change(protocol);
    expect_as_all_interleavings(protocol, name);
  }
  AsyncProtocol unsplit = product_protocol(2, 1, {64}, 1, 2);
  unsplit.split_arrivals = 0;
  const auto fault = prove(unsplit);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind, ProtocolFaultKind::kMalformed);
}

// Groups of warps that take turns, of fewer items than there are stages and of more.
TEST(AsyncProtocol, TurnsAreSound) {
  for (const int64_t stages : {2, 3, 4, 7}) {
    for (const int64_t items : {1, 2, 3, 4, 8, 13}) {
      for (const int64_t turns : {2, 3}) {
        const auto fault = prove(turns_protocol(stages, turns, 4, {64, 4096}, items));
        EXPECT_FALSE(fault) << stages << " " << items << " " << turns << "\n" << fault->text();
      }
    }
  }
}

TEST(AsyncProtocol, HandoversAreSound) {
  for (const int64_t stages : {1, 2, 3}) {
    for (const int writers : {1, 4, 8}) {
      for (const int readers : {1, 3, 7}) {
        const auto fault = prove(handover_protocol(stages, writers, readers));
        EXPECT_FALSE(fault) << stages << " " << writers << " " << readers << "\n" << fault->text();
      }
    }
  }
}

// The faults are also those that the search of all interleavings finds.
TEST(AsyncProtocol, FaultsOfHandoversAreThoseOfAllInterleavings) {
  using Change = std::function<void(AsyncProtocol&)>;
  const auto writes = [](AsyncProtocol& p) -> auto& { return p.roles[0].actions; };
  const auto reads = [](AsyncProtocol& p) -> auto& { return p.roles[1].actions; };
  const std::vector<std::pair<const char*, Change>> changes = {
      {"sound", [](auto&) {}},
      {"a tile is stored before it is given back", [&](auto& p) { erase(writes(p), kWait); }},
      {"the first store waits for a tile that nobody reads",
       [&](auto& p) { find(writes(p), kWait).other_parity = false; }},
      {"a tile is handed over before it is stored",
       [&](auto& p) { std::swap(writes(p)[1], writes(p)[2]); }},
      {"one warp hands over for all",
       [&](auto& p) { find(writes(p), kArrive).first_warp_only = true; }},
      {"the first warp's part is enough", [](auto& p) { p.full_arrivals = 1; }},
      {"a tile is read before it is handed over", [&](auto& p) { erase(reads(p), kWait); }},
      {"a tile is given back before it is read",
       [&](auto& p) { std::swap(reads(p)[1], reads(p)[2]); }},
      {"nobody gives back", [&](auto& p) { erase(reads(p), kArrive); }},
      {"the wait takes the other parity",
       [&](auto& p) { find(reads(p), kWait).other_parity = true; }}};
  for (const auto& [name, change] : changes) {
    for (const int64_t stages : {1, 2}) {
      AsyncProtocol protocol = handover_protocol(stages, 2, 2);
      change(protocol);
      expect_as_all_interleavings(protocol, name);
    }
  }
}

TEST(AsyncProtocol, ExchangesAreSoundWithTwoCopies) {
  for (const int blocks : {2, 4, 8, 16}) {
    for (const int64_t stages : {2, 3, 4}) {
      const auto fault = prove(exchange_protocol(blocks, stages));
      EXPECT_FALSE(fault) << blocks << " " << stages << "\n" << fault->text();
    }
    const auto fault = prove(exchange_protocol(blocks, 1));
    ASSERT_TRUE(fault) << "who is fast overwrites what others have not read";
    EXPECT_EQ(fault->kind, ProtocolFaultKind::kOverwrite) << fault->text();
  }
}

// The faults are also those that the search of all interleavings finds.
TEST(AsyncProtocol, FaultsOfExchangesAreThoseOfAllInterleavings) {
  using Change = std::function<void(AsyncProtocol&)>;
  const auto actions = [](AsyncProtocol& p) -> auto& { return p.roles[0].actions; };
  const std::vector<std::pair<const char*, Change>> changes = {
      {"sound", [](auto&) {}},
      {"a block sends after it has waited",
       [&](auto& p) { std::swap(actions(p)[1], actions(p)[2]); }},
      {"a block announces before it sends",
       [&](auto& p) { std::swap(actions(p)[0], actions(p)[1]); }},
      {"one block sends for all",
       [&](auto& p) { find(actions(p), kArrive).first_warp_only = true; }},
      {"one tuple is enough", [](auto& p) { p.full_arrivals = 1; }},
      {"tuples are read before they have come", [&](auto& p) { erase(actions(p), kWait); }},
      {"tuples are read in the next exchange",
       [&](auto& p) { find(actions(p), kRead).item_offset = -1; }},
      {"the wait takes the other parity",
       [&](auto& p) { find(actions(p), kWait).other_parity = true; }}};
  for (const auto& [name, change] : changes) {
    AsyncProtocol protocol = exchange_protocol(2);
    change(protocol);
    expect_as_all_interleavings(protocol, name);
  }
  expect_as_all_interleavings(exchange_protocol(2, 1), "one copy");
  expect_as_all_interleavings(exchange_protocol(3), "sound");
}

TEST(AsyncProtocol, LongTurnsAreProvedByShorterOnes) {
  for (const int64_t stages : {2, 5, 8}) {
    for (const int64_t items : {1, 7, 31, 64, 1000, 12345}) {
      const int64_t shorter = equivalent_turn(items, stages);
      EXPECT_EQ(shorter % (2 * stages), items % (2 * stages));
      EXPECT_LE(shorter, 4 * stages);
      EXPECT_LE(shorter, items);
    }
  }
}

/// The faults are also those that the search of all interleavings finds.
TEST(AsyncProtocol, FaultsOfTurnsAreThoseOfAllInterleavings) {
  using Change = std::function<void(std::vector<ProtocolAction>&, AsyncProtocol&)>;
  const auto find_at = [](std::vector<ProtocolAction>& actions, ProtocolVerb verb,
                          PipelineBarrier barrier) {
    return std::ranges::find_if(actions, [&](const ProtocolAction& action) {
      return action.verb == verb && action.barrier == barrier;
    });
  };
  const std::vector<std::pair<const char*, Change>> changes = {
      {"sound", [](auto&, auto&) {}},
      {"nobody waits for a turn",
       [&](auto& actions, auto&) { actions.erase(find_at(actions, kWait, kTurn)); }},
      {"nobody passes the turn on",
       [&](auto& actions, auto&) { actions.erase(find_at(actions, kArrive, kTurn)); }},
      {"the turn is passed on before the last item has arrived",
       [&](auto& actions, auto&) { std::swap(actions[1], *find_at(actions, kArrive, kTurn)); }},
      {"the turn is passed on after the first item",
       [&](auto& actions, auto&) { find_at(actions, kArrive, kTurn)->place = TurnPlace::kFirst; }},
      {"the last item is released before its product has ended",
       [&](auto& actions, auto&) { std::swap(actions[6], actions[7]); }},
      {"one warp passes the turn on for two",
       [&](auto& actions, auto&) { find_at(actions, kArrive, kTurn)->first_warp_only = true; }},
      {"the wait takes the other parity",
       [&](auto& actions, auto&) { find_at(actions, kWait, kTurn)->other_parity = true; }}};
  for (const auto& [name, change] : changes) {
    for (const int64_t items : {1, 2, 3}) {
      SCOPED_TRACE(fmt::format("{}, {} items a turn", name, items));
      AsyncProtocol protocol = turns_protocol(2, 2, name == changes[6].first ? 2 : 1, {64}, items);
      change(protocol.roles[1].actions, protocol);
      change(protocol.roles[2].actions, protocol);
      bool is_broken = false;
      for (int64_t turns = 0; turns <= 4 && !is_broken; ++turns)
        is_broken = !faults_of_all_interleavings(protocol, turns * items).empty();
      const auto fault = prove(protocol);
      EXPECT_EQ(fault.has_value(), is_broken) << (fault ? fault->text() : "");
      if (std::string_view(name) == "sound") {
        EXPECT_FALSE(is_broken);
      }
    }
  }
}

TEST(AsyncProtocol, AFaultOfSideRowsTellsTheRows) {
  AsyncProtocol protocol = sound_unrolled_rows(2);
  protocol.roles[1].short_actions.clear();
  const auto fault = prove(protocol);
  ASSERT_TRUE(fault);
  EXPECT_THAT(fault->text(), HasSubstr("with 1 items: item 0 has 1 rows, and row 1 is"));
  AsyncProtocol half = sound_unrolled_rows(2);
  find(producer(half), kExpect).of_each_row = false;
  EXPECT_THAT(prove(half)->text(), HasSubstr("with 1 items of 2 rows"));
  EXPECT_THAT(prove(pipeline_protocol(2, 1, 1, {64}, SlotRelease::kEarly, 17))->message,
              HasSubstr("rows of an item is 17"));
}

TEST(AsyncProtocol, AFaultIsAnErrorThatTellsTheInterleaving) {
  AsyncProtocol protocol = sound();
  erase(group(protocol), kWait);
  const Error error = prove(protocol)->error();
  EXPECT_EQ(error.kind, ErrorKind::kInternalError);
  EXPECT_THAT(error.message, HasSubstr("read of an unfilled stage"));
  EXPECT_THAT(error.remedy, Not(IsEmpty()));
  EXPECT_EQ(error.measured, 1);
  EXPECT_THAT(error.log, HasSubstr("1. group 0, warp 0: reads item 0 in stage 0"));
  EXPECT_THAT(error.log, HasSubstr("producer: 1 of 1 warps next waits for parity 1 of empty[0]"));
}

TEST(AsyncProtocol, NumbersOutOfRangeAreMalformed) {
  const auto message = [](auto change) {
    AsyncProtocol protocol = sound();
    change(protocol);
    const auto fault = prove(protocol);
    EXPECT_TRUE(fault && fault->kind == Kind::kMalformed);
    EXPECT_EQ(proved_items(protocol), 0);
    return fault ? fault->message : "";
  };
  EXPECT_THAT(message([](auto& p) { p.stages = 0; }), HasSubstr("stages is 0"));
  EXPECT_THAT(message([](auto& p) { p.roles.clear(); }), HasSubstr("warps is 0"));
  EXPECT_THAT(message([](auto& p) { p.full_arrivals = 0; }), HasSubstr("arrivals at full is 0"));
  EXPECT_THAT(message([](auto& p) { p.empty_arrivals = 1 << 20; }), HasSubstr("1048576"));
  EXPECT_THAT(message([](auto& p) { p.roles[1].step = 0; }), HasSubstr("step of group 0 is 0"));
  EXPECT_THAT(message([](auto& p) { p.roles[1].first = -1; }), HasSubstr("is -1"));
  EXPECT_THAT(message([](auto& p) { p.roles[1].warps = 32; }), HasSubstr("warps is 33"));
  EXPECT_THAT(message([](auto& p) { find(producer(p), kCopy).bytes = 24; }),
              HasSubstr("24, not a multiple of 16"));
  EXPECT_THAT(message([](auto& p) { find(producer(p), kExpect).bytes = 1 << 20; }),
              HasSubstr("1048576"));
  EXPECT_THAT(message([](auto& p) { p.roles[1].step = 4001; }), HasSubstr("items to prove"));
}

TEST(AsyncProtocol, ARoleWithoutActionsIsSound) {
  EXPECT_FALSE(prove({.roles = {{.name = "idle"}}}));
}

RC_GTEST_PROP(AsyncProtocol, EveryRingWhoseSlotsBelongToGroupsIsSound, ()) {
  const int groups = *rc::gen::inRange(1, 5);
  const auto stages = groups * *rc::gen::inRange<int64_t>(1, 12 / groups + 1);
  const int warps = *rc::gen::inRange(1, 31 / groups + 1);
  const auto copies = *rc::gen::container<std::vector<int64_t>>(
      *rc::gen::inRange<size_t>(1, 5), rc::gen::element<int64_t>(16, 64, 4096));
  const auto release = *rc::gen::element(SlotRelease::kEarly, SlotRelease::kLate);
  const auto rows = *rc::gen::element<int64_t>(1, 2, 4);
  const auto fault = prove(pipeline_protocol(stages, groups, warps, copies, release, rows));
  if (fault) RC_FAIL(fault->text());
}

// A group must know that its slot is a round further than the parity says.
RC_GTEST_PROP(AsyncProtocol, EveryRingWhoseSlotsChangeGroupsIsRefused, ()) {
  const int groups = *rc::gen::inRange(2, 5);
  const auto stages = *rc::gen::inRange<int64_t>(1, 13);
  RC_PRE(stages % groups != 0);
  const auto rows = *rc::gen::element<int64_t>(1, 2, 4);
  const auto fault = prove(pipeline_protocol(stages, groups, 2, {64}, SlotRelease::kEarly, rows));
  RC_ASSERT(fault.has_value());
  RC_ASSERT(fault->kind == Kind::kWrongParity);
}

/// A small sound table with a few random changes.
AsyncProtocol changed_protocol() {
  const auto coin = [] { return *rc::gen::inRange(0, 2); };
  const int groups = 1 + coin();
  AsyncProtocol out = pipeline_protocol(
      groups * *rc::gen::inRange<int64_t>(1, 4 - groups), groups, groups == 2 ? 1 : 1 + coin(),
      coin() != 0 ? std::vector<int64_t>{64} : std::vector<int64_t>{16, 64},
      coin() != 0 ? SlotRelease::kEarly : SlotRelease::kLate, 1 + coin());
  const int changes = *rc::gen::inRange(1, 3);
  for (int i = 0; i < changes; ++i) {
    const auto role = *rc::gen::inRange<size_t>(0, out.roles.size());
    auto& actions = coin() != 0 ? out.roles[role].actions : out.roles[role].short_actions;
    if (actions.empty()) continue;
    const auto at = *rc::gen::inRange<size_t>(0, actions.size());
    const auto other = *rc::gen::inRange<size_t>(0, actions.size());
    ProtocolAction& action = actions[at];
    switch (*rc::gen::inRange(0, 14)) {
      case 0:
        actions.erase(actions.begin() + static_cast<std::ptrdiff_t>(at));
        break;
      case 1:
        std::swap(action, actions[other]);
        break;
      case 2:
        action.other_parity = !action.other_parity;
        break;
      case 3:
        action.first_warp_only = !action.first_warp_only;
        break;
      case 4:
        action.item_offset = *rc::gen::inRange<int64_t>(-3, 3);
        break;
      case 5:
        action.bytes = *rc::gen::element<int64_t>(16, 32, 64, 80);
        break;
      case 6:
        action.barrier = action.barrier == kFull ? kEmpty : kFull;
        break;
      case 7:
        out.empty_arrivals = *rc::gen::inRange<int64_t>(1, 4);
        break;
      case 8:
        out.full_arrivals = *rc::gen::inRange<int64_t>(1, 3);
        break;
      case 9:
        out.roles[role].first = *rc::gen::inRange<int64_t>(0, 3);
        break;
      case 10:
        actions.insert(actions.begin() + static_cast<std::ptrdiff_t>(other), action);
        break;
      case 11:
        action.row = *rc::gen::inRange<int64_t>(0, out.item_rows);
        break;
      case 12:
        action.where_row_exists = !action.where_row_exists;
        break;
      case 13:
        action.of_each_row = !action.of_each_row;
        break;
    }
  }
  return out;
}

RC_GTEST_PROP(AsyncProtocol, TheProofAgreesWithAllInterleavings, ()) {
  const AsyncProtocol protocol = changed_protocol();
  const auto fault = prove(protocol);
  if (fault && fault->kind == Kind::kMalformed) RC_DISCARD("no table");
  RC_CLASSIFY(!fault, "sound");
  constexpr int64_t kMostExplored = 5;
  for (int64_t rows = 0; rows <= kMostExplored; ++rows) {
    const auto found = faults_of_all_interleavings(protocol, rows);
    RC_LOG() << rows << " rows\n" << (fault ? fault->text() : "proved\n");
    if (!fault || rows < fault->rows) {
      RC_ASSERT(found.empty());
    } else {
      RC_ASSERT(found.contains(fault->kind));
      RC_ASSERT(fault->interleaving.size() >= found.at(fault->kind));
      break;
    }
  }
}

}  // namespace sinter::async_protocol_test
