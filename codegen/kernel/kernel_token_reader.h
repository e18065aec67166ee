#pragma once

#include <fmt/format.h>

#include <charconv>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/kernel/kernel_lexer.h"
#include "fusion_ir/dtype.h"
#include "fusion_ir/error.h"
#include "fusion_ir/id.h"

namespace sinter {

/// Reads the tokens of .kir text one by one, with their values: the part of the parser that is
/// independent of the kernel. A token that is not as expected throws kInvalidArgument with its
/// position.
class KernelTokenReader {
 protected:
  explicit KernelTokenReader(std::string_view text) : lexer_(text), token_(lexer_.next()) {}

  /// `names` are the words that are valid there.
  [[noreturn]] static void fail_at(const KernelToken& token, std::string_view message,
                                   std::span<const std::string_view> names = {});
  [[noreturn]] void fail_here(std::string_view message,
                              std::span<const std::string_view> names = {}) const {
    fail_at(token_, message, names.empty() ? tried_ : names);
  }

  KernelToken take();
  [[nodiscard]] bool at_word(std::string_view word) const {
    return token_.kind == KernelTokenKind::kWord && token_.text == word;
  }
  bool accept_word(std::string_view word);
  void expect_word(std::string_view word);
  /// Punctuation.
  bool accept(std::string_view text);
  void expect(std::string_view text);

  std::string name();
  DType type();

  template <class Int>
  static bool read_integer(std::string_view text, Int* value, int base = 10) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value, base);
    return error == std::errc{} && end == text.data() + text.size();
  }

  template <class Int = int64_t>
  Int integer() {
    Int value = 0;
    if (token_.kind != KernelTokenKind::kWord || !read_integer(token_.text, &value)) {
      fail_here("expected an integer in range");
    }
    take();
    return value;
  }

  /// Reads an id with a tag's prefix; it need not exist yet.
  template <class Tag>
  Id<Tag> new_id() {
    const std::string_view prefix = Tag::kPrefix;
    Id<Tag> id;
    const bool matches =
        at_id(prefix) && read_integer(token_.text.substr(prefix.size()), &id.index) && id.valid();
    if (!matches) fail_here(fmt::format("expected an id like {}0", prefix));
    take();
    return id;
  }
  [[nodiscard]] bool at_id(std::string_view prefix) const {
    return token_.kind == KernelTokenKind::kId && token_.text.starts_with(prefix);
  }

  [[nodiscard]] const KernelToken& token() const { return token_; }

 private:
  KernelLexer lexer_;
  KernelToken token_;                    ///< The next token, not taken yet.
  std::vector<std::string_view> tried_;  ///< Words tried at this token; for messages.
};

}  // namespace sinter
