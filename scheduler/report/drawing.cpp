#include "scheduler/report/drawing.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "scheduler/report/layered_layout.h"
#include "scheduler/report/markup.h"
#include "scheduler/report/step_graph.h"
#include "scheduler/report/text_table.h"

namespace sinter {
namespace {

std::string size_text(int64_t bytes) { return bytes_text(static_cast<double>(bytes)); }

/// "3 multi_wave", "8192 x 4096", "12.3 us"; or "call matmul".
std::vector<std::string> lines_of(const Plan& plan, const PlanStep& step) {
  if (const auto* call = std::get_if<CallId>(&step)) {
    const Op& op = plan.fusion.ops[plan.externals[*call].op];
    return {"call " + std::get<ExternalOp>(op.kind).name};
  }
  const auto id = std::get<KernelId>(step);
  const KernelPlan& kernel = plan.kernels[id];
  std::string first = fmt::format("{} {}", id.index, kernel.chosen().schedule.family);
  if (kernel.same_as) first += fmt::format(" as {}", kernel.same_as->index);
  const std::string time = kernel.finishes
                               ? fmt::format("time with {}", id.index - 1)
                               : fmt::format("{:.1f} us", kernel.chosen().predicted.total_us);
  return {std::move(first),
          fmt::format("{} x {}", kernel.facts.space.rows, kernel.facts.space.columns), time};
}

// ---- Graphviz

std::string joined_escaped(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += (out.empty() ? "" : "\\n") + dot_escaped(line);
  return out;
}

std::string dot_node(const std::string& id, const std::vector<std::string>& lines,
                     std::string_view more) {
  return fmt::format("  {} [label=\"{}\"{}]\n", id, joined_escaped(lines), more);
}

std::string dot_edge(const Plan& plan, const PassedTensor& tensor, const std::string& from,
                     const std::string& to) {
  return fmt::format("  {} -> {} [label=\"{}\", bytes={}]\n", from, to,
                     joined_escaped({name_of(plan, tensor), size_text(tensor.bytes)}),
                     tensor.bytes);
}

}  // namespace

std::string to_dot(const Plan& plan) {
  const StepGraph graph = step_graph(plan);
  std::string out = fmt::format(
      "digraph \"{}\" {{\n"
      "  node [shape=box, fontname=monospace]\n"
      "  edge [fontname=monospace, fontsize=10]\n",
      dot_escaped(plan.fusion.name));
  for (const StepId step : graph.steps.ids()) {
    const bool calls = std::holds_alternative<CallId>(graph.steps[step]);
    out += dot_node(fmt::format("step{}", step.index), lines_of(plan, graph.steps[step]),
                    calls ? ", style=\"filled,rounded\", fillcolor=\"#e6e6e6\""
                          : ", style=filled, fillcolor=\"#cfe3f7\"");
  }
  std::string edges;
  for (size_t i = 0; i < graph.tensors.size(); ++i) {
    const PassedTensor& tensor = graph.tensors[i];
    const std::string input = fmt::format("input{}", i);
    const std::string output = fmt::format("output{}", i);
    const std::vector<std::string> name = {name_of(plan, tensor)};
    if (tensor.is_input) out += dot_node(input, name, ", shape=ellipse, fontsize=10");
    if (tensor.is_output) out += dot_node(output, name, ", shape=ellipse, fontsize=10, penwidth=2");
    std::vector<std::string> sources;
    for (const StepId writer : tensor.writers)
      sources.push_back(fmt::format("step{}", writer.index));
    if (sources.empty()) sources.push_back(input);
    for (const std::string& from : sources) {
      for (const StepId reader : tensor.readers)
        edges += dot_edge(plan, tensor, from, fmt::format("step{}", reader.index));
      if (tensor.is_output) edges += dot_edge(plan, tensor, from, output);
    }
  }
  return out + edges + "}\n";
}

// ---- SVG

namespace {

constexpr double kLetterWidth = 7.3;  // Pixels, for a monospaced font of 12 pixels.
constexpr double kLineHeight = 15.0;
constexpr double kPadding = 7.0;
constexpr double kMargin = 24.0;
constexpr double kHeadline = 30.0;  // Pixels above the drawing.

/// Characters of a name that are shown; the tooltip has the whole name.
constexpr size_t kMostLetters = 32;

/// Most tensors in one box.
constexpr size_t kMostTensors = 24;

struct Box {
  std::string kind{};  ///< Its class.
  std::vector<std::string> lines{};
  std::vector<int64_t> bytes{};  ///< Of its tensors, by line.
  std::string title{};
  size_t layer = 0;
  double share = 0.0;  ///< Its time as a fraction of the longest kernel's.
  std::string id{};    ///< "data-step" of steps.
};

class Drawing {
 public:
  explicit Drawing(const Plan& plan) : plan_(plan), graph_(step_graph(plan)) {
    for (const KernelPlan* kernel : plan.leading_kernels())
      longest_us_ = std::max(longest_us_, kernel->chosen().predicted.total_us);
  }

  std::string run() {
    find_layers();
    for (const StepId step : graph_.steps.ids()) add_step(step);
    add_tensors();
    std::vector<LayoutBox> boxes;
    for (const Box& box : boxes_) boxes.push_back(measured(box));
    return text(lay_out(boxes, lines_));
  }

 private:
  /// Steps have odd layers, tensors even ones.
  void find_layers() {
    layers_ = IdMap<StepId, size_t>(graph_.steps.size(), 1);
    IdMap<StepId, std::vector<size_t>> read(graph_.steps.size());
    for (size_t i = 0; i < graph_.tensors.size(); ++i) {
      for (const StepId reader : graph_.tensors[i].readers) read[reader].push_back(i);
    }
    // Steps are in an order in which writers come first.
    for (const StepId step : graph_.steps.ids()) {
      for (const size_t tensor : read[step]) {
        for (const StepId writer : graph_.tensors[tensor].writers)
          layers_[step] = std::max(layers_[step], layers_[writer] + 2);
      }
    }
  }

  void add_step(StepId step) {
    const PlanStep& what = graph_.steps[step];
    const bool calls = std::holds_alternative<CallId>(what);
    Box box{.kind = calls ? "call" : "kernel",
            .lines = lines_of(plan_, what),
            .layer = layers_[step],
            .id = fmt::format("{}", step.index)};
    if (calls) {
      box.title = box.lines.front();
    } else {
      const KernelPlan& kernel = plan_.kernels[std::get<KernelId>(what)];
      box.title =
          fmt::format("{}: {}; reads {}, writes {}", kernel.facts.fusion.name, ops_text(kernel),
                      size_text(kernel.facts.bytes_read), size_text(kernel.facts.bytes_written));
      if (!kernel.finishes && longest_us_ > 0.0)
        box.share = kernel.chosen().predicted.total_us / longest_us_;
    }
    boxes_.push_back(std::move(box));
  }

  /// Tensors that share a box: of one kind, with the same writers and the same readers.
  struct Group {
    std::string kind;
    size_t layer = 0;
    std::vector<StepId> writers;
    std::vector<StepId> readers;
    friend auto operator<=>(const Group&, const Group&) = default;
  };

  void add_tensors() {
    std::map<Group, std::vector<size_t>> groups;
    for (size_t i = 0; i < graph_.tensors.size(); ++i) {
      const PassedTensor& tensor = graph_.tensors[i];
      if (!tensor.writers.empty()) {
        size_t layer = 0;
        for (const StepId writer : tensor.writers) layer = std::max(layer, layers_[writer] + 1);
        groups[{tensor.is_output ? "output" : "between", layer, tensor.writers, tensor.readers}]
            .push_back(i);
        continue;
      }
      std::map<size_t, std::vector<StepId>> by_layer;
      for (const StepId reader : tensor.readers) by_layer[layers_[reader] - 1].push_back(reader);
      if (by_layer.empty()) by_layer[0] = {};
      for (const auto& [layer, readers] : by_layer)
        groups[{"input", layer, {}, readers}].push_back(i);
      // An input that is also an output.
      if (tensor.is_output) groups[{"output", 0, {}, {}}].push_back(i);
    }
    for (const auto& [group, tensors] : groups) {
      for (size_t first = 0; first < tensors.size(); first += kMostTensors)
        add_box(group,
                std::span(tensors).subspan(first, std::min(kMostTensors, tensors.size() - first)));
    }
  }

  void add_box(const Group& group, std::span<const size_t> tensors) {
    Box box{.kind = group.kind, .layer = group.layer};
    size_t longest = 0;
    for (const size_t i : tensors) {
      const std::string name = shortened(name_of(plan_, graph_.tensors[i]), kMostLetters);
      longest = std::max(longest, character_count(name));
    }
    for (const size_t i : tensors) {
      const PassedTensor& tensor = graph_.tensors[i];
      const Value& value = plan_.fusion.values[tensor.value];
      const std::string name = shortened(name_of(plan_, tensor), kMostLetters);
      const std::string blanks(longest - character_count(name) + 1, ' ');
      box.lines.push_back(name + blanks + size_text(tensor.bytes));
      box.bytes.push_back(tensor.bytes);
      box.title +=
          fmt::format("{}{}: {} {}, {} B", box.title.empty() ? "" : "; ", name_of(plan_, tensor),
                      tensor.value, text_of(plan_.fusion, value.type, value.shape), tensor.bytes);
    }
    const size_t id = boxes_.size();
    boxes_.push_back(std::move(box));
    // Boxes of steps come first, in their order.
    for (const StepId writer : group.writers) lines_.push_back({writer.index, id});
    for (const StepId reader : group.readers) lines_.push_back({id, reader.index});
  }

  static LayoutBox measured(const Box& box) {
    size_t longest = 0;
    for (const std::string& line : box.lines)
      longest = std::max(longest, character_count(shortened(line, kMostLetters + 16)));
    return {.width = 2 * kPadding + kLetterWidth * static_cast<double>(longest),
            .height = 2 * kPadding + kLineHeight * static_cast<double>(box.lines.size()),
            .layer = box.layer};
  }

  // ---- Text

  [[nodiscard]] std::string text(const Layout& layout) const {
    const std::string headline = fmt::format(
        "{} on {}: {} kernels, predicted {:.1f} us; {} external calls; workspace {}",
        shortened(plan_.fusion.name, kMostLetters), plan_.limits.name, plan_.kernels.size(),
        plan_.predicted_us(), plan_.externals.size(), size_text(plan_.workspace_bytes));
    const double least_width = kLetterWidth * static_cast<double>(character_count(headline));
    std::string out = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
        "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"monospace\" font-size=\"12\" "
        "style=\"background:#ffffff\">\n",
        std::max(layout.width, least_width) + 2 * kMargin, layout.height + kHeadline + 2 * kMargin);
    out += fmt::format("<title>{}</title>\n", xml_escaped(plan_.fusion.name));
    out += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\">{}</text>\n", kMargin, kMargin,
                       xml_escaped(headline));
    out +=
        fmt::format("<g transform=\"translate({:.0f} {:.0f})\">\n", kMargin, kMargin + kHeadline);
    out += "<g fill=\"none\" stroke=\"#8a8a8a\">\n";
    for (size_t line = 0; line < lines_.size(); ++line) out += path(layout.routes[line]);
    out += "</g>\n";
    for (size_t box = 0; box < boxes_.size(); ++box) out += box_text(box, layout);
    return out + "</g>\n</svg>\n";
  }

  static std::string path(const std::vector<LayoutPoint>& route) {
    std::string out =
        fmt::format("<path class=\"line\" d=\"M{:.1f} {:.1f}", route.front().x, route.front().y);
    for (size_t i = 1; i < route.size(); ++i) {
      const LayoutPoint& from = route[i - 1];
      const LayoutPoint& to = route[i];
      if (i % 2 == 1 || from.x == to.x) {
        out += fmt::format("V{:.1f}", to.y);
      } else {
        const double middle = (from.y + to.y) / 2;
        out += fmt::format("C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}", from.x, middle, to.x,
                           middle, to.x, to.y);
      }
    }
    return out + "\"/>\n";
  }

  [[nodiscard]] static std::string style(const Box& box) {
    constexpr double kPalest = 0.15;
    if (box.kind == "kernel")
      return fmt::format("fill=\"#4e8fd0\" fill-opacity=\"{:.2f}\" stroke=\"#2f5f91\"",
                         kPalest + (0.8 - kPalest) * box.share);
    if (box.kind == "call") return "fill=\"#e6e6e6\" stroke=\"#777777\" rx=\"10\"";
    if (box.kind == "input") return "fill=\"#fff8e1\" stroke=\"#c9a13b\" rx=\"4\"";
    if (box.kind == "output") return "fill=\"#e3f4e1\" stroke=\"#4c9a4a\" rx=\"4\"";
    return "fill=\"#ffffff\" stroke=\"#d0d0d0\" rx=\"4\"";
  }

  [[nodiscard]] std::string box_text(size_t id, const Layout& layout) const {
    const Box& box = boxes_[id];
    const LayoutPoint& corner = layout.corners[id];
    const LayoutBox size = measured(box);
    std::string out =
        fmt::format("<g class=\"{}\"{}><title>{}</title>", box.kind,
                    box.id.empty() ? "" : " data-step=\"" + box.id + "\"", xml_escaped(box.title));
    out += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" {}/>\n",
                       corner.x, corner.y, size.width, size.height, style(box));
    for (size_t i = 0; i < box.lines.size(); ++i) {
      const std::string bytes =
          box.bytes.empty() ? "" : fmt::format(" data-bytes=\"{}\"", box.bytes[i]);
      out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\"{} xml:space=\"preserve\">{}</text>\n",
                         corner.x + kPadding,
                         corner.y + kPadding + kLineHeight * static_cast<double>(i + 1) - 4, bytes,
                         xml_escaped(shortened(box.lines[i], kMostLetters + 16)));
    }
    return out + "</g>\n";
  }

  const Plan& plan_;
  const StepGraph graph_;
  double longest_us_ = 0.0;       ///< Of any kernel.
  IdMap<StepId, size_t> layers_;  ///< By step.
  std::vector<Box> boxes_;        ///< Steps first.
  std::vector<LayoutLine> lines_;
};

}  // namespace

std::string to_svg(const Plan& plan) { return Drawing(plan).run(); }

}  // namespace sinter
