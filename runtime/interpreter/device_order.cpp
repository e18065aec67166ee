#include "runtime/interpreter/device_order.h"

#include <algorithm>

namespace sinter::interpreter {

void DeviceOrder::start_cluster(int64_t cluster) {
  cluster_ = cluster;
  fenced_.clear();
  found_.clear();
  learnt_.clear();
}

void DeviceOrder::add(Knowledge* into, const Knowledge& more) {
  for (const auto& [cluster, clock] : more) {
    std::shared_ptr<const HappensBefore::Clock>& known = (*into)[cluster];
    if (known == nullptr || known == clock) {
      known = clock;
      continue;
    }
    auto joined = std::make_shared<HappensBefore::Clock>(*known);
    for (size_t i = 0; i < clock->size(); ++i) (*joined)[i] = std::max((*joined)[i], (*clock)[i]);
    known = std::move(joined);
  }
}

void DeviceOrder::fence(int64_t thread) {
  if (const auto found = found_.find(thread); found != found_.end()) {
    learnt_.push_back({thread, order_->now(thread), std::move(found->second)});
    found_.erase(found);
  }
  auto clock = std::make_shared<HappensBefore::Clock>();
  order_->release(thread, clock.get());
  Knowledge told = {{cluster_, std::move(clock)}};
  for (const Learnt& learnt : learnt_) {
    if (order_->knows(thread, learnt.thread, learnt.time)) add(&told, learnt.knowledge);
  }
  fenced_[thread] = std::move(told);
}

void DeviceOrder::count(int64_t thread, kir::BufferId buffer, int64_t index) {
  Knowledge& here = in_memory_[{buffer, index}];
  add(&found_[thread], here);
  if (const auto fenced = fenced_.find(thread); fenced != fenced_.end()) add(&here, fenced->second);
}

bool DeviceOrder::knows(int64_t thread, int64_t cluster, int64_t actor, Time time) const {
  if (cluster == cluster_ && order_->knows(thread, actor, time)) return true;
  return std::ranges::any_of(learnt_, [&](const Learnt& learnt) {
    if (!order_->knows(thread, learnt.thread, learnt.time)) return false;
    const auto known = learnt.knowledge.find(cluster);
    return known != learnt.knowledge.end() && time <= (*known->second)[static_cast<size_t>(actor)];
  });
}

}  // namespace sinter::interpreter
