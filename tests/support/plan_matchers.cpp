#include "tests/support/plan_matchers.h"

#include <algorithm>
#include <sstream>

#include "scheduler/analysis/kept_value.h"
#include "scheduler/plan/plan_options.h"
#include "scheduler/planning/planner.h"
#include "tests/support/canned_fusions.h"

namespace sinter {
namespace {

using testing::Matcher;
using testing::MatchResultListener;

/// A matcher from two functions, so that each matcher below is a few lines.
template <class T>
class FunctionMatcher : public testing::MatcherInterface<const T&> {
 public:
  using Test = std::function<bool(const T&, MatchResultListener*)>;
  FunctionMatcher(std::string description, Test test)
      : description_(std::move(description)), test_(std::move(test)) {}

  bool MatchAndExplain(const T& value, MatchResultListener* listener) const override {
    return test_(value, listener);
  }
  void DescribeTo(std::ostream* out) const override { *out << description_; }
  void DescribeNegationTo(std::ostream* out) const override { *out << "not: " << description_; }

 private:
  std::string description_;
  Test test_;
};

SegmentMatcher segment_matcher(std::string description, FunctionMatcher<KernelPlan>::Test test) {
  return SegmentMatcher(new FunctionMatcher<KernelPlan>(std::move(description), std::move(test)));
}

PlanMatcher plan_matcher(std::string description, FunctionMatcher<Result<Plan>>::Test test) {
  return PlanMatcher(new FunctionMatcher<Result<Plan>>(std::move(description), std::move(test)));
}

template <class T>
std::string described(const Matcher<T>& matcher) {
  std::ostringstream out;
  matcher.DescribeTo(&out);
  return out.str();
}

SegmentMatcher field(const std::string& name, int64_t Schedule::*member,
                     const NumberMatcher& matcher) {
  return segment_matcher(
      name + " " + described(matcher),
      [name, member, matcher](const KernelPlan& kernel, MatchResultListener* listener) {
        const int64_t value = kernel.chosen().schedule.*member;
        *listener << name << " is " << value;
        return matcher.Matches(value);
      });
}

SegmentMatcher keeps(std::string value_name, std::optional<Residency> residency) {
  const std::string description =
      "keeps " + value_name + (residency ? fmt::format(" in {}", text_of(*residency)) : "");
  return segment_matcher(
      description, [value_name, residency](const KernelPlan& kernel, MatchResultListener* out) {
        const auto& persistent = kernel.chosen().schedule.kept;
        *out << "keeps";
        for (const KeptValue& kept : persistent) {
          *out << " " << fmt::format("{}", kept.value) << " '"
               << kernel.facts.fusion.values[kept.value].name << "' in " << text_of(kept.residency);
        }
        return std::ranges::any_of(persistent, [&](const KeptValue& kept) {
          return kernel.facts.fusion.values[kept.value].name == value_name &&
                 (residency ? kept.residency == *residency : kept.residency != Residency::kReload);
        });
      });
}

/// Whether a kernel meets all parts, which describe why not.
bool meets(const KernelPlan& kernel, const std::string& family,
           const std::vector<SegmentMatcher>& parts, MatchResultListener* listener) {
  if (kernel.chosen().schedule.family != family) {
    *listener << "the family is " << kernel.chosen().schedule.family;
    return false;
  }
  return std::ranges::all_of(
      parts, [&](const SegmentMatcher& part) { return part.MatchAndExplain(kernel, listener); });
}

std::string described(const std::string& what, const std::vector<SegmentMatcher>& parts) {
  std::string description = what;
  for (const SegmentMatcher& part : parts) description += ", " + described(part);
  return description;
}

std::string names_of(const Fusion& fusion, const std::vector<ValueId>& values) {
  std::string names;
  for (const ValueId value : values) {
    const std::string& name = fusion.values[value].name;
    names += (names.empty() ? "" : ", ") + (name.empty() ? fmt::format("{}", value) : name);
  }
  return names.empty() ? "nothing" : names;
}

bool has_name(const Fusion& fusion, const std::vector<ValueId>& values, const std::string& name) {
  return std::ranges::any_of(
      values, [&](const ValueId value) { return fusion.values[value].name == name; });
}

SegmentMatcher passes(const std::string& verb, std::string name,
                      std::vector<ValueId> (*values)(const Fusion&)) {
  return segment_matcher(verb + " " + name,
                         [=](const KernelPlan& kernel, MatchResultListener* listener) {
                           const Fusion& fusion = kernel.facts.fusion;
                           *listener << verb << " " << names_of(fusion, values(fusion));
                           return has_name(fusion, values(fusion), name);
                         });
}

/// "kernel 1 of 2: the family is column"; false if there is no plan.
bool meets_at(const Plan& plan, KernelId id, const SegmentMatcher& kernel,
              MatchResultListener* listener) {
  *listener << fmt::format("{} of {}: ", id, plan.kernels.size());
  return kernel.MatchAndExplain(plan.kernels[id], listener);
}

/// A matcher of plans that succeeded.
PlanMatcher of_plan(std::string description,
                    const std::function<bool(const Plan&, MatchResultListener*)>& test) {
  return plan_matcher(std::move(description),
                      [test](const Result<Plan>& plan, MatchResultListener* listener) {
                        if (plan) return test(*plan, listener);
                        *listener << "planning failed";
                        return false;
                      });
}

/// Rejections as text, one each, of a plan or of an error that quotes them.
std::vector<std::string> rejection_texts(const Result<Plan>& plan) {
  std::vector<std::string> texts;
  if (plan) {
    for (const Rejection& rejection : plan->rejections) texts.push_back(text_of(rejection));
    return texts;
  }
  std::istringstream lines(plan.error().log);
  for (std::string line; std::getline(lines, line);) {
    texts.push_back(line.substr(std::min(line.find_first_not_of(' '), line.size())));
  }
  return texts;
}

}  // namespace

Result<Plan> plan_canned(std::string_view name, const ExtentValues& extents,
                         std::string_view device, const PlanOptions& options) {
  const CannedFusion* canned = find_canned_fusion(name);
  if (canned == nullptr) {
    return fail({.kind = ErrorKind::kInvalidArgument,
                 .message = fmt::format("there is no canned fusion '{}'", name)});
  }
  const auto limits = find_device(device);
  if (!limits) {
    return fail({.kind = ErrorKind::kInvalidArgument,
                 .message = fmt::format("there is no device preset '{}'", device)});
  }
  return plan(canned->build(), extents, *limits, options);
}

PlanMatcher plans_as(const std::string& family, const std::vector<SegmentMatcher>& parts) {
  return of_plan(described("is planned as " + family, parts),
                 [family, parts](const Plan& plan, MatchResultListener* listener) {
                   if (plan.kernels.size() != 1) {
                     *listener << "there are " << plan.kernels.size()
                               << " kernels; KernelsAre() says what each is";
                     return false;
                   }
                   return meets(plan.kernels.front(), family, parts, listener);
                 });
}

PlanMatcher kernels_are(const std::vector<SegmentMatcher>& kernels) {
  return of_plan(described(fmt::format("has {} kernels", kernels.size()), kernels),
                 [kernels](const Plan& plan, MatchResultListener* listener) {
                   if (plan.kernels.size() != kernels.size()) {
                     *listener << "there are " << plan.kernels.size() << " kernels";
                     return false;
                   }
                   for (const KernelId id : plan.kernels.ids()) {
                     if (!meets_at(plan, id, kernels[id.index], listener)) return false;
                     *listener << "; ";
                   }
                   return true;
                 });
}

PlanMatcher HasKernel(const SegmentMatcher& kernel) {
  return of_plan("has a kernel: " + described(kernel),
                 [kernel](const Plan& plan, MatchResultListener* listener) {
                   for (const KernelId id : plan.kernels.ids()) {
                     if (meets_at(plan, id, kernel, listener)) return true;
                     *listener << "; ";
                   }
                   return false;
                 });
}

PlanMatcher HasKernel(size_t index, const SegmentMatcher& kernel) {
  return of_plan(fmt::format("has kernel {}: {}", index, described(kernel)),
                 [index, kernel](const Plan& plan, MatchResultListener* listener) {
                   const KernelId id{static_cast<uint32_t>(index)};
                   if (plan.kernels.contains(id)) return meets_at(plan, id, kernel, listener);
                   *listener << "there are " << plan.kernels.size() << " kernels";
                   return false;
                 });
}

PlanMatcher CutsAre(const std::vector<std::string>& value_names) {
  std::vector<std::string> wanted = value_names;
  std::ranges::sort(wanted);
  return of_plan(fmt::format("has cuts at {}", fmt::join(wanted, ", ")),
                 [wanted](const Plan& plan, MatchResultListener* listener) {
                   std::vector<std::string> cut;
                   for (const Cut& at : plan.cuts) {
                     const std::string& name = plan.fusion.values[at.value].name;
                     cut.push_back(name.empty() ? fmt::format("{}", at.value) : name);
                   }
                   std::ranges::sort(cut);
                   cut.erase(std::unique(cut.begin(), cut.end()), cut.end());
                   *listener << "cuts are at " << fmt::format("{}", fmt::join(cut, ", "));
                   return cut == wanted;
                 });
}

PlanMatcher Joins(const std::vector<std::string>& value_names) {
  return of_plan(fmt::format("has a kernel that makes {}", fmt::join(value_names, ", ")),
                 [value_names](const Plan& plan, MatchResultListener* listener) {
                   for (const KernelPlan& kernel : plan.kernels) {
                     const Fusion& fusion = kernel.facts.fusion;
                     std::vector<ValueId> made;
                     for (const Op& op : fusion.ops) {
                       if (!std::holds_alternative<InputOp>(op.kind))
                         made.insert(made.end(), op.results.begin(), op.results.end());
                     }
                     if (std::ranges::all_of(value_names, [&](const std::string& name) {
                           return has_name(fusion, made, name);
                         }))
                       return true;
                   }
                   *listener << "none of its " << plan.kernels.size()
                             << " kernels makes all of them";
                   return false;
                 });
}

SegmentMatcher kernel(const std::string& family, const std::vector<SegmentMatcher>& parts) {
  return segment_matcher(described("a kernel of family " + family, parts),
                         [family, parts](const KernelPlan& kernel, MatchResultListener* out) {
                           return meets(kernel, family, parts, out);
                         });
}

SegmentMatcher Reads(std::string value_name) {
  return passes("reads", std::move(value_name), [](const Fusion& fusion) { return fusion.inputs; });
}
SegmentMatcher Writes(std::string value_name) {
  return passes("writes", std::move(value_name),
                [](const Fusion& fusion) { return fusion.outputs; });
}

SegmentMatcher Finishing(Finish finish) {
  return segment_matcher(fmt::format("finish {}", text_of(finish)),
                         [finish](const KernelPlan& kernel, MatchResultListener* listener) {
                           const Finish chosen = kernel.chosen().schedule.finish;
                           *listener << "finish is " << text_of(chosen);
                           return chosen == finish;
                         });
}

SegmentMatcher Keeps(std::string value_name) { return keeps(std::move(value_name), {}); }
SegmentMatcher Keeps(std::string value_name, Residency residency) {
  return keeps(std::move(value_name), residency);
}

SegmentMatcher KeepsCount(const Matcher<size_t>& count) {
  return segment_matcher("number of kept values " + described(count),
                         [count](const KernelPlan& kernel, MatchResultListener* listener) {
                           const auto kept = static_cast<size_t>(std::ranges::count_if(
                               kernel.chosen().schedule.kept, [](const KeptValue& value) {
                                 return value.residency != Residency::kReload;
                               }));
                           *listener << kept << " values are kept";
                           return count.Matches(kept);
                         });
}

SegmentMatcher ThreadsPerRow(const NumberMatcher& threads) {
  return field("threads_per_row", &Schedule::threads_per_row, threads);
}
SegmentMatcher RowsPerBlock(const NumberMatcher& rows) {
  return field("rows_per_block", &Schedule::rows_per_block, rows);
}
SegmentMatcher VectorWidth(const NumberMatcher& elements) {
  return field("vector_width", &Schedule::vector_width, elements);
}
SegmentMatcher Unroll(const NumberMatcher& batches) {
  return field("unroll", &Schedule::unroll, batches);
}

SegmentMatcher AccessesRows(RowAccess access) {
  return segment_matcher(fmt::format("row_access {}", text_of(access)),
                         [access](const KernelPlan& kernel, MatchResultListener* listener) {
                           const RowAccess chosen = kernel.chosen().schedule.row_access;
                           *listener << "row_access is " << text_of(chosen);
                           return chosen == access;
                         });
}

SegmentMatcher NoSpill() {
  return segment_matcher(
      "spills nothing", [](const KernelPlan& kernel, MatchResultListener* listener) {
        const ResourceEstimate& estimate = kernel.chosen().estimate;
        *listener << estimate.registers << " registers under a cap of " << estimate.register_cap;
        return estimate.spilled_registers == 0;
      });
}

PlanMatcher RejectedBy(std::string family, Matcher<const std::string&> text) {
  return plan_matcher(
      "is rejected by " + family + " with text that " + described(text),
      [family, text](const Result<Plan>& plan, MatchResultListener* listener) {
        const auto texts = rejection_texts(plan);
        const bool found = std::ranges::any_of(texts, [&](const std::string& rejection) {
          return rejection.starts_with(family + ": ") && text.Matches(rejection);
        });
        if (!found) *listener << "none of its " << texts.size() << " rejections is that one";
        return found;
      });
}

PlanMatcher FailsWith(ErrorKind kind, const Matcher<const std::string&>& text) {
  return plan_matcher(fmt::format("fails with {} whose text {}", name_of(kind), described(text)),
                      [kind, text](const Result<Plan>& plan, MatchResultListener*) {
                        return !plan && plan.error().kind == kind &&
                               text.Matches(plan.error().text());
                      });
}

void PrintTo(const KernelPlan& kernel, std::ostream* out) {
  *out << print(kernel.chosen().schedule);
}

void PrintTo(const Result<Plan>& plan, std::ostream* out) {
  if (!plan) {
    *out << plan.error().text();
    return;
  }
  *out << "\n";
  for (const KernelPlan& kernel : plan->kernels) PrintTo(kernel, out);
  for (const Rejection& rejection : plan->rejections) *out << text_of(rejection) << "\n";
}

}  // namespace sinter
