#include "tests/fuzz/mutation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>

#include "tests/fuzz/memory_limit.h"

namespace sinter {

std::string mutate(std::string text, std::span<const std::string_view> pieces,
                   std::mt19937_64& random) {
  const auto below = [&](size_t n) { return n == 0 ? 0 : static_cast<size_t>(random() % n); };
  const size_t changes = 1 + below(4);
  for (size_t i = 0; i < changes; ++i) {
    const size_t at = below(text.size());
    const size_t length = std::min(below(24), text.size() - at);
    switch (below(6)) {
      case 0:
        text.erase(at, length);
        break;
      case 1:
        if (!text.empty()) text[at] = static_cast<char>(random());
        break;
      case 2:
        text.insert(at, pieces[below(pieces.size())]);
        break;
      case 3:
        text.insert(below(text.size()), text.substr(at, length));
        break;
      case 4:
        text.replace(at, length, pieces[below(pieces.size())]);
        break;
      default:
        if (random() % 16 == 0) text.resize(at);
        break;
    }
  }
  return text;
}

void fuzz(std::span<const std::string_view> seeds, std::span<const std::string_view> pieces,
          int seconds, const std::function<void(const std::string&)>& check) {
  const char* asked = std::getenv("SINTER_FUZZ_SECONDS");
  const std::chrono::seconds budget(asked != nullptr ? std::atoi(asked) : seconds);
  const auto start = std::chrono::steady_clock::now();
  const MemoryLimit limit(kMostFuzzBytes);
  constexpr uint64_t kSeed = 20240617;
  testing::Test::RecordProperty("seed", std::to_string(kSeed));
  std::mt19937_64 random(kSeed);
  size_t runs = 0;
  while (std::chrono::steady_clock::now() - start < budget && !testing::Test::HasFatalFailure()) {
    std::string text(seeds[runs % seeds.size()]);
    // Some mutants go through several rounds, to drift further from the grammar.
    for (uint64_t rounds = 1 + random() % 3; rounds > 0; --rounds) {
      text = mutate(std::move(text), pieces, random);
    }
    try {
      check(text);
    } catch (const std::exception& error) {
      FAIL() << "throws " << error.what() << " for\n" << text;
    }
    ++runs;
  }
  testing::Test::RecordProperty("texts", std::to_string(runs));
  EXPECT_GT(runs, 100U);
}

}  // namespace sinter
