#include "scheduler/report/drawing.h"

#include <gmock/gmock.h>

#include <map>
#include <regex>
#include <set>

#include "fusion_ir/fusion_builder.h"
#include "scheduler/planning/planner.h"
#include "scheduler/report/step_graph.h"
#include "scheduler/report/text_table.h"
#include "tests/scheduler/drawn_plans.h"
#include "tests/support/canned_fusions.h"
#include "tests/support/h200.h"

namespace sinter::drawing_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// ---- Graphviz

struct Dot {
  std::map<std::string, std::string> nodes{};  ///< Label by name.
  struct Edge {
    std::string from, to, label;
    int64_t bytes = 0;
  };
  std::vector<Edge> edges{};
};

/// Reads what to_dot prints, line by line; every line but the frame's has to be a node or an edge.
Dot parse_dot(const std::string& text) {
  static const std::regex kNode(
      R"re(  (\w+) \[label="((?:[^"\\]|\\.)*)"[^"]*(?:"[^"]*"[^"]*)*\])re");
  static const std::regex kEdge(
      R"re(  (\w+) -> (\w+) \[label="((?:[^"\\]|\\.)*)", bytes=(\d+)\])re");
  static const std::regex kFrame(
      R"re((digraph "(?:[^"\\]|\\.)*" \{|  (node|edge) \[[^"]*\]|\}))re");
  Dot out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, kEdge)) {
      out.edges.push_back({match[1], match[2], match[3], std::stoll(match[4])});
    } else if (std::regex_match(line, kFrame)) {
      continue;
    } else if (std::regex_match(line, match, kNode)) {
      EXPECT_TRUE(out.nodes.emplace(match[1], match[2]).second) << line;
    } else {
      ADD_FAILURE() << "neither a node nor an edge: " << line;
    }
  }
  return out;
}

TEST(Drawing, DotOfASmallPlan) {
  Plan plan = small_plan();
  plan.kernels.front().candidates[0].predicted.total_us = 2.8;
  plan.kernels[{1}].candidates[0].predicted.total_us = 2.9;
  EXPECT_EQ(to_dot(plan),
            R"(digraph "small" {
  node [shape=box, fontname=monospace]
  edge [fontname=monospace, fontsize=10]
  step0 [label="0 pointwise\n1 x 65536\n2.8 us", style=filled, fillcolor="#cfe3f7"]
  step1 [label="call matmul", style="filled,rounded", fillcolor="#e6e6e6"]
  step2 [label="1 pointwise\n1 x 65536\n2.9 us", style=filled, fillcolor="#cfe3f7"]
  input0 [label="x", shape=ellipse, fontsize=10]
  output1 [label="y", shape=ellipse, fontsize=10, penwidth=2]
  input0 -> step0 [label="x\n256.0 KiB", bytes=262144]
  step2 -> output1 [label="y\n256.0 KiB", bytes=262144]
  step0 -> step1 [label="h\n256.0 KiB", bytes=262144]
  step0 -> step2 [label="h\n256.0 KiB", bytes=262144]
  step1 -> step2 [label="m\n256.0 KiB", bytes=262144]
}
)");
}

TEST(Drawing, DotHasEveryStepAndEveryTensorWithItsBytes) {
  for (const Plan& plan : some_plans()) {
    SCOPED_TRACE(plan.fusion.name);
    const StepGraph graph = step_graph(plan);
    const Dot dot = parse_dot(to_dot(plan));
    std::multiset<std::tuple<std::string, std::string, int64_t>> expected;
    size_t ends = 0;
    for (size_t i = 0; i < graph.tensors.size(); ++i) {
      const PassedTensor& tensor = graph.tensors[i];
      ends += (tensor.is_input ? 1U : 0U) + (tensor.is_output ? 1U : 0U);
      std::vector<std::string> sources;
      for (const StepId writer : tensor.writers)
        sources.push_back(fmt::format("step{}", writer.index));
      if (sources.empty()) sources.push_back(fmt::format("input{}", i));
      for (const std::string& from : sources) {
        for (const StepId reader : tensor.readers)
          expected.emplace(from, fmt::format("step{}", reader.index), tensor.bytes);
        if (tensor.is_output) expected.emplace(from, fmt::format("output{}", i), tensor.bytes);
      }
    }
    std::multiset<std::tuple<std::string, std::string, int64_t>> found;
    for (const Dot::Edge& edge : dot.edges) {
      EXPECT_TRUE(dot.nodes.contains(edge.from) && dot.nodes.contains(edge.to));
      EXPECT_THAT(edge.label, testing::EndsWith(bytes_text(static_cast<double>(edge.bytes))));
      found.emplace(edge.from, edge.to, edge.bytes);
    }
    EXPECT_EQ(found, expected);
    EXPECT_EQ(dot.nodes.size(), graph.steps.size() + ends);
    for (const StepId step : graph.steps.ids()) {
      const std::string node = fmt::format("step{}", step.index);
      ASSERT_TRUE(dot.nodes.contains(node));
      const auto* id = std::get_if<KernelId>(&graph.steps[step]);
      if (id == nullptr) continue;
      const KernelPlan& kernel = plan.kernels[*id];
      const std::string& label = dot.nodes.at(node);
      EXPECT_THAT(label, HasSubstr(kernel.chosen().schedule.family));
      if (kernel.finishes) continue;
      EXPECT_THAT(label, HasSubstr(fmt::format("{:.1f} us", kernel.chosen().predicted.total_us)));
    }
  }
}

// ---- SVG

/// An element of a document, its text and what is in it.
struct Element {
  std::string name;
  std::map<std::string, std::string> attributes{};
  std::string text{};
  std::vector<Element> children{};

  [[nodiscard]] double number(const std::string& attribute) const {
    return std::stod(attributes.at(attribute));
  }
};

/// Reads the part of XML that drawings use; everything else is a failure.
class XmlReader {
 public:
  explicit XmlReader(std::string_view text) : text_(text) {}

  Element run() {
    Element root = element();
    skip_blanks();
    EXPECT_TRUE(text_.empty()) << text_.substr(0, 80);
    return root;
  }

 private:
  void skip_blanks() {
    while (!text_.empty() && (text_.front() == ' ' || text_.front() == '\n'))
      text_.remove_prefix(1);
  }
  [[nodiscard]] bool take(std::string_view token) {
    if (!text_.starts_with(token)) return false;
    text_.remove_prefix(token.size());
    return true;
  }
  void expect(std::string_view token) {
    if (!take(token))
      throw std::runtime_error(fmt::format("no {} at {}", token, text_.substr(0, 80)));
  }
  std::string word() {
    const size_t end =
        text_.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-:");
    std::string out(text_.substr(0, end));
    text_.remove_prefix(out.size());
    return out;
  }
  /// Up to a character, with what was escaped.
  std::string content(char until) {
    std::string out;
    while (!text_.empty() && text_.front() != until) {
      const char c = text_.front();
      if (c == '<' || c == '>' || static_cast<unsigned char>(c) < ' ')
        if (c != '\n') throw std::runtime_error("a character that is not escaped");
      if (c == '&') {
        const bool known = replace("&amp;", '&', out) || replace("&lt;", '<', out) ||
                           replace("&gt;", '>', out) || replace("&quot;", '"', out);
        if (!known) throw std::runtime_error("an unknown entity");
        continue;
      }
      out += c;
      text_.remove_prefix(1);
    }
    return out;
  }
  bool replace(std::string_view entity, char by, std::string& out) {
    if (!take(entity)) return false;
    out += by;
    return true;
  }

  Element element() {
    expect("<");
    Element out{.name = word()};
    for (skip_blanks(); !take(">"); skip_blanks()) {
      if (take("/>")) return out;
      std::string name = word();
      expect("=\"");
      out.attributes[std::move(name)] = content('"');
      expect("\"");
    }
    while (true) {
      out.text += content('<');
      if (take("</")) {
        EXPECT_EQ(word(), out.name);
        expect(">");
        return out;
      }
      out.children.push_back(element());
    }
  }

  std::string_view text_;
};

/// All elements of a document.
void collect(const Element& from, std::vector<const Element*>& out) {
  out.push_back(&from);
  for (const Element& child : from.children) collect(child, out);
}

struct Picture {
  Element root;
  std::vector<const Element*> boxes{};  ///< Groups of a box and its texts.
  size_t lines = 0;

  explicit Picture(const Plan& plan) : root(XmlReader(to_svg(plan)).run()) {
    std::vector<const Element*> all;
    collect(root, all);
    for (const Element* element : all) {
      if (element->name == "path") ++lines;
      if (element->name == "g" && element->attributes.contains("class")) boxes.push_back(element);
    }
  }
  [[nodiscard]] static const Element& rect(const Element& box) {
    return *std::ranges::find(box.children, "rect", &Element::name);
  }
};

TEST(Drawing, SvgHasEveryStepAndTheBytesOfEveryTensor) {
  for (const Plan& plan : some_plans()) {
    SCOPED_TRACE(plan.fusion.name);
    const StepGraph graph = step_graph(plan);
    const Picture picture(plan);
    std::set<StepId> steps;
    std::map<std::string, std::multiset<int64_t>> bytes;
    for (const Element* box : picture.boxes) {
      const std::string& kind = box->attributes.at("class");
      if (kind == "kernel" || kind == "call") {
        const StepId step{static_cast<uint32_t>(std::stoul(box->attributes.at("data-step")))};
        EXPECT_TRUE(steps.insert(step).second);
        ASSERT_TRUE(graph.steps.contains(step));
        EXPECT_EQ(kind == "call", std::holds_alternative<CallId>(graph.steps[step]));
        continue;
      }
      for (const Element& child : box->children) {
        if (child.name == "text") bytes[kind].insert(std::stoll(child.attributes.at("data-bytes")));
      }
    }
    EXPECT_EQ(steps.size(), graph.steps.size());
    std::multiset<int64_t> outputs;
    std::multiset<int64_t> between;
    std::set<int64_t> inputs;
    for (const PassedTensor& tensor : graph.tensors) {
      if (tensor.is_input) inputs.insert(tensor.bytes);
      if (tensor.is_output) outputs.insert(tensor.bytes);
      if (!tensor.is_input && !tensor.is_output) between.insert(tensor.bytes);
    }
    EXPECT_EQ(bytes["output"], outputs);
    EXPECT_EQ(bytes["between"], between);
    // Inputs stand beside each layer that reads them.
    EXPECT_EQ(std::set<int64_t>(bytes["input"].begin(), bytes["input"].end()), inputs);
    EXPECT_GT(picture.lines, 0U);
  }
}

TEST(Drawing, BoxesOfAnSvgDoNotOverlapAndHoldTheirText) {
  std::vector<Plan> plans = some_plans();
  plans.push_back(hundreds_of_steps());
  ASSERT_GE(plans.back().steps().size(), 200U);
  for (const Plan& plan : plans) {
    SCOPED_TRACE(plan.fusion.name);
    const Picture picture(plan);
    const double width = picture.root.number("width");
    const double height = picture.root.number("height");
    for (size_t a = 0; a < picture.boxes.size(); ++a) {
      const Element& rect = Picture::rect(*picture.boxes[a]);
      const double right = rect.number("x") + rect.number("width");
      const double bottom = rect.number("y") + rect.number("height");
      EXPECT_LE(right, width);
      EXPECT_LE(bottom, height);
      for (const Element& child : picture.boxes[a]->children) {
        if (child.name != "text") continue;
        EXPECT_GT(child.number("x"), rect.number("x"));
        EXPECT_LT(child.number("y"), bottom);
      }
      for (size_t b = 0; b < a; ++b) {
        const Element& other = Picture::rect(*picture.boxes[b]);
        EXPECT_TRUE(right <= other.number("x") ||
                    other.number("x") + other.number("width") <= rect.number("x") ||
                    bottom <= other.number("y") ||
                    other.number("y") + other.number("height") <= rect.number("y"))
            << a << " and " << b;
      }
    }
  }
}

TEST(Drawing, IsTheSameEveryTime) {
  for (const Plan& plan : some_plans()) {
    EXPECT_EQ(to_svg(plan), to_svg(Plan(plan)));
    EXPECT_EQ(to_dot(plan), to_dot(Plan(plan)));
  }
}

TEST(Drawing, OddNamesAreShownAndNotRead) {
  const Plan plan = odd_names();
  const std::string svg = to_svg(plan);
  EXPECT_THAT(svg, AllOf(HasSubstr("call f\\&quot;&lt;g&gt;&amp;"), Not(HasSubstr("<script>")),
                         HasSubstr("\xC3\xA4 \xEF\xBF\xBD")));
  const Dot dot = parse_dot(to_dot(plan));
  EXPECT_EQ(dot.nodes.at("step1"), "call f\\\\\\\"<g>&");
  EXPECT_EQ(dot.nodes.at("output1").size(), 2000U) << "a backslash each";
}

TEST(Drawing, RepeatedKernelsNameTheFirstOfTheirKind) {
  EXPECT_THAT(to_dot(transformer(2)), HasSubstr(" as "));
}

TEST(Drawing, AnInputThatIsHandedBackIsBoth) {
  FusionBuilder b("same");
  const ValueId x = b.input(DType::kF32, {64}, "x");
  b.output(b.exp(x), "y");
  Plan plan = planned(b.build());
  plan.fusion.outputs.push_back(plan.fusion.inputs.front());
  EXPECT_THAT(to_dot(plan), HasSubstr("input0 -> output0"));
  size_t shown = 0;
  for (const Element* box : Picture(plan).boxes)
    shown += box->attributes.at("class") == "output" ? 1U : 0U;
  EXPECT_EQ(shown, 2U);
}

}  // namespace sinter::drawing_test
