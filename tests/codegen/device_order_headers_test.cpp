#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/device/device_headers.h"

// What the kernel IR does not show and no host can run: the instructions by which the threads of a
// kernel order their memory accesses, and the policies with which they load. Their text is the PTX
// that is assembled, so it is compared with a table of what the PTX ISA asks for.

namespace sinter::device_order_headers_test {

using ::testing::ElementsAreArray;

std::string header(std::string_view name) {
  for (const EmbeddedHeader& embedded : embedded_device_headers()) {
    if (embedded.name == name) return std::string(embedded.text);
  }
  ADD_FAILURE() << "no header " << name;
  return {};
}

/// From a declaration to the end of its body, without the bodies of others.
std::string definition(const std::string& text, std::string_view declaration) {
  const size_t begin = text.find(declaration);
  EXPECT_NE(begin, std::string::npos) << declaration;
  if (begin == std::string::npos) return {};
  int depth = 0;
  for (size_t at = text.find('{', begin); at < text.size(); ++at) {
    if (text[at] == '"') at = text.find('"', at + 1);  // Instructions have braces of their own.
    if (text[at] == '{') ++depth;
    if (text[at] == '}' && --depth == 0) return text.substr(begin, at - begin);
  }
  return text.substr(begin);
}

size_t count_of(std::string_view text, std::string_view what) {
  size_t out = 0;
  for (size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at + 1))
    ++out;
  return out;
}

/// The literals of asm statements that begin with an instruction, up to its operands.
std::vector<std::string> instructions(std::string_view body) {
  std::vector<std::string> out;
  for (size_t at = body.find('"'); at != std::string_view::npos; at = body.find('"', at + 1)) {
    const size_t end = body.find('"', at + 1);
    const std::string_view literal = body.substr(at + 1, end - at - 1);
    at = end;
    const size_t name_end = literal.find_first_of(" ;");
    if (name_end == std::string_view::npos) continue;
    const std::string_view name = literal.substr(0, name_end);
    if (name.find('.') != std::string_view::npos && name.front() != '.') out.emplace_back(name);
  }
  return out;
}

struct OrderedFunction {
  const char* header;
  const char* declaration;
  std::vector<std::string> instructions;  ///< In this order.
};

class DeviceOrderHeadersTest : public ::testing::TestWithParam<OrderedFunction> {};

TEST_P(DeviceOrderHeadersTest, AskForTheOrderThatKernelsRelyOn) {
  const std::string body = definition(header(GetParam().header), GetParam().declaration);
  EXPECT_THAT(instructions(body), ElementsAreArray(GetParam().instructions));
  // Neither removed nor moved by the compiler, nor are accesses of memory across it.
  EXPECT_EQ(count_of(body, "asm volatile("), count_of(body, "asm")) << body;
  EXPECT_EQ(count_of(body, "\"memory\")"), count_of(body, "asm")) << body;
}

INSTANTIATE_TEST_SUITE_P(
    All, DeviceOrderHeadersTest,
    ::testing::Values(
        OrderedFunction{"device_order.cuh", "void device_fence()", {"fence.acq_rel.gpu"}},
        OrderedFunction{"device_order.cuh", "int atomic_count(", {"atom.relaxed.gpu.inc.u32"}},
        OrderedFunction{"mbarrier.cuh", "void mbarrier_init(", {"mbarrier.init.shared::cta.b64"}},
        OrderedFunction{
            "mbarrier.cuh", "void mbarrier_fence_init()", {"fence.mbarrier_init.release.cluster"}},
        OrderedFunction{
            "mbarrier.cuh",
            "void mbarrier_arrive(",
            {"fence.proxy.async.shared::cta", "mbarrier.arrive.release.cta.shared::cta.b64"}},
        OrderedFunction{"mbarrier.cuh", "void proxy_fence()", {"fence.proxy.async.shared::cta"}},
        OrderedFunction{"mbarrier.cuh",
                        "void mbarrier_expect_bytes(",
                        {"mbarrier.arrive.expect_tx.release.cta.shared::cta.b64"}},
        OrderedFunction{"mbarrier.cuh",
                        "void mbarrier_wait(",
                        {"mbarrier.try_wait.parity.acquire.cta.shared::cta.b64", "selp.u32"}},
        OrderedFunction{"mbarrier.cuh",
                        "void bulk_copy(",
                        {"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"}},
        OrderedFunction{"mbarrier.cuh",
                        "void bulk_copy_with(",
                        {"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::"
                         "cache_hint"}},
        OrderedFunction{"mbarrier.cuh", "void group_barrier(", {"barrier.sync.aligned"}},
        OrderedFunction{
            "cluster.cuh",
            "void cluster_barrier()",
            {"barrier.cluster.arrive.release.aligned", "barrier.cluster.wait.acquire.aligned"}},
        OrderedFunction{
            "cluster.cuh", "void cluster_arrive()", {"barrier.cluster.arrive.relaxed.aligned"}},
        OrderedFunction{
            "cluster.cuh", "void cluster_wait()", {"barrier.cluster.wait.acquire.aligned"}},
        OrderedFunction{"cluster.cuh",
                        "void mbarrier_wait_cluster(",
                        {"mbarrier.try_wait.parity.acquire.cta.shared::cta.b64", "selp.u32"}},
        OrderedFunction{"cluster.cuh",
                        "void cluster_store(const float*",
                        {"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f32"}},
        OrderedFunction{"cluster.cuh",
                        "void cluster_store(const double*",
                        {"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f64"}},
        OrderedFunction{"cluster.cuh",
                        "void cluster_store(const int*",
                        {"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.s32"}},
        OrderedFunction{"cluster.cuh",
                        "void cluster_store(const long long*",
                        {"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.s64"}},
        OrderedFunction{"cluster.cuh",
                        "void cluster_store(const T* shared, int block, const Vec<T, 2>&",
                        {"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32"}},
        OrderedFunction{"cluster.cuh",
                        "void cluster_store(const T* shared, int block, const Vec<T, 4>&",
                        {"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32"}},
        OrderedFunction{"message.cuh",
                        "void message_store(unsigned long long* place, int number, T value)",
                        {"st.relaxed.gpu.b64"}},
        OrderedFunction{"message.cuh",
                        "void message_store(unsigned long long* place, int number, T first, U "
                        "second)",
                        {"st.relaxed.gpu.v2.b64"}},
        OrderedFunction{
            "message.cuh", "void message_words(", {"ld.relaxed.gpu.v2.b64", "ld.relaxed.gpu.b64"}},
        OrderedFunction{"dependent_launch.cuh",
                        "void launch_dependents()",
                        {"griddepcontrol.launch_dependents"}},
        OrderedFunction{
            "dependent_launch.cuh", "void wait_for_previous()", {"griddepcontrol.wait"}},
        OrderedFunction{"async_copy.cuh",
                        "void async_copy(",
                        {"cp.async.cg.shared.global", "cp.async.ca.shared.global"}},
        OrderedFunction{"async_copy.cuh",
                        "void async_copy(void* shared, const void* global, bool predicate)",
                        {"cp.async.cg.shared.global", "cp.async.ca.shared.global"}},
        OrderedFunction{"async_copy.cuh", "void async_commit()", {"cp.async.commit_group"}},
        OrderedFunction{"async_copy.cuh", "void async_wait()", {"cp.async.wait_all"}},
        OrderedFunction{"async_copy.cuh", "void async_wait_groups()", {"cp.async.wait_group"}}),
    [](const auto& test) {
      std::string name;
      for (const char c : std::string_view(test.param.declaration)) {
        if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_') name += c;
      }
      return name;
    });

/// Text without white space, so that only what it says counts.
std::string packed(std::string text) {
  std::erase_if(text, [](unsigned char c) { return std::isspace(c) != 0 || c == '\\'; });
  return text;
}

TEST(DevicePolicyHeadersTest, PoliciesAreThoseOfTheirNames) {
  const std::string vector = header("vector.cuh");
  for (const std::string_view name : {"evict_first", "evict_last"}) {
    EXPECT_THAT(instructions(definition(vector, fmt::format("long long {}_policy()", name))),
                testing::ElementsAre(fmt::format("createpolicy.fractional.L2::{}.b64", name)));
  }
  // Loads and copies take the policy of their name.
  const std::string text = packed(vector) + packed(header("mbarrier.cuh"));
  for (const std::string_view name : {"evict_first", "evict_last"}) {
    EXPECT_THAT(text, testing::HasSubstr(fmt::format(
                          "(load_packet_{0},load_packet,\"ld.global.nc\",{0}_policy)", name)));
    EXPECT_THAT(text, testing::HasSubstr(fmt::format("(load_packet_written_{0},load_packet_written,"
                                                     "\"ld.global\",{0}_policy,:\"memory\")",
                                                     name)));
    EXPECT_THAT(text, testing::HasSubstr(fmt::format("bulk_copy_with({}_policy(),shared", name)));
  }
}

TEST(DevicePolicyHeadersTest, WhatIsWrittenIsReadThroughTheCoherentPath) {
  const std::string text = packed(header("vector.cuh"));
  EXPECT_THAT(text, testing::HasSubstr("(load_packet,\"ld.global.nc\")"));
  EXPECT_THAT(text, testing::HasSubstr("(load_packet_written,\"ld.global\",:\"memory\")"));
  EXPECT_THAT(text, testing::HasSubstr("(store_packet,\"st.global\")"));
}

TEST(DeviceOrderHeaders, TensorCopiesArriveAtTheirMbarrier) {
  EXPECT_THAT(
      packed(header("tensor_map.cuh")),
      testing::AllOf(
          testing::HasSubstr(
              "asmvolatile(\"cp.async.bulk.tensor.\"axes\".shared::cluster.global."
              "tile.mbarrier::complete_tx::bytes\"suffix\"[%0],[%1,{\"operands\";\""),
          testing::HasSubstr("(tensor_copy,\"\",axes,operands\"}],[%2]\","),
          testing::HasSubstr("(tensor_copy_evict_first,\".L2::cache_hint\",axes,operands\"}],[%2],"
                             "\"policy,")));
}

std::string without_comments(std::string_view text) {
  std::string out(text);
  for (size_t at = out.find("//"); at != std::string::npos; at = out.find("//", at))
    out.erase(at, out.find('\n', at) - at);
  return out;
}

/// A header that gets another instruction of these kinds gets a line in the table.
TEST(DeviceOrderHeaders, NoInstructionOfOrderStandsOutsideTheTable) {
  size_t in_headers = 0;
  for (const EmbeddedHeader& embedded : embedded_device_headers()) {
    if (embedded.name == "vector.cuh") continue;
    for (const std::string_view kind :
         {"\"fence.", "\"atom.", "\"red.", "\"mbarrier.", "\"membar.", "\"barrier.",
          "\"griddepcontrol.", "\"cp.async", "\"st.", "\"ld.relaxed"})
      in_headers += count_of(without_comments(embedded.text), kind);
    in_headers -= count_of(embedded.text, "#include \"mbarrier.cuh\"");
  }
  EXPECT_EQ(in_headers, 37U);
}

}  // namespace sinter::device_order_headers_test
