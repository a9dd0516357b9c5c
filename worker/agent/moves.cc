#include "worker/agent/moves.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "worker/codegen/knob/knob.h"

namespace warpsmith::agent {
std::string GroupName(const v1::Group& group) {
  return group.roots_size() > 0 ? group.roots(0) : "?";
}

std::string SkeletonOf(const State& state, int group) {
  return codegen::NameOf(state.groups[group].skeleton);
}

double EstimatedGain(const State& state, const State& to) {
  constexpr double kBelieved = 0.5, kMost = 0.5;
  const auto seconds = [](const State& of) {
    return std::accumulate(of.groups.begin(), of.groups.end(), 0.0,
                           [](double sum, const auto& group) { return sum + group.seconds; });
  };
  const double before = seconds(state), after = seconds(to);
  return before > 0 && after > 0 ? std::min(kMost, kBelieved * std::log(before / after)) : 0;
}

double EstimatedGain(const State& state, const v1::Schedule& schedule) {
  const auto to = MakeState(state, schedule);
  return to.ok() ? EstimatedGain(state, *to) : 0;
}

std::string Bytes(const google::protobuf::MessageLite& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

Action* AddMove(const State& state, int index, const char* specialist, const std::string& kind,
                const std::string& from, const std::string& to, double prior,
                const std::function<void(v1::Group&)>& edit, std::vector<Action>& actions) {
  const v1::Group& before = state.schedule.groups(index);
  v1::Group after = before;
  codegen::SetSkeleton(after, state.groups[index].skeleton);
  const v1::Group open = after;
  edit(after);
  const std::string changed = Bytes(after);
  if (changed == Bytes(open)) return nullptr;
  Action action;
  action.specialist = specialist;
  action.kind = kind;
  const std::string group = GroupName(before);
  action.name =
      absl::StrCat("group ", group, ": ", kind, " ", from, from.empty() ? "" : " -> ", to);
  action.key = absl::StrCat(group, " ", SkeletonOf(state, index), " ", kind, "=", to);
  action.group = group;
  action.from = from;
  action.to = to;
  action.schedule = state.schedule;
  *action.schedule.mutable_groups(index) = std::move(after);
  if (!state.Resolves(action.schedule, index)) return nullptr;
  for (const Action& other : actions) {
    // Most differ in this group already.
    if (other.group == group && other.schedule.groups_size() > index &&
        Bytes(other.schedule.groups(index)) == changed &&
        Bytes(other.schedule) == Bytes(action.schedule))
      return nullptr;
  }
  action.prior = prior;
  actions.push_back(std::move(action));
  return &actions.back();
}

}  // namespace warpsmith::agent
