#include "worker/agent/starts.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "worker/agent/moves.h"
#include "worker/agent/state.h"
#include "worker/codegen/group/domain.h"

namespace warpsmith::agent {
namespace {

// What digits may cost, of what all takes without them.
constexpr double kLittle = 0.1, kMore = 0.3;
// What a split takes, of what all takes without it, that is worth it.
constexpr double kQuicker = 0.95;

// Times the estimate of the default, from which on a start is put off until all others were tried.
constexpr double kPutOff = 20;
// And beyond which one that is nearer to the truth is not worth it: the judge allows somewhat less.
constexpr double kMostOfNearer = 1.25;

// Whether it makes a product of fp32 on tensor cores; and whether it makes one in more than one
// pass, on tensor cores or not.
bool IsInParts(const codegen::GroupInfo& group) {
  const v1::ProductMath math = group.resolved.contract().math();
  return math == v1::PRODUCT_FP16X3 || math == v1::PRODUCT_FP16X3_INLINE;
}
bool IsSlow(const codegen::GroupInfo& group) {
  return IsInParts(group) || group.resolved.contract().math() == v1::PRODUCT_PLAIN;
}

// Without approximations.
v1::Schedule Exact(v1::Schedule schedule) {
  for (v1::Group& group : *schedule.mutable_groups()) {
    if (group.precision().fast_math()) group.mutable_precision()->clear_fast_math();
  }
  return schedule;
}

}  // namespace

std::optional<v1::Schedule> InOnePass(const std::shared_ptr<const graph::Graph>& graph,
                                      const v1::Schedule& schedule, const codegen::Target& target,
                                      int ties) {
  auto state = MakeState(graph, schedule, target);
  if (!state.ok()) return std::nullopt;
  bool found = false;
  for (int i = 0; i < schedule.groups_size(); ++i) {
    const codegen::GroupInfo& group = state->groups[i];
    const bool few = group.resolved.contract().math() == v1::PRODUCT_FEW;
    if (group.skeleton != v1::Group::kContract || !(few || IsSlow(group))) continue;
    v1::Schedule one = state->schedule;
    one.mutable_groups(i)->mutable_contract()->Clear();
    one.mutable_groups(i)->mutable_contract()->set_math(v1::PRODUCT_FP16);
    one.mutable_groups(i)->mutable_contract()->set_ties(ties);
    auto changed = MakeState(*state, one);
    if (!changed.ok() || EstimateOf(*changed) >= EstimateOf(*state)) continue;
    state = *std::move(changed);
    found = true;
  }
  // Beside factors of eleven bits what approximate functions lose (some ulp; of an exponential as
  // many as its argument) is little.
  for (int i = 0; found && i < schedule.groups_size(); ++i) {
    if (state->groups[i].transcendental == 0) continue;
    v1::Schedule one = state->schedule;
    one.mutable_groups(i)->mutable_precision()->set_fast_math(true);
    auto changed = MakeState(*state, one);
    if (changed.ok()) state = *std::move(changed);
  }
  return found ? std::optional<v1::Schedule>(state->schedule) : std::nullopt;
}

StartsAfterWrong::StartsAfterWrong(std::shared_ptr<const graph::Graph> graph,
                                   const codegen::Target& target,
                                   std::function<bool(const v1::Schedule&)> lowers)
    : graph_(std::move(graph)), target_(target), lowers_(std::move(lowers)) {
  first_ = codegen::FirstSchedule(*graph_, target_);
  exact_ = Exact(first_);
}

std::optional<v1::Schedule> StartsAfterWrong::Next() {
  const double first = SecondsOf(first_).value_or(0);
  while (auto start = InOrder()) {
    const auto seconds = SecondsOf(*start);
    if (first == 0 || !seconds || *seconds <= kPutOff * first) return start;
    put_off_.push_back(*std::move(start));
  }
  if (put_off_.empty()) return std::nullopt;
  v1::Schedule start = std::move(put_off_.front());
  put_off_.pop_front();
  return start;
}

std::optional<v1::Schedule> StartsAfterWrong::NextNearer() {
  constexpr int kLast = 5, kRounded[] = {0, 2};  // of InOrder
  while (next_ <= kLast) {
    const bool rounded = absl::c_linear_search(kRounded, next_);
    auto start = InOrder();
    if (rounded || !start) continue;
    const auto seconds = SecondsOf(*start), first = SecondsOf(first_);
    if (seconds && first && *seconds <= kMostOfNearer * *first) return start;
  }
  return std::nullopt;
}

std::optional<v1::Schedule> StartsAfterWrong::InOrder() {
  switch (next_++) {
    case 0:
      return first_;
    // Where the reference's own roundings to 16 bits are what misses its tolerance, who is nearer
    // to the truth is right: without those that cost nothing to leave out, then without those that
    // cost little, or more, then without any. With all of them it may be by the draw, and wrong on
    // the next: so that is not the first.
    case 1:
      return UnroundedAsQuick(exact_, 0);
    case 2:
      return exact_;
    case 3:
      return WithOwnRoundings(kLittle);
    case 4:
      return WithOwnRoundings(kMore);
    case 5:
      return WithoutPairs(WithoutRoundings(first_, true));
    case 6:
      return AddedUpOften(exact_);
    case 7: {
      v1::Schedule separate = AddedUpOften(exact_);
      for (v1::Group& group : *separate.mutable_groups())
        group.mutable_precision()->set_separate(true);
      return separate;
    }
    // What tensor cores truncate all points one way, and a sum of sums may be of nothing else.
    case 8:
      return AsReference(WithoutPairs(exact_));
    // Attention in steps rounds scores and weights where the reference does.
    case 9:
      return Exact(codegen::FirstSchedule(*graph_, target_, false));
    case 10:
      return codegen::OpByOpSchedule(*graph_, target_);
    default:
      return std::nullopt;
  }
}

// With two products of one factor in a kernel each, and what else is quicker in two (sums of what a
// product's end makes): nothing but 16 bits on tensor cores makes them together as quickly. Of the
// ways to split them that make no product twice, the one that is estimated to be the quickest.
v1::Schedule StartsAfterWrong::WithoutPairs(v1::Schedule schedule) const {
  const auto products = [](const State& state) {
    return std::count_if(state.groups.begin(), state.groups.end(),
                         [](const auto& group) { return group.skeleton == v1::Group::kContract; });
  };
  const auto multiplied = [](const State& state) {
    double all = 0;
    for (const auto& group : state.groups) all += group.products;
    return all;
  };
  auto state = MakeState(graph_, schedule, target_);
  if (!state.ok()) return schedule;
  const auto fusion = MakeFusion();
  while (true) {
    std::optional<State> best;
    for (const Action& action : fusion->Actions(*state)) {
      if (action.kind != "split") continue;
      auto split = MakeState(*state, action.schedule);
      if (!split.ok() || multiplied(*split) > multiplied(*state)) continue;
      const double seconds = EstimateOf(*split);
      const bool pair = products(*split) > products(*state);
      const bool quicker = seconds < kQuicker * EstimateOf(*state);
      if ((pair || quicker) && (!best || seconds < EstimateOf(*best))) best = *std::move(split);
    }
    if (!best) return state->schedule;
    state = *std::move(best);
  }
}

v1::Schedule StartsAfterWrong::WithoutRoundings(const v1::Schedule& schedule, bool factors) const {
  const auto rewritten = codegen::Rewrite(*graph_, schedule.rewrites());
  const auto state = MakeState(graph_, schedule, target_);
  if (!rewritten.ok() || !state.ok()) return schedule;
  // Attention in one kernel reads and writes 16 bits, and no kernel is as quick that has more.
  std::set<std::string> keep;
  std::set<int> stored;
  for (const v1::Group& group : schedule.groups()) {
    for (const std::string& root : group.roots()) stored.insert(rewritten->Find(root));
  }
  for (int g = 0; g < schedule.groups_size(); ++g) {
    if (state->groups[g].skeleton != v1::Group::kAttend) continue;
    std::vector<int> own;
    for (const std::string& root : schedule.groups(g).roots()) {
      keep.insert(root);
      own.push_back(rewritten->Find(root));
    }
    const auto in_memory = [&](int t) {
      return rewritten->tensors[t].node < 0 ||
             (stored.count(t) > 0 && !absl::c_linear_search(own, t));
    };
    for (int id : codegen::NeededNodes(*rewritten, own, in_memory)) {
      for (int t : graph::LoadedTensors(rewritten->nodes[id].value)) {
        if (stored.count(t) > 0) keep.insert(rewritten->tensors[t].name);
      }
    }
  }
  return Unrounded(*rewritten, schedule, factors, keep);
}

std::optional<double> StartsAfterWrong::SecondsOf(const v1::Schedule& schedule) const {
  const auto state = MakeState(graph_, schedule, target_);
  return state.ok() ? std::optional<double>(EstimateOf(*state)) : std::nullopt;
}

// Without roundings but those of factors of products that would be slower by more than `most` of
// all: so that those are made as before.
v1::Schedule StartsAfterWrong::UnroundedAsQuick(const v1::Schedule& schedule, double most) const {
  v1::Schedule unrounded = WithoutRoundings(schedule, false);
  auto state = MakeState(graph_, unrounded, target_);
  if (!state.ok()) return schedule;
  for (int i = 0; i < unrounded.groups_size(); ++i) {
    if (!IsSlow(state->groups[i])) continue;
    v1::Schedule rounded = unrounded;
    rounded.mutable_groups(i)->mutable_precision()->clear_unrounded();
    auto changed = MakeState(*state, rounded);
    if (!changed.ok() || IsSlow(changed->groups[i])) continue;
    if (EstimateOf(*state) < (1 + most) * EstimateOf(*changed)) continue;
    unrounded = std::move(rounded);
    state = std::move(changed);
  }
  return unrounded;
}

// The same, where sums and products read what others have rounded to 16 bits as it was before, one
// after the other, as long as all takes no more than `most` of it longer.
v1::Schedule StartsAfterWrong::WithOwnRoundings(double most) const {
  v1::Schedule own = UnroundedAsQuick(exact_, 0);
  const auto seconds = SecondsOf(own);
  const auto first = codegen::Rewrite(*graph_, exact_.rewrites());
  if (!seconds || !first.ok()) return exact_;
  for (const std::string& rewrite : codegen::RewritesForDigits(*first)) {
    auto rewrites = own.rewrites();
    *rewrites.Add() = rewrite;
    const auto rewritten = codegen::Rewrite(*graph_, rewrites);
    if (!rewritten.ok()) continue;  // one before left it nothing to do
    v1::Schedule more = Exact(codegen::DefaultSchedule(*rewritten, target_));
    *more.mutable_rewrites() = rewrites;
    more = UnroundedAsQuick(more, most);
    const auto takes = SecondsOf(more);
    if (!takes || *takes > (1 + most) * *seconds) continue;
    own = std::move(more);
  }
  return own;
}

// With products on tensor cores, which truncate, added up in fp32 as often as they can be.
v1::Schedule StartsAfterWrong::AddedUpOften(v1::Schedule schedule) const {
  constexpr int kLeastRun = 32;
  const auto state = MakeState(graph_, schedule, target_);
  if (!state.ok()) return schedule;
  for (int i = 0; i < schedule.groups_size(); ++i) {
    if (state->groups[i].tensor_products > 0 &&
        state->groups[i].resolved.contract().math() == v1::PRODUCT_FP16X3)
      schedule.mutable_groups(i)->mutable_contract()->set_run(kLeastRun);
  }
  return schedule;
}

// With products made on tensor cores as the reference makes them: of 16 bits by a library, of
// fp32 by ordinary instructions (a library's workspace for each of many would be too much). Where
// last digits decide what is right, these are the ones.
v1::Schedule StartsAfterWrong::AsReference(v1::Schedule schedule) const {
  const auto state = MakeState(graph_, schedule, target_);
  if (!state.ok()) return schedule;
  for (int i = 0; i < schedule.groups_size(); ++i) {
    if (state->groups[i].tensor_products == 0) continue;
    const bool wide = IsInParts(state->groups[i]);
    for (const v1::ProductMath math : {wide ? v1::PRODUCT_PLAIN : v1::PRODUCT_LIBRARY,
                                       wide ? v1::PRODUCT_LIBRARY : v1::PRODUCT_PLAIN}) {
      v1::Schedule one = schedule;
      one.mutable_groups(i)->mutable_contract()->Clear();
      one.mutable_groups(i)->mutable_contract()->set_math(math);
      if (!lowers_(one)) continue;
      schedule = std::move(one);
      break;
    }
  }
  return schedule;
}

}  // namespace warpsmith::agent
