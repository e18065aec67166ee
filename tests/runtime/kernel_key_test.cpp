#include "runtime/cache/kernel_key.h"

#include <gmock/gmock.h>

#include <set>
#include <vector>

namespace sinter::kernel_key_test {

struct KeyInputs {
  KernelSource source;
  std::vector<EmbeddedHeader> headers = {{.name = "a.cuh", .text = "int a;"}};
  std::vector<std::string> options = {"--gpu-architecture=sm_90a", "--std=c++17"};
  std::string compiler = "13.0 build";

  [[nodiscard]] KernelKey key() const { return kernel_key(source, headers, options, compiler); }
};

KeyInputs sample_inputs() {
  KeyInputs inputs;
  inputs.source.entry = "k";
  inputs.source.text = "void k() {}";
  return inputs;
}

TEST(KernelKey, EqualInputsGiveEqualKeys) {
  EXPECT_EQ(sample_inputs().key(), sample_inputs().key());
}

TEST(KernelKey, ChangesWithEverythingThatDecidesTheCode) {
  std::vector<KeyInputs> variants(11, sample_inputs());
  variants[1].source.entry = "l";
  variants[2].source.text += " ";
  variants[3].headers[0].text = "int b;";
  variants[4].headers[0].name = "b.cuh";
  variants[5].headers.clear();
  variants[6].options[0] = "--gpu-architecture=sm_80";
  variants[7].options.emplace_back("--use_fast_math");
  variants[8].compiler = "13.0 other build";
  // The same bytes cut differently.
  variants[9].source.entry = "kv";
  variants[9].source.text = "oid k() {}";
  variants[10].options = {"--gpu-architecture=sm_90a--std=c++17"};
  std::set<KernelKey> keys;
  for (const KeyInputs& inputs : variants) keys.insert(inputs.key());
  EXPECT_EQ(keys.size(), variants.size());
}

// Problems that differ only in the number of rows share a compiled kernel.
TEST(KernelKey, IgnoresWhatIsGivenAtLaunch) {
  KeyInputs other = sample_inputs();
  other.source.params = {DType::kI64};
  other.source.param_values = {123};
  other.source.work_per_block = 4;
  EXPECT_EQ(other.key(), sample_inputs().key());
}

TEST(KernelKey, ReadsBackItsHexForm) {
  const KernelKey key = {.high = 1, .low = 0xabcdef0123456789};
  EXPECT_EQ(key.hex(), "0000000000000001abcdef0123456789");
  EXPECT_EQ(KernelKey::from_hex(key.hex()), key);
}

TEST(KernelKey, RejectsWhatIsNoHexForm) {
  for (const char* hex :
       {"", "1", "0000000000000001abcdef012345678", "not hex at all, but 32 chars....",
        "0000000000000001abcdef01234567890", "-000000000000001abcdef0123456789"}) {
    EXPECT_EQ(KernelKey::from_hex(hex), std::nullopt) << hex;
  }
}

}  // namespace sinter::kernel_key_test
