#include "codegen/kernel/kernel_token_reader.h"

#include <optional>

#include "fusion_ir/nearest_name.h"
#include "fusion_ir/op_names.h"
#include "fusion_ir/printer.h"
#include "fusion_ir/text_position.h"

namespace sinter {

void KernelTokenReader::fail_at(const KernelToken& token, std::string_view message,
                                std::span<const std::string_view> names) {
  constexpr size_t kShownBytes = 40;
  const std::string found = token.kind == KernelTokenKind::kEnd
                                ? "end of text"
                                : fmt::format("'{}'", escaped(token.text.substr(0, kShownBytes)));
  throw_error(
      {.kind = ErrorKind::kInvalidArgument,
       .message = message_at(token.line, token.column, fmt::format("{}, found {}", message, found)),
       .remedy =
           suggestion(token.text, names, "compare with what `sinter emit --form kir` prints")});
}

KernelToken KernelTokenReader::take() {
  tried_.clear();
  const KernelToken token = token_;
  token_ = lexer_.next();
  return token;
}

bool KernelTokenReader::accept_word(std::string_view word) {
  if (!at_word(word)) {
    tried_.push_back(word);
    return false;
  }
  take();
  return true;
}

void KernelTokenReader::expect_word(std::string_view word) {
  if (!accept_word(word)) fail_here(fmt::format("expected '{}'", word));
}

bool KernelTokenReader::accept(std::string_view text) {
  if (token_.kind != KernelTokenKind::kPunctuation || token_.text != text) return false;
  take();
  return true;
}

void KernelTokenReader::expect(std::string_view text) {
  if (!accept(text)) fail_here(fmt::format("expected '{}'", text));
}

std::string KernelTokenReader::name() {
  if (token_.kind == KernelTokenKind::kWord) return std::string(take().text);
  if (token_.kind != KernelTokenKind::kString) fail_here("expected a name");
  const std::string_view quoted = take().text;
  return unescaped(quoted.substr(1, quoted.size() - 2));
}

DType KernelTokenReader::type() {
  const auto found =
      token_.kind == KernelTokenKind::kWord ? dtype_from_name(token_.text) : std::nullopt;
  if (!found) fail_here("expected an element type", dtype_names());
  take();
  return *found;
}

}  // namespace sinter
