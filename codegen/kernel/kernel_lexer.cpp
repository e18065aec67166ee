#include "codegen/kernel/kernel_lexer.h"

#include <algorithm>
#include <charconv>

namespace sinter {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_word_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' || c == '.';
}

}  // namespace

void KernelLexer::skip_blanks() {
  bool skipped_line = false;
  for (; at_ < text_.size(); ++at_) {
    const char c = text_[at_];
    if (c == '\n') {
      skipped_line = false;
      ++line_;
      line_start_ = at_ + 1;
    } else if (c == ';') {
      skipped_line = true;
    } else if (!skipped_line && c != ' ' && c != '\t' && c != '\r') {
      return;
    }
  }
}

/// A sign belongs to a number after its exponent letter: 1e-5, 0x1p-1.
void KernelLexer::skip_word(size_t start) {
  const size_t digits = start + (text_[start] == '-' ? 1 : 0);
  const bool is_number = is_digit(text_[digits]);
  const std::string_view exponents = text_.substr(digits, 2) == "0x" ? "pP" : "eE";
  for (; at_ < text_.size(); ++at_) {
    const bool is_sign = (text_[at_] == '+' || text_[at_] == '-') && is_number &&
                         exponents.find(text_[at_ - 1]) != std::string_view::npos;
    if (!is_word_byte(text_[at_]) && !is_sign) return;
  }
}

KernelToken KernelLexer::next() {
  skip_blanks();
  const size_t start = at_;
  KernelToken token{.line = line_, .column = at_ - line_start_ + 1};
  if (at_ == text_.size()) return token;
  const char first = text_[at_++];
  token.kind = KernelTokenKind::kPunctuation;
  const bool more = at_ < text_.size();
  if (is_word_byte(first) || (first == '-' && more && is_word_byte(text_[at_]))) {
    token.kind = KernelTokenKind::kWord;
    skip_word(start);
  } else if (first == '%') {
    token.kind = KernelTokenKind::kId;
    while (at_ < text_.size() && is_word_byte(text_[at_])) ++at_;
  } else if (first == '/' && more && text_[at_] == '/') {
    token.kind = KernelTokenKind::kComment;
    at_ = std::min(text_.find('\n', at_), text_.size());
  } else if (first == '"') {
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n') {
      const bool escape = text_[at_] == '\\' && at_ + 1 < text_.size() && text_[at_ + 1] != '\n';
      at_ += escape ? 2U : 1U;
    }
    if (at_ < text_.size() && text_[at_] == '"') {
      ++at_;
      token.kind = KernelTokenKind::kString;
    }
  }
  token.text = text_.substr(start, at_ - start);
  return token;
}

std::string unescaped(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      result += text[i];
      continue;
    }
    const char escape = text[i + 1];
    unsigned byte = 0;
    if (escape == '"' || escape == '\\') {
      result += escape;
      i += 1;
    } else if (escape == 'x' && i + 3 < text.size() &&
               std::from_chars(&text[i + 2], &text[i + 2] + 2, byte, 16).ptr == &text[i + 2] + 2) {
      result += static_cast<char>(byte);
      i += 3;
    } else {
      result += text[i];
    }
  }
  return result;
}

}  // namespace sinter
