#include "fusion_ir/parser.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <map>

#include "fusion_ir/fusion_builder.h"
#include "fusion_ir/nearest_name.h"
#include "fusion_ir/op_names.h"
#include "fusion_ir/printer.h"
#include "fusion_ir/text_position.h"

namespace sinter {
namespace {

enum class TokenKind : uint8_t {
  kWord,         ///< An identifier, a dotted op name or a number.
  kValue,        ///< %v12
  kString,       ///< A quoted name, quotes included.
  kPunctuation,  ///< One byte, also one that no rule expects.
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string_view text{};
  size_t line = 1;
  size_t column = 1;
};

[[noreturn]] void fail_at(const Token& token, Error error) {
  constexpr size_t kShownBytes = 40;
  const std::string found = token.kind == TokenKind::kEnd
                                ? "end of text"
                                : fmt::format("'{}'", escaped(token.text.substr(0, kShownBytes)));
  error.message =
      message_at(token.line, token.column, fmt::format("{}, found {}", error.message, found));
  throw_error(std::move(error));
}

/// `names` are those that could stand there.
[[noreturn]] void fail_at(const Token& token, std::string message,
                          std::span<const std::string_view> names = {}) {
  fail_at(token,
          Error{.kind = ErrorKind::kInvalidFusion,
                .message = std::move(message),
                .remedy = suggestion(token.text, names,
                                     "compare with what `sinter plan softmax --form fir` prints")});
}

/// Runs a builder call and gives its error the position of a token.
template <class Call>
auto located(const Token& token, Call call) {
  try {
    return call();
  } catch (const SinterException& exception) {
    if (exception.error().kind != ErrorKind::kInvalidFusion) throw;
    fail_at(token, exception.error());
  }
}

bool is_word_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.';
}

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  Token next() {
    skip_blanks();
    const size_t start = at_;
    const Token token{TokenKind::kEnd, {}, line_, at_ - line_start_ + 1};
    if (at_ == text_.size()) return token;
    TokenKind kind = TokenKind::kPunctuation;
    const char first = text_[at_++];
    if (is_word_byte(first) || (first == '-' && at_ < text_.size() && is_word_byte(text_[at_]))) {
      kind = TokenKind::kWord;
      skip_word(start);
    } else if (first == '%') {
      kind = TokenKind::kValue;
      while (at_ < text_.size() && is_word_byte(text_[at_])) ++at_;
    } else if (first == '"') {
      while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n') {
        at_ += text_[at_] == '\\' && at_ + 1 < text_.size() && text_[at_ + 1] != '\n' ? 2U : 1U;
      }
      if (at_ < text_.size() && text_[at_] == '"') {
        ++at_;
        kind = TokenKind::kString;
      }
    }
    return {kind, text_.substr(start, at_ - start), token.line, token.column};
  }

 private:
  void skip_blanks() {
    bool comment = false;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\n') {
        comment = false;
        ++line_;
        line_start_ = at_ + 1;
      } else if (c == ';') {
        comment = true;
      } else if (!comment && c != ' ' && c != '\t' && c != '\r') {
        return;
      }
    }
  }

  /// A sign belongs to a number after its exponent letter: 1e-5, 0x1p-1.
  void skip_word(size_t start) {
    const bool number = text_[start] == '-' || (text_[start] >= '0' && text_[start] <= '9');
    const size_t digits = start + (text_[start] == '-' ? 1 : 0);
    const std::string_view exponents = text_.substr(digits, 2) == "0x" ? "pP" : "eE";
    for (; at_ < text_.size(); ++at_) {
      const bool sign = (text_[at_] == '+' || text_[at_] == '-') && number &&
                        exponents.find(text_[at_ - 1]) != std::string_view::npos;
      if (!is_word_byte(text_[at_]) && !sign) return;
    }
  }

  std::string_view text_;
  size_t at_ = 0;
  size_t line_ = 1;
  size_t line_start_ = 0;
};

class Parser {
 public:
  explicit Parser(std::string_view text, std::span<const ReductionTraits> reductions = {})
      : lexer_(text), token_(lexer_.next()), reductions_(reductions) {}
  /// Reads a piece of text for a builder at work.
  Parser(std::string_view text, FusionBuilder& builder) : Parser(text) {
    builder_ = &builder;
    const auto& symbols = builder.fusion().symbols;
    for (uint32_t i = 0; i < symbols.size(); ++i)
      symbols_.emplace(symbols[SymbolId{i}].name, SymbolId{i});
  }

  Fusion run() {
    expect_word("fusion");
    expect("@");
    FusionBuilder builder(name());
    builder_ = &builder;
    if (accept_word("extents")) list("(", ")", [&] { symbol(); });
    expect("{");
    while (token_.kind == TokenKind::kValue) statement();
    const Token at_return = token_;
    if (!accept_word("return")) fail_here("expected a value or 'return'");
    if (token_.kind != TokenKind::kValue) fail_here("expected an output value");
    outputs();
    expect("}");
    if (token_.kind != TokenKind::kEnd) fail_here("expected nothing after the fusion");
    return located(at_return, [&] { return builder.build(); });
  }

  std::vector<ResultType> only_types() {
    std::vector<ResultType> out = types();
    expect_end("the type");
    return out;
  }

  OutputOptions only_layout() {
    OutputOptions out = output_layout();
    expect_end("the layout");
    return out;
  }

  std::vector<ValueId> only_op(std::vector<ValueId> operands, const std::vector<ResultType>& types,
                               std::vector<std::string> names) {
    if (token_.kind != TokenKind::kWord) fail_here("expected an op");
    const Token op = take();
    if (types.empty() && needs_type(op.text)) fail_at(op, "the op needs the type of its result");
    std::string call = op.text == "external" ? name() : "";
    DType type = DType::kF32;
    if (!types.empty()) {
      type = types[0].type;
    } else if (!operands.empty() && builder_->fusion().values.contains(operands[0])) {
      type = builder_->fusion().values[operands[0]].type;  // The value of a pad has it.
    }
    OpKind kind =
        op.text == "external" ? OpKind(ExternalOp{std::move(call), types}) : attributes(op, type);
    expect_end("the op");
    const bool is_pair =
        std::holds_alternative<WelfordOp>(kind) || std::holds_alternative<LogSumExpOp>(kind);
    const size_t count = op.text == "external" ? types.size() : is_pair ? 2 : 1;
    if (!names.empty() && names.size() != count)
      fail_at(op, fmt::format("the op has {} results, not {}", count, names.size()));
    const auto results = located(op, [&] {
      return append_converted(std::move(kind), std::move(operands),
                              types.empty() ? ResultType{.type = type} : types[0]);
    });
    if (!types.empty()) check_declared(op, op, results, count, types);
    for (size_t i = 0; i < names.size(); ++i)
      if (!names[i].empty()) builder_->named(results[i], std::move(names[i]));
    return results;
  }

 private:
  static bool needs_type(std::string_view op) {
    return op == "input" || op == "constant" || op == "cast" || op == "broadcast" ||
           op == "reshape" || op == "iota" || op == "external";
  }

  /// By the builder's calls where they make operands alike, else as it is.
  std::vector<ValueId> append_converted(OpKind kind, std::vector<ValueId> operands,
                                        const ResultType& hint) {
    if (const auto* op = std::get_if<PointwiseOp>(&kind))
      return {builder_->pointwise(op->fn, std::move(operands))};
    if (operands.size() == 1) {
      const ValueId x = operands[0];
      if (const auto* op = std::get_if<ReduceOp>(&kind))
        return {builder_->reduce(op->fn, x, op->axes)};
      if (const auto* op = std::get_if<WelfordOp>(&kind)) {
        const auto [mean, m2] = builder_->welford(x, op->axes);
        return {mean, m2};
      }
      if (const auto* op = std::get_if<LogSumExpOp>(&kind)) {
        const auto [max, sum] = builder_->logsumexp_pair(x, op->axes);
        return {max, sum};
      }
    }
    auto* contract_op = std::get_if<ContractOp>(&kind);
    if (contract_op != nullptr && operands.size() == 2)
      return {builder_->contract(std::move(*contract_op), operands[0], operands[1])};
    const auto* take_op = std::get_if<TakeOp>(&kind);
    if (take_op != nullptr && operands.size() == 2)
      return {builder_->take(operands[0], operands[1], take_op->axis)};
    return builder_->append(std::move(kind), std::move(operands), hint.type, hint.shape);
  }

  void expect_end(std::string_view what) const {
    if (token_.kind != TokenKind::kEnd) fail_here(fmt::format("expected nothing behind {}", what));
  }

  [[noreturn]] void fail_here(std::string message,
                              std::span<const std::string_view> names = {}) const {
    fail_at(token_, std::move(message), names.empty() ? tried_ : names);
  }

  Token take() {
    tried_.clear();
    const Token token = token_;
    token_ = lexer_.next();
    return token;
  }
  [[nodiscard]] bool at(std::string_view text) const {
    return token_.kind == TokenKind::kPunctuation && token_.text == text;
  }
  bool accept(std::string_view text) {
    if (!at(text)) return false;
    take();
    return true;
  }
  void expect(std::string_view text) {
    if (!accept(text)) fail_here(fmt::format("expected '{}'", text));
  }
  bool accept_word(std::string_view word) {
    if (token_.kind != TokenKind::kWord || token_.text != word) {
      tried_.push_back(word);
      return false;
    }
    take();
    return true;
  }
  void expect_word(std::string_view word) {
    if (!accept_word(word)) fail_here(fmt::format("expected '{}'", word));
  }

  /// Items between brackets, with commas between them; may be empty.
  template <class Item>
  void list(std::string_view open, std::string_view close, Item item) {
    expect(open);
    if (accept(close)) return;
    do {
      item();
    } while (accept(","));
    expect(close);
  }

  template <class Int>
  Int integer() {
    Int value = 0;
    const std::string_view text = token_.kind == TokenKind::kWord ? token_.text : "";
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc::result_out_of_range) fail_here("the number is out of range");
    if (error != std::errc{} || end != text.data() + text.size()) fail_here("expected an integer");
    take();
    return value;
  }

  /// Decimals round to the type; hexadecimal digits say exactly which value is meant.
  double real(DType type) {
    std::string_view text = token_.kind == TokenKind::kWord ? token_.text : "";
    const bool negative = text.starts_with('-');
    if (negative) text.remove_prefix(1);
    const bool hexadecimal = text.starts_with("0x");
    if (hexadecimal) text.remove_prefix(2);
    double value = 0.0;
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), value,
                        hexadecimal ? std::chars_format::hex : std::chars_format::general);
    if (error == std::errc::result_out_of_range) fail_here("the number is out of range");
    if (text.starts_with('-') || error != std::errc{} || end != text.data() + text.size()) {
      fail_here("expected a number");
    }
    take();
    if (std::isnan(value)) return std::numeric_limits<double>::quiet_NaN();
    if (negative) value = -value;
    return hexadecimal ? value : round_to(type, value);
  }

  [[nodiscard]] bool at_name() const {
    return token_.kind == TokenKind::kString ||
           (token_.kind == TokenKind::kWord && is_identifier(token_.text));
  }

  std::string name() {
    if (!at_name()) fail_here("expected a name");
    const Token token = take();
    if (token.kind == TokenKind::kWord) return std::string(token.text);
    const std::string_view body = token.text.substr(1, token.text.size() - 2);
    std::string out;
    for (size_t i = 0; i < body.size(); ++i) {
      if (body[i] != '\\') {
        out += body[i];
        continue;
      }
      ++i;  // The lexer leaves no backslash at the end.
      if (body[i] == '"' || body[i] == '\\') {
        out += body[i];
        continue;
      }
      uint8_t byte = 0;
      const std::string_view digits = body.substr(i).substr(0, 3);
      const auto [end, error] =
          std::from_chars(digits.data() + 1, digits.data() + digits.size(), byte, 16);
      if (digits.size() < 3 || digits[0] != 'x' || error != std::errc{} ||
          end != digits.data() + 3) {
        fail_at(token, R"(escapes are \", \\ and \xNN)");
      }
      out += static_cast<char>(byte);
      i += 2;
    }
    return out;
  }

  void symbol() {
    const Token at_symbol = token_;
    std::string symbol_name = name();
    const int64_t hint = accept_word("hint") ? integer<int64_t>() : 0;
    const int64_t divisor = accept_word("divisible_by") ? integer<int64_t>() : 1;
    const Extent extent =
        located(at_symbol, [&] { return builder_->symbol(symbol_name, hint, divisor); });
    symbols_.emplace(std::move(symbol_name), extent);
  }

  Extent extent() {
    const auto found =
        token_.kind == TokenKind::kWord ? symbols_.find(token_.text) : symbols_.end();
    if (found != symbols_.end()) {
      take();
      return found->second;
    }
    if (at_name()) {
      std::vector<std::string_view> declared;
      for (const auto& [symbol, extent] : symbols_) declared.push_back(symbol);
      fail_here("the symbol is not declared in extents()", declared);
    }
    return integer<int64_t>();
  }

  std::vector<Extent> extents(std::string_view open, std::string_view close) {
    std::vector<Extent> out;
    list(open, close, [&] { out.push_back(extent()); });
    return out;
  }

  ResultType type() {
    const auto found =
        token_.kind == TokenKind::kWord ? dtype_from_name(token_.text) : std::nullopt;
    if (!found) fail_here("expected an element type", dtype_names());
    take();
    return {*found, at("[") ? extents("[", "]") : Shape{}};
  }

  std::vector<ResultType> types() {
    std::vector<ResultType> out;
    do {
      out.push_back(type());
    } while (accept(","));
    return out;
  }

  ValueId value_id() {
    const std::string_view text = token_.kind == TokenKind::kValue ? token_.text : "";
    uint32_t index = 0;
    const char* const last = text.data() + text.size();
    if (!text.starts_with("%v")) fail_here("expected a value such as %v0");
    const auto [end, error] = std::from_chars(text.data() + 2, last, index);
    if (error != std::errc{} || end != last) fail_here("expected a value such as %v0");
    return ValueId{index};
  }

  ValueId operand() {
    const ValueId id = value_id();
    if (!builder_->fusion().values.contains(id)) fail_here("the value is not defined above");
    take();
    return id;
  }

  template <class T = int>
  std::vector<T> integers(std::string_view keyword) {
    expect_word(keyword);
    std::vector<T> out;
    list("(", ")", [&] { out.push_back(integer<T>()); });
    return out;
  }

  int axis() {
    expect_word("axis");
    expect("(");
    const int out = integer<int>();
    expect(")");
    return out;
  }

  ConstantOp constant(DType type) {
    if (is_float(type)) return {.real = real(type)};
    return {.integer = integer<int64_t>()};
  }

  /// How an input or output lies in memory.
  InputOp layout() {
    InputOp op;
    if (accept_word("strides")) op.strides = extents("(", ")");
    if (accept_word("align")) {
      expect("(");
      op.alignment = integer<int64_t>();
      expect(")");
    }
    return op;
  }

  ContractOp contract(ContractFn fn) {
    ContractOp op{.fn = fn};
    op.left = integers("left");
    op.right = integers("right");
    op.reduced = integers("over");
    if (!accept_word("precision")) return op;
    expect("(");
    const auto precision =
        token_.kind == TokenKind::kWord ? precision_from_text(token_.text) : std::nullopt;
    if (!precision) fail_here("expected a precision", precision_texts());
    take();
    expect(")");
    op.precision = *precision;
    return op;
  }

  /// The attributes that follow the operands.
  OpKind attributes(const Token& op, DType type) {
    const std::string_view text = op.text;
    if (text == "input") return layout();
    if (text == "constant") return constant(type);
    if (text == "cast") return CastOp{};
    if (text == "broadcast") return BroadcastOp{integers("axes")};
    if (text == "welford") return WelfordOp{integers("over")};
    if (text == "logsumexp") return LogSumExpOp{integers("over")};
    if (text == "take") return TakeOp{axis()};
    if (text == "extent") return ExtentOp{extents("(", ")")};
    if (text == "iota") return IotaOp{axis()};
    if (text == "permute") return PermuteOp{integers("order")};
    if (text == "reshape") return ReshapeOp{};
    if (text == "slice") {
      auto start = integers<int64_t>("start");
      auto stop = integers<int64_t>("stop");
      return SliceOp{std::move(start), std::move(stop), integers<int64_t>("step")};
    }
    if (text == "concatenate") return ConcatenateOp{axis()};
    if (text == "pad") {
      auto low = integers<int64_t>("low");
      auto high = integers<int64_t>("high");
      expect_word("value");
      return PadOp{std::move(low), std::move(high), constant(type)};
    }
    constexpr std::string_view kPrefix = "reduce.";
    if (text.starts_with(kPrefix)) {
      const auto fn = reduce_from_text(text.substr(kPrefix.size()));
      if (fn) return ReduceOp{*fn, integers("over")};
    }
    constexpr std::string_view kContract = "contract.";
    if (text.starts_with(kContract)) {
      const auto fn = contract_from_text(text.substr(kContract.size()));
      if (fn) return contract(*fn);
    }
    if (const auto fn = pointwise_from_text(text)) return PointwiseOp{*fn};
    const auto row = std::ranges::find(reductions_, text, &ReductionTraits::text);
    if (row != reductions_.end()) return TupleReduceOp{&*row, integers("over")};
    fail_at(op, "unknown op", op_names());
  }

  /// True if operands of `op` follow. Where none can, a value begins the next statement; a call
  /// with any number of them has none if the value is the one that the next statement defines.
  bool has_operands(const Token& op, ValueId next) {
    if (token_.kind != TokenKind::kValue) return false;
    if (op.text == "external") return value_id() != next;
    return op.text != "input" && op.text != "constant" && op.text != "extent" && op.text != "iota";
  }

  /// %v4 mean, %v5 : f32[rows], f32[rows] = welford %v2 over(1)
  void statement() {
    const size_t first = builder_->fusion().values.size();
    std::vector<std::string> names;
    do {
      const ValueId expected{static_cast<uint32_t>(first + names.size())};
      if (value_id() != expected) {
        fail_here(fmt::format("values are numbered in order: expected {}", expected));
      }
      take();
      names.push_back(at_name() ? name() : "");
    } while (accept(","));
    expect(":");
    const Token at_type = token_;
    const std::vector<ResultType> types = this->types();
    expect("=");
    if (token_.kind != TokenKind::kWord) fail_here("expected an op");
    const Token op = take();
    const bool external = op.text == "external";
    std::string call = external ? name() : "";
    std::vector<ValueId> operands;
    if (has_operands(op, ValueId{static_cast<uint32_t>(first + names.size())})) {
      do {
        operands.push_back(operand());
      } while (accept(","));
    }
    OpKind kind =
        external ? OpKind(ExternalOp{std::move(call), types}) : attributes(op, types[0].type);
    const auto results = located(op, [&] {
      return builder_->append(std::move(kind), std::move(operands), types[0].type, types[0].shape,
                              names);
    });
    check_declared(op, at_type, results, names.size(), types);
  }

  void check_declared(const Token& op, const Token& at_type, const std::vector<ValueId>& results,
                      size_t name_count, const std::vector<ResultType>& types) const {
    if (results.size() != name_count || results.size() != types.size()) {
      fail_at(op, fmt::format("the op has {} results, not {} with {} types", results.size(),
                              name_count, types.size()));
    }
    const Fusion& fusion = builder_->fusion();
    for (size_t i = 0; i < results.size(); ++i) {
      const Value& value = fusion.values[results[i]];
      if (value.type == types[i].type && value.shape == types[i].shape) continue;
      fail_at(at_type,
              fmt::format("{} is {}, not {}", results[i], text_of(fusion, value.type, value.shape),
                          text_of(fusion, types[i].type, types[i].shape)));
    }
  }

  OutputOptions output_layout() {
    const InputOp lies = layout();
    OutputOptions options{.strides = lies.strides, .alignment = lies.alignment};
    if (accept_word("alias")) {
      expect("(");
      options.alias = operand();
      expect(")");
    }
    return options;
  }

  void outputs() {
    do {
      const Token at_output = token_;
      const ValueId id = operand();
      const OutputOptions options = output_layout();
      located(at_output, [&] { builder_->output(id, "", options); });
    } while (accept(","));
  }

  Lexer lexer_;
  Token token_;
  std::vector<std::string_view> tried_;          ///< Words that could stand where `token_` is.
  std::span<const ReductionTraits> reductions_;  ///< That tuple reductions may name.
  FusionBuilder* builder_ = nullptr;
  std::map<std::string, Extent, std::less<>> symbols_;
};

/// What a call gives, or the error that it throws.
template <class Call>
auto caught(Call call) -> Result<decltype(call())> {
  return as_result([&]() -> Result<decltype(call())> { return call(); });
}

}  // namespace

Result<Fusion> parse_fusion(std::string_view text, std::span<const ReductionTraits> reductions) {
  return caught([&] { return Parser(text, reductions).run(); });
}

Result<OutputOptions> parse_layout(FusionBuilder& builder, std::string_view text) {
  return caught([&] { return Parser(text, builder).only_layout(); });
}

Result<std::vector<ValueId>> append_op(FusionBuilder& builder, std::string_view op,
                                       std::vector<ValueId> operands, std::string_view types,
                                       std::vector<std::string> names) {
  return caught([&] {
    std::vector<ResultType> declared;
    if (!types.empty()) declared = Parser(types, builder).only_types();
    return Parser(op, builder).only_op(std::move(operands), declared, std::move(names));
  });
}

}  // namespace sinter
