#include "fusion_ir/printer.h"

#include <cmath>

namespace sinter {
namespace {

/// A name as it stands, or quoted where it is not an identifier.
std::string name_text(std::string_view name) {
  return is_identifier(name) ? std::string(name) : "\"" + escaped(name) + "\"";
}

std::string real_text(double value) {
  return std::isnan(value) ? "nan" : fmt::format("{:a}", value);
}

class Printer {
 public:
  explicit Printer(const Fusion& fusion) : fusion_(fusion) {}

  std::string run() {
    out_ = fmt::format("fusion @{}", name_text(fusion_.name));
    if (!fusion_.symbols.empty()) {
      out_ += " extents(";
      for (const Symbol& symbol : fusion_.symbols) {
        if (out_.back() != '(') out_ += ", ";
        out_ += name_text(symbol.name);
        if (symbol.hint != 0) out_ += fmt::format(" hint {}", symbol.hint);
        if (symbol.divisible_by != 1) out_ += fmt::format(" divisible_by {}", symbol.divisible_by);
      }
      out_ += ")";
    }
    out_ += " {\n";
    for (const Op& op : fusion_.ops) print_op(op);
    out_ += "  return ";
    for (size_t i = 0; i < fusion_.outputs.size(); ++i) print_output(i);
    out_ += "\n}\n";
    return std::move(out_);
  }

 private:
  void print_op(const Op& op) {
    std::string types;
    out_ += "  ";
    for (size_t i = 0; i < op.results.size(); ++i) {
      const ValueId id = op.results[i];
      out_ += fmt::format("{}{}", i == 0 ? "" : ", ", id);
      if (!fusion_.values.contains(id)) continue;
      const Value& value = fusion_.values[id];
      if (!value.name.empty()) out_ += " " + name_text(value.name);
      types += fmt::format("{}{}", i == 0 ? "" : ", ", text_of(fusion_, value.type, value.shape));
    }
    out_ += fmt::format(" : {} = {}", types, text_of(op.kind));
    if (const auto* external = std::get_if<ExternalOp>(&op.kind)) {
      out_ += " " + name_text(external->name);
    }
    for (size_t i = 0; i < op.operands.size(); ++i) {
      out_ += fmt::format("{}{}", i == 0 ? " " : ", ", op.operands[i]);
    }
    print_attributes(op);
    out_ += "\n";
  }

  void print_output(size_t i) {
    out_ += fmt::format("{}{}", i == 0 ? "" : ", ", fusion_.outputs[i]);
    if (i >= fusion_.layouts.size()) return;
    const OutputLayout& layout = fusion_.layouts[i];
    print_layout(layout.strides, layout.alignment);
    if (layout.alias.valid()) out_ += fmt::format(" alias({})", layout.alias);
  }

  void print_layout(const std::vector<Extent>& strides, int64_t alignment) {
    if (!strides.empty()) print_extents(" strides", strides);
    if (alignment != InputOp{}.alignment) out_ += fmt::format(" align({})", alignment);
  }

  void print_attributes(const Op& op) {
    std::visit(overloaded{
                   [&](const InputOp& input) { print_layout(input.strides, input.alignment); },
                   [&](const ConstantOp& constant) { print_constant(op, constant); },
                   [&](const PointwiseOp&) {},
                   [&](const CastOp&) {},
                   [&](const BroadcastOp& broadcast) { print_list(" axes", broadcast.axes); },
                   [&](const ReduceOp& reduce) { print_list(" over", reduce.axes); },
                   [&](const WelfordOp& welford) { print_list(" over", welford.axes); },
                   [&](const LogSumExpOp& pair) { print_list(" over", pair.axes); },
                   [&](const TakeOp& take) { out_ += fmt::format(" axis({})", take.axis); },
                   [&](const ExtentOp& extent) { print_extents("", extent.extents); },
                   [&](const IotaOp& iota) { out_ += fmt::format(" axis({})", iota.axis); },
                   [&](const PermuteOp& permute) { print_list(" order", permute.order); },
                   [&](const ReshapeOp&) {},
                   [&](const SliceOp& slice) {
                     print_list(" start", slice.start);
                     print_list(" stop", slice.stop);
                     print_list(" step", slice.step);
                   },
                   [&](const ConcatenateOp& join) { out_ += fmt::format(" axis({})", join.axis); },
                   [&](const PadOp& pad) {
                     print_list(" low", pad.low);
                     print_list(" high", pad.high);
                     out_ += " value";
                     print_constant(op, pad.value);
                   },
                   [&](const ExternalOp&) {},
                   [&](const TupleReduceOp& tuple) { print_list(" over", tuple.axes); },
                   [&](const ContractOp& contract) {
                     print_list(" left", contract.left);
                     print_list(" right", contract.right);
                     print_list(" over", contract.reduced);
                     if (contract.precision != ContractPrecision::kIeee)
                       out_ += fmt::format(" precision({})", text_of(contract.precision));
                   },
               },
               op.kind);
  }

  void print_constant(const Op& op, const ConstantOp& constant) {
    const bool known = !op.results.empty() && fusion_.values.contains(op.results[0]);
    if (!known || !is_float(fusion_.values[op.results[0]].type)) {
      out_ += fmt::format(" {}", constant.integer);
      return;
    }
    const std::string text = real_text(constant.real);
    out_ += " " + text;
    if (std::isfinite(constant.real)) out_ += fmt::format("  ; {}", constant.real);
  }

  template <class T>
  void print_list(std::string_view keyword, const std::vector<T>& items) {
    out_ += fmt::format("{}({})", keyword, fmt::join(items, ", "));
  }

  void print_extents(std::string_view keyword, const std::vector<Extent>& extents) {
    std::vector<std::string> items;
    items.reserve(extents.size());
    for (const Extent& extent : extents) items.push_back(text_of(fusion_, extent));
    print_list(keyword, items);
  }

  const Fusion& fusion_;
  std::string out_;
};

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte >= 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out;
}

std::string print(const Fusion& fusion) { return Printer(fusion).run(); }

}  // namespace sinter
