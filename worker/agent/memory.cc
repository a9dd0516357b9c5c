// Memory: how data moves. Vector width, cache hints, direction, and what is kept on chip.
#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/agent/moves.h"

namespace warpsmith::agent {
namespace {

constexpr char kName[] = "memory";
constexpr int64_t kMaxKeptVectors = 64;  // code generation's limit for either place

int Sign(int64_t n) { return n > 0 ? 1 : n < 0 ? -1 : 0; }

void AddVectors(const State& state, int i, double room, std::vector<Action>& actions) {
  const auto& info = state.groups[i];
  const int now = info.resolved.memory().vector_bytes();
  for (int bytes : {16, 8, 4, 2}) {
    if (bytes < info.element_bytes || bytes == now) continue;
    // Narrower than what works costs instructions, but relieves registers and edges of short rows.
    Action* action = AddMove(
        state, i, kName, "vector_bytes", absl::StrCat(now), absl::StrCat(bytes),
        (bytes > now ? 0.08 : 0.02) * room,
        [&](v1::Group& g) { g.mutable_memory()->set_vector_bytes(bytes); }, actions);
    if (action != nullptr) action->registers = Sign(bytes - now);
  }
}

const char* NameOf(v1::CacheHint hint) {
  return hint == v1::CACHE_STREAMING ? "streaming" : "default";
}

void AddHints(const State& state, int i, double room, std::vector<Action>& actions) {
  const auto& memory = state.groups[i].resolved.memory();
  const std::string now =
      absl::StrCat(NameOf(memory.load_hint()), " loads, ", NameOf(memory.store_hint()), " stores");
  for (auto load : {v1::CACHE_STREAMING, v1::CACHE_DEFAULT}) {
    for (auto store : {v1::CACHE_STREAMING, v1::CACHE_DEFAULT}) {
      if (load == memory.load_hint() && store == memory.store_hint()) continue;
      const std::string to = absl::StrCat(NameOf(load), " loads, ", NameOf(store), " stores");
      AddMove(
          state, i, kName, "hints", now, to, 0.04 * room,
          [&](v1::Group& g) {
            g.mutable_memory()->set_load_hint(load);
            g.mutable_memory()->set_store_hint(store);
          },
          actions);
    }
  }
}

void AddReverse(const State& state, int i, double room, std::vector<Action>& actions) {
  const bool now = state.groups[i].resolved.memory().reverse();
  // The second of two groups finds in L2 what the first touched last.
  const double prior = i > 0 ? 0.06 : 0.01;
  AddMove(
      state, i, kName, "reverse", now ? "yes" : "no", now ? "no" : "yes", prior * room,
      [&](v1::Group& g) { g.mutable_memory()->set_reverse(!now); }, actions);
}

// Splits of a row between registers and shared memory.
void AddRowStorage(const State& state, int i, double room, std::vector<Action>& actions) {
  const auto& info = state.groups[i];
  const auto& occupancy = info.resolved.occupancy();
  const auto& memory = info.resolved.memory();
  const int vector = VectorElements(info, info.resolved);
  const RowNeeds needs = NeedsOf(info, occupancy, vector);
  const Capacity capacity =
      CapacityOf(state.target, occupancy.block_threads(), std::max(1, occupancy.blocks_per_sm()));
  const int64_t most_registers = capacity.registers / needs.vector_bytes;
  const int64_t most_shared =
      capacity.shared / (needs.vector_bytes * std::max(1, occupancy.block_threads()));
  const std::string now =
      absl::StrCat(memory.register_vectors(), " register + ", memory.shared_vectors(), " shared");

  std::set<std::pair<int64_t, int64_t>> seen;
  auto add = [&](const char* kind, int64_t registers, int64_t shared, double prior) {
    if (registers < 0 || shared < 0 || registers + shared > needs.vectors) return;
    // A little over what is estimated is left to the compiler's report: spills show there.
    if (registers > most_registers + 2 || shared > most_shared) return;
    if (std::max(registers, shared) > kMaxKeptVectors) return;
    if (registers == memory.register_vectors() && shared == memory.shared_vectors()) return;
    // Zero means automatic: a row that is kept in one place only says so by filling that place.
    if (!seen.insert({registers, shared}).second) return;
    Action* action = AddMove(
        state, i, kName, kind, now, absl::StrCat(registers, " register + ", shared, " shared"),
        prior * room,
        [&](v1::Group& g) {
          g.mutable_memory()->set_register_vectors(static_cast<int>(registers));
          g.mutable_memory()->set_shared_vectors(static_cast<int>(shared));
        },
        actions);
    if (action != nullptr) action->registers = Sign(registers - memory.register_vectors());
  };
  const int64_t n = needs.vectors;
  if (needs.reread) {
    // Everything held, cut in several ways.
    for (int64_t eighths : {4, 3, 5, 2, 6, 8, 0, 1, 7}) {
      const int64_t registers = n * eighths / 8;
      add("keep", registers, n - registers, eighths == 4 ? 0.15 : 0.08);
    }
    if (n > most_registers + most_shared) add("keep", most_registers, most_shared, 0.12);
  } else {
    // Read once: slots of the next row in flight are what keeping is for.
    for (int64_t kept : {2, 4, 8}) {
      add("keep", kept, 0, 0.05);
      add("keep", kept / 2, kept / 2, 0.05);
    }
  }
  const int64_t registers = memory.register_vectors(), shared = memory.shared_vectors();
  add("shift", registers + 1, shared - 1, 0.04);
  add("shift", registers - 1, shared + 1, 0.04);
  add("register_vectors", registers + 1, shared, 0.04);
  add("register_vectors", registers - 1, shared, 0.03);
  add("register_vectors", registers * 2, shared, 0.03);
  add("shared_vectors", registers, shared + 1, 0.04);
  add("shared_vectors", registers, shared - 1, 0.03);
  add("shared_vectors", registers, shared * 2, 0.03);
}

void AddColumnStorage(const State& state, int i, double room, std::vector<Action>& actions) {
  const auto& info = state.groups[i];
  if (info.stages + (info.row_outputs ? 1 : 0) < 2) return;
  const auto& occupancy = info.resolved.occupancy();
  const int vector = VectorElements(info, info.resolved);
  const int64_t vector_bytes = int64_t{vector} * info.element_bytes * std::max(1, info.streams);
  const int64_t needed = CeilDiv(info.row_elements, std::max(1, occupancy.threads_per_row()));
  const Capacity capacity =
      CapacityOf(state.target, occupancy.block_threads(), std::max(1, occupancy.blocks_per_sm()));
  const int now = info.resolved.memory().register_vectors();
  for (int64_t kept : {needed, needed / 2, int64_t{now} * 2, int64_t{now} / 2, int64_t{now} + 2}) {
    if (kept < 1 || kept > std::min(needed, kMaxKeptVectors) || kept == now) continue;
    if (kept * vector_bytes > capacity.registers + 32) continue;
    Action* action = AddMove(
        state, i, kName, "register_vectors", absl::StrCat(now), absl::StrCat(kept),
        (kept == needed ? 0.25 : 0.05) * room,
        [&](v1::Group& g) { g.mutable_memory()->set_register_vectors(static_cast<int>(kept)); },
        actions);
    if (action != nullptr) action->registers = Sign(kept - now);
  }
}

class Memory : public Specialist {
 public:
  const char* name() const override { return kName; }

  std::vector<Action> Actions(const State& state) const override {
    std::vector<Action> actions;
    for (int i = 0; i < state.groups.size(); ++i) {
      const double room = Room(state, i);
      if (state.groups[i].skeleton == v1::SKELETON_ROWS) AddRowStorage(state, i, room, actions);
      if (state.groups[i].skeleton == v1::SKELETON_COLUMNS) {
        AddColumnStorage(state, i, room, actions);
      }
      AddVectors(state, i, room, actions);
      AddHints(state, i, room, actions);
      AddReverse(state, i, room, actions);
      AddRelease(state, i, room, actions);
    }
    return actions;
  }

 private:
  // Back to what code generation chooses for the occupancy of now.
  static void AddRelease(const State& state, int i, double room, std::vector<Action>& actions) {
    const auto& memory = state.schedule.groups(i).memory();
    if (memory.register_vectors() == 0 && memory.shared_vectors() == 0) return;
    AddMove(
        state, i, kName, "keep", "", "automatic", 0.05 * room,
        [](v1::Group& g) {
          g.mutable_memory()->clear_register_vectors();
          g.mutable_memory()->clear_shared_vectors();
        },
        actions);
  }
};

}  // namespace

std::unique_ptr<Specialist> MakeMemory() { return std::make_unique<Memory>(); }

}  // namespace warpsmith::agent
