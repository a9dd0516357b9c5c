// Specialists of knobs. Which knobs there are, whose they are and which values they take is in the
// table (worker/codegen/knob/knob.h); what is worth trying first is said here.
#include <algorithm>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "worker/agent/moves.h"
#include "worker/codegen/knob/knob.h"

namespace warpsmith::agent {
namespace {

using codegen::KnobRow;

// Operations for a byte from which on arithmetic, and so approximations, decide.
constexpr double kArithmeticHeavy = 4;

int Sign(int64_t n) { return n > 0 ? 1 : n < 0 ? -1 : 0; }

// Part of a group's room that is expected of a step by its nearness: neighbours first.
struct Expectation {
  double near, far;
};

Expectation ExpectationOf(const std::string& knob) {
  static const auto* known = new std::map<std::string, Expectation>{
      {"vector_bytes", {0.08, 0.03}}, {"load_hint", {0.04, 0.04}},  {"store_hint", {0.04, 0.04}},
      {"unroll", {0.08, 0.03}},       {"outputs", {0.2, 0.2}},      {"online", {0.08, 0.08}},
      {"reverse", {0.03, 0.03}},      {"rows_at_once", {0.1, 0.05}}};
  const auto found = known->find(knob);
  return found == known->end() ? Expectation{0.05, 0.02} : found->second;
}

// Whether none of it leaves the choice to code generation.
bool IsOpenAtNone(const std::string& knob) {
  return knob == "register_vectors" || knob == "shared_vectors";
}

// Whether more of the knob takes registers of a thread.
bool TakesRegisters(const std::string& knob) {
  return knob == "vector_bytes" || knob == "unroll" || knob == "outputs" ||
         knob == "register_vectors" || knob == "rows_at_once";
}

class Knobs : public Specialist {
 public:
  explicit Knobs(v1::Specialist owner)
      : owner_(owner), name_(absl::AsciiStrToLower(v1::Specialist_Name(owner))) {}
  const char* name() const override { return name_.c_str(); }

  std::vector<Action> Actions(const State& state) const override {
    std::vector<Action> actions;
    for (int i = 0; i < state.groups.size(); ++i) {
      if (state.groups[i].resolved.skeleton_case() == v1::Group::SKELETON_NOT_SET) continue;
      AddLayouts(state, i, actions);
      for (const KnobRow& row : codegen::KnobsOf(state.groups[i].skeleton)) {
        if (row.owner == owner_ && Matters(state, i, row)) AddSteps(state, i, row, actions);
      }
      AddRelease(state, i, actions);
    }
    return actions;
  }

 private:
  // Whether it can change what the group does.
  static bool Matters(const State& state, int i, const KnobRow& row) {
    const auto& info = state.groups[i];
    if (row.name == "fast_math") return info.transcendental > 0;
    if (row.name == "online") return info.can_online;
    if (row.name == "unrounded") return RoundsToHalves(state.graph());
    if (row.name == "accumulator") {
      return info.reduces && std::any_of(state.graph().nodes.begin(), state.graph().nodes.end(),
                                         [](const graph::Node& node) {
                                           return node.reduce && graph::IsFloat(node.value->type) &&
                                                  node.combiner == graph::Combiner::kSum;
                                         });
    }
    return true;
  }

  void AddSteps(const State& state, int i, const KnobRow& row, std::vector<Action>& actions) const {
    const int64_t now = codegen::ValueOf(state.groups[i].resolved, row);
    const Expectation expected = ExpectationOf(row.name);
    for (int64_t to : codegen::ValuesOf(row, now)) {
      // Open is no value, except where 0 says "none" or "no".
      if (to == now || (to == 0 && (row.low > 0 || IsOpenAtNone(row.name)))) continue;
      if (to == 0 && row.field->enum_type() != nullptr &&
          row.name.find("hint") == std::string::npos)
        continue;
      const bool near = row.scale == v1::Knob::LINEAR   ? std::abs(to - now) <= 1
                        : row.scale == v1::Knob::HALVES ? to <= 2 * now && now <= 2 * to
                                                        : to == 2 * now || 2 * to == now;
      double prior = near ? expected.near : expected.far;
      // fp32 is the cheapest; fp64 is surer than compensation and needs fewer operations.
      if (row.name == "accumulator")
        prior = to == v1::ACCUMULATOR_F32 ? 0.03 : to == v1::ACCUMULATOR_F64 ? 0.004 : 0.002;
      if (row.name == "separate" || row.name == "unrounded") prior = 0.01;
      if (row.name == "fast_math") prior = IsHeavy(state.groups[i]) ? 0.15 : 0.05;
      Action* action = AddMove(
          state, i, name(), row.name, codegen::TextOf(row, now), codegen::TextOf(row, to),
          prior * Room(state, i),
          [&](v1::Group& g) {
            codegen::SetValue(g, row, to);
            // Other operands want another way to multiply.
            if (row.name == "unrounded" && g.has_contract()) g.mutable_contract()->Clear();
          },
          actions);
      if (action == nullptr) continue;
      if (row.name == "unrounded" && state.groups[i].skeleton == v1::Group::kContract)
        action->prior = std::max(action->prior, EstimatedGain(state, action->schedule));
      if (TakesRegisters(row.name)) action->registers = Sign(to - now);
      if (row.name == "accumulator") action->accuracy = Sign(to - now);
      if (row.name == "run") action->accuracy = Sign(now - to);
      if (row.name == "unrounded") action->accuracy = Sign(to - now);
      if (row.name == "fast_math") action->accuracy = Sign(now - to);
    }
  }

  void AddLayouts(const State& state, int i, std::vector<Action>& actions) const {
    const auto& rows = codegen::KnobsOf(state.groups[i].skeleton);
    for (const codegen::Layout& layout : state.Layouts(i)) {
      if (layout.owner != owner_) continue;
      Action* action = AddMove(
          state, i, name(), layout.kind, "", layout.name,
          layout.prior * Slower(state, i) * Room(state, i),
          [&](v1::Group& g) {
            for (const auto& [knob, value] : layout.knobs) {
              for (const KnobRow& row : rows) {
                if (row.name == knob) codegen::SetValue(g, row, value);
              }
            }
          },
          actions);
      if (action != nullptr) action->registers = layout.registers;
    }
  }

  // Back to what code generation chooses for what the others have chosen.
  void AddRelease(const State& state, int i, std::vector<Action>& actions) const {
    if (owner_ != v1::MEMORY) return;
    AddMove(
        state, i, name(), "release", "", "automatic", 0.05 * Room(state, i),
        [&](v1::Group& g) {
          for (const KnobRow& row : codegen::KnobsOf(g.skeleton_case())) {
            if (row.owner == owner_ && row.scale != v1::Knob::CHOICE) codegen::SetValue(g, row, 0);
          }
        },
        actions);
  }

  static bool IsHeavy(const codegen::GroupInfo& info) {
    const double bytes = std::max<double>(1.0, info.bytes_read + info.bytes_written);
    return info.transcendental / bytes * 16 + info.operations / bytes > kArithmeticHeavy;
  }

  const v1::Specialist owner_;
  const std::string name_;
};

}  // namespace

std::unique_ptr<Specialist> MakeKnobs(v1::Specialist owner) {
  return std::make_unique<Knobs>(owner);
}

}  // namespace warpsmith::agent
