#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <string_view>

namespace sinter {

/// A text with one to four changes drawn from `random`: bytes erased, overwritten, repeated or cut
/// off, and pieces of the language put in or in place of others.
std::string mutate(std::string text, std::span<const std::string_view> pieces,
                   std::mt19937_64& random);

/// Calls `check` with mutants of the seeds from a fixed seed, for SINTER_FUZZ_SECONDS or else
/// `seconds`, until a fatal failure, in bounded memory (memory_limit.h). What throws fails the test
/// too. Expects that some hundred texts were tried.
void fuzz(std::span<const std::string_view> seeds, std::span<const std::string_view> pieces,
          int seconds, const std::function<void(const std::string&)>& check);

}  // namespace sinter
