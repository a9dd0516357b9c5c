#include "worker/codegen/random_schedule.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "worker/codegen/knob/knob.h"

namespace warpsmith::codegen {
namespace {

constexpr int kKnobAttempts = 6;
constexpr int kRegroupings = 8;

// Joins group a with b behind it, at the place of b. What only the other one reads may become its
// own business, if `drops` says so: it is then computed there.
void JoinInto(v1::Schedule& schedule, const graph::Graph& graph, int a, int b,
              const std::function<bool()>& drops) {
  v1::Group joined;
  for (int g : {a, b}) {
    for (const std::string& root : schedule.groups(g).roots()) {
      const int tensor = graph.Find(root);
      bool needed = std::count(graph.outputs.begin(), graph.outputs.end(), tensor) > 0;
      for (const graph::Graph::Update& update : graph.updates) needed |= update.value == tensor;
      if (g == a && !needed && drops()) continue;
      joined.add_roots(root);
    }
  }
  *schedule.mutable_groups(b) = joined;
  schedule.mutable_groups()->DeleteSubrange(a, 1);
}

// Two groups at random.
void Join(v1::Schedule& schedule, const graph::Graph& graph, Random& random) {
  const int n = schedule.groups_size();
  if (n < 2) return;
  const int a = random.Below(n), b = random.Below(n);
  if (a == b) return;
  JoinInto(schedule, graph, std::min(a, b), std::max(a, b), [&] { return random.OneIn(2); });
}

// Groups at random: node by node at first, then some of them joined.
v1::Schedule RandomGroups(const graph::Graph& graph, const Target& target, Random& random) {
  v1::Schedule schedule = OpByOpSchedule(graph, target);
  for (int i = 0; i < kRegroupings; ++i) {
    v1::Schedule trial = schedule;
    Join(trial, graph, random);
    if (Lower(graph, trial, target).ok()) schedule = trial;
  }
  return schedule;
}

// The first pairs of groups that can be one are, until none is left.
v1::Schedule Together(const graph::Graph& graph, const Target& target) {
  v1::Schedule schedule = OpByOpSchedule(graph, target);
  for (bool joined = true; joined;) {
    joined = false;
    for (int b = 1; b < schedule.groups_size() && !joined; ++b) {
      for (int a = 0; a < b && !joined; ++a) {
        for (bool all : {false, true}) {
          if (joined) break;
          v1::Schedule trial = schedule;
          JoinInto(trial, graph, a, b, [all] { return !all; });
          if (!Lower(graph, trial, target).ok()) continue;
          schedule = trial;
          joined = true;
        }
      }
    }
  }
  return schedule;
}

}  // namespace

v1::Group RandomKnobs(const v1::Group& group, const GroupInfo& info, Random& random) {
  v1::Group g = group;
  SkeletonCase skeleton = info.skeleton;
  if (random.OneIn(4) && !info.others.empty())
    skeleton = info.others[random.Below(static_cast<int>(info.others.size()))];
  if (skeleton == v1::Group::SKELETON_NOT_SET) return g;
  SetSkeleton(g, skeleton);
  for (const KnobRow& row : KnobsOf(skeleton)) {
    if (random.OneIn(2)) continue;
    const std::vector<int64_t> values =
        ValuesOf(row, info.resolved.skeleton_case() == skeleton ? ValueOf(info.resolved, row) : 0);
    int64_t value = values[random.Below(static_cast<int>(values.size()))];
    if (row.name == "block_threads") value = random.Of({0, 32, 64, 128});
    if (row.name == "blocks_per_sm") value = random.Of({0, 0, 1, 2});
    if (row.name == "blocks_per_row" || row.name == "split") value = random.Of({0, 1, 2, 3, 8});
    // Is less accurate; is more so than the oracle, which rounds.
    if (row.name == "fast_math" || row.name == "unrounded") value = 0;
    SetValue(g, row, value);
  }
  // Rows of several blocks need several knobs to agree.
  if (skeleton == v1::Group::kRows && random.OneIn(3)) {
    v1::RowsKnobs& rows = *g.mutable_rows();
    rows.set_blocks_per_row(random.Of({2, 4}));
    rows.set_meeting(
        random.Of({v1::MEETING_CLUSTER, v1::MEETING_COUNTER, v1::MEETING_SECOND_PASS}));
    rows.set_block_threads(64);
    rows.set_threads_per_row(64);
    rows.set_blocks_per_sm(rows.meeting() == v1::MEETING_COUNTER ? 2 : 0);
  }
  return g;
}

v1::Schedule RandomSchedule(const graph::Graph& graph, const Target& target, Random& random,
                            bool together) {
  v1::Schedule schedule;
  std::vector<std::string> rewrites = ApplicableRewrites(graph);
  for (std::string& rewrite : RewritesForDigits(graph)) rewrites.push_back(std::move(rewrite));
  for (const std::string& rewrite : rewrites) {
    v1::Schedule trial = schedule;
    trial.add_rewrites(rewrite);
    if (random.OneIn(2) && Rewrite(graph, trial.rewrites()).ok()) schedule = trial;
  }
  const graph::Graph rewritten = Rewrite(graph, schedule.rewrites()).value();
  const int drawn = random.Below(8), kind = drawn % 4;
  *schedule.mutable_groups() = together    ? Together(rewritten, target).groups()
                               : kind == 0 ? DefaultSchedule(rewritten, target).groups()
                               : kind == 1 ? OpByOpSchedule(rewritten, target).groups()
                                           : RandomGroups(rewritten, target, random).groups();
  schedule.mutable_launch()->set_programmatic(random.OneIn(2));
  schedule.mutable_launch()->set_when_ended(random.OneIn(2));
  schedule.mutable_launch()->set_branches(drawn >= 4);
  const auto infos = Describe(rewritten, schedule, target);
  if (!infos.ok() || random.OneIn(8)) return schedule;  // every knob open
  for (int g = 0; g < schedule.groups_size(); ++g) {
    for (int attempt = 0; attempt < kKnobAttempts; ++attempt) {
      v1::Schedule trial = schedule;
      *trial.mutable_groups(g) = RandomKnobs(schedule.groups(g), (*infos)[g], random);
      if (!Lower(rewritten, trial, target).ok()) continue;
      schedule = trial;
      break;
    }
  }
  return schedule;
}

v1::Schedule Mutated(const v1::Schedule& schedule, const graph::Graph& graph, Random& random) {
  v1::Schedule s = schedule;
  for (int changes = 1 + random.Below(3); changes > 0; --changes) {
    const int n = s.groups_size();
    const int g = n > 0 ? random.Below(n) : 0;
    const auto& tensor = graph.tensors[random.Below(static_cast<int>(graph.tensors.size()))];
    switch (n > 0 ? random.Below(9) : 9) {
      case 0:
        s.mutable_groups()->DeleteSubrange(g, 1);
        break;
      case 1:
        *s.add_groups() = v1::Group(s.groups(g));
        break;
      case 2:
        s.mutable_groups()->SwapElements(g, random.Below(n));
        break;
      case 3:
        s.mutable_groups(g)->add_roots(tensor.name);
        break;
      case 4:
        if (s.groups(g).roots_size() > 0) s.mutable_groups(g)->mutable_roots()->RemoveLast();
        break;
      case 5:
        Join(s, graph, random);
        break;
      case 6:
        SetSkeleton(*s.mutable_groups(g),
                    SkeletonCases()[random.Below(static_cast<int>(SkeletonCases().size()))]);
        break;
      case 7:
      case 8: {
        v1::Group& group = *s.mutable_groups(g);
        if (group.skeleton_case() == v1::Group::SKELETON_NOT_SET) break;
        const auto& rows = KnobsOf(group.skeleton_case());
        const KnobRow& row = rows[random.Below(static_cast<int>(rows.size()))];
        const std::vector<int64_t> values = ValuesOf(row, ValueOf(group, row));
        const bool sensible = row.scale == v1::Knob::CHOICE || random.OneIn(2);
        SetValue(group, row,
                 sensible ? values[random.Below(static_cast<int>(values.size()))]
                          : random.Of<int64_t>({-1, 1, 3, 7, 33, 48, 1000, 4096, INT32_MAX}));
        if (row.name == "fast_math" || row.name == "unrounded") SetValue(group, row, 0);
        if (row.name == "blocks_per_row" || row.name == "split") {
          SetValue(group, row, std::min<int64_t>(ValueOf(group, row), 64));
        }
        break;
      }
      default:
        s.add_groups()->add_roots(random.OneIn(2) ? tensor.name : "no such tensor");
        break;
    }
  }
  return s;
}

}  // namespace warpsmith::codegen
