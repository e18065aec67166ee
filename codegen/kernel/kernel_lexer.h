#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sinter {

enum class KernelTokenKind : uint8_t {
  kWord,         ///< Name, keyword or number.
  kId,           ///< %r12
  kString,       ///< A quoted name, quotes included.
  kComment,      ///< From // to the end of the line.
  kPunctuation,  ///< One byte, also one that no rule expects.
  kEnd,
};

struct KernelToken {
  KernelTokenKind kind = KernelTokenKind::kEnd;
  std::string_view text{};
  size_t line = 1;
  size_t column = 1;
};

/// Splits .kir text into tokens. The rest of a line after ';' is skipped.
class KernelLexer {
 public:
  explicit KernelLexer(std::string_view text) : text_(text) {}
  KernelToken next();

 private:
  void skip_blanks();
  void skip_word(size_t start);

  std::string_view text_;
  size_t at_ = 0;
  size_t line_ = 1;
  size_t line_start_ = 0;
};

/// The inverse of `escaped` (fusion_ir/printer.h). Escapes that `escaped` never makes are left as
/// they are.
std::string unescaped(std::string_view text);

}  // namespace sinter
