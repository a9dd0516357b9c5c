#include "worker/agent/regroup.h"

#include <algorithm>
#include <set>
#include <string>

namespace warpsmith::agent {

void KeepKnobs(const v1::Schedule& from, v1::Schedule& to) {
  for (auto& group : *to.mutable_groups()) {
    const std::set<std::string> roots(group.roots().begin(), group.roots().end());
    const v1::Group* related = nullptr;
    bool same = false;
    for (const auto& old : from.groups()) {
      const std::set<std::string> old_roots(old.roots().begin(), old.roots().end());
      if (old_roots == roots) {
        related = &old;
        same = true;
        break;
      }
      for (const auto& root : old_roots) {
        if (related == nullptr && roots.count(root) > 0) related = &old;
      }
    }
    if (same) {
      group = *related;
    } else if (related != nullptr && related->has_precision()) {
      *group.mutable_precision() = related->precision();
    }
  }
  *to.mutable_launch() = from.launch();
  if (!from.has_launch()) to.clear_launch();
}

void KeepPrecision(const v1::Group& a, const v1::Group& b, v1::Group& to) {
  if (!a.has_precision() && !b.has_precision()) return;
  v1::PrecisionKnobs& kept = *to.mutable_precision();
  // The enumeration is in the order of what they keep; AUTO is no choice.
  kept.set_accumulator(std::max(a.precision().accumulator(), b.precision().accumulator()));
  kept.set_fast_math(a.precision().fast_math() && b.precision().fast_math());
  kept.set_separate(a.precision().separate() || b.precision().separate());
  kept.set_unrounded(a.precision().unrounded() || b.precision().unrounded());
}

}  // namespace warpsmith::agent
