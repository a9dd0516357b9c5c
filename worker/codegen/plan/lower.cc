// Lowering: each group's glue, its kernels and their launches.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "worker/codegen/codegen.h"
#include "worker/codegen/skeleton/glue.h"
#include "worker/codegen/group/group.h"
#include "worker/codegen/knob/knobs.h"
#include "worker/codegen/skeleton/staged/staged.h"
#include "worker/codegen/plan/storage.h"

namespace warpsmith::codegen {

using absl::StrCat;

namespace {

constexpr int kCombineThreads = 256;
// What a block of a row with several exchanges with the others (RowsConfig::kExchangeBytes /
// blocks).
constexpr int64_t kExchangeBytes = 2 * (kMaxAccBytes / 4) * 8;
constexpr int64_t kMaxGrid = (int64_t{1} << 31) - 1;

const char* Bool(bool b) { return b ? "true" : "false"; }

// Writes one group's kernels and steps.
class GroupLowering {
 public:
  GroupLowering(const graph::Graph& graph, const Target& target, bool programmatic,
                Storage& storage, v1::Plan& plan)
      : graph_(graph),
        target_(target),
        programmatic_(programmatic),
        storage_(storage),
        plan_(plan) {}

  absl::Status Lower(const AnalysedGroup& group) {
    group_ = &group;
    const Space& space = group.space;
    base_name_ = StrCat("k", number_++, "_", Identifier(graph_.tensors[space.roots[0]].name));
    absl::StrAppend(plan_.mutable_source(), "\n", group.source.text, "\n");
    switch (space.skeleton) {
      case v1::SKELETON_MAP:
        return Map();
      case v1::SKELETON_ROWS:
        return Rows();
      default:
        return Columns();
    }
  }

 private:
  const v1::OccupancyKnobs& occupancy() const { return group_->resolved.occupancy(); }
  const std::string& glue() const { return group_->name; }

  absl::Status CheckGrid(int64_t blocks) const {
    if (blocks <= kMaxGrid) return absl::OkStatus();
    return absl::InvalidArgumentError(StrCat("group '", graph_.tensors[group_->space.roots[0]].name,
                                             "': a grid of ", blocks, " blocks, at most ", kMaxGrid,
                                             "; raise occupancy.block_threads or compute.unroll"));
  }

  // Whether what the parameter points to stays as it is while the kernel runs, so that the compiler
  // may move loads of it over stores. A state may be overwritten through another parameter, and
  // what an earlier kernel writes is not there before a programmatic launch has waited for it.
  bool LoadsMayMove(const Parameter& p) const {
    if (p.written) return false;
    const graph::Role role = graph_.tensors[p.tensor].role;
    return role == graph::Role::kInput || role == graph::Role::kParam ||
           (role == graph::Role::kIntermediate && !programmatic_);
  }

  // A kernel that makes the group's struct and calls `body`. Returns the launch to fill in.
  v1::Launch* Kernel(const std::string& suffix, int threads, int blocks_per_sm, int64_t grid,
                     const std::vector<std::pair<std::string, int>>& extra,
                     const std::string& body) {
    const std::string name = base_name_ + suffix;
    std::string parameters, members;
    for (const Parameter& p : group_->source.parameters) {
      absl::StrAppend(&parameters, parameters.empty() ? "" : ", ", p.type,
                      LoadsMayMove(p) ? " __restrict__ " : " ", p.name);
      absl::StrAppend(&members, members.empty() ? "" : ", ", p.name);
    }
    for (const auto& [declaration, buffer] : extra) absl::StrAppend(&parameters, ", ", declaration);
    std::string& source = *plan_.mutable_source();
    absl::StrAppend(&source, "extern \"C\" __global__ void __launch_bounds__(", threads,
                    blocks_per_sm > 0 ? StrCat(", ", blocks_per_sm) : "", ") ", name, "(",
                    parameters, ") {\n");
    if (programmatic_)
      absl::StrAppend(&source, "  ws::grid_launch_dependents();\n  ws::grid_wait();\n");
    absl::StrAppend(&source, "  const ", glue(), " g{", members, "};\n  ", body, ";\n}\n");

    const bool after_launch = plan_.steps_size() > 0 &&
                              plan_.steps(plan_.steps_size() - 1).has_launch() &&
                              !plan_.steps(plan_.steps_size() - 1).launch().cooperative();
    v1::Launch* launch = plan_.add_steps()->mutable_launch();
    launch->set_entry(name);
    for (int64_t n : {grid, int64_t{1}, int64_t{1}}) launch->add_grid(static_cast<uint32_t>(n));
    for (int n : {threads, 1, 1}) launch->add_block(n);
    launch->set_programmatic(programmatic_ && after_launch);
    for (const Parameter& p : group_->source.parameters)
      launch->add_arguments()->set_buffer(storage_.BufferOf(p.tensor));
    for (const auto& [declaration, buffer] : extra) launch->add_arguments()->set_buffer(buffer);
    return launch;
  }

  absl::Status Map() {
    const GroupSource& source = group_->source;
    const v1::Group& knobs = group_->resolved;
    const int threads = occupancy().block_threads(), unroll = knobs.compute().unroll();
    const int64_t tiles =
        std::max<int64_t>(1, CeilDiv(source.count / source.width, int64_t{threads} * unroll));
    const int resident = occupancy().blocks_per_sm();
    const int64_t grid =
        resident > 0 ? std::min<int64_t>(tiles, int64_t{resident} * target_.sm_count) : tiles;
    if (absl::Status s = CheckGrid(grid); !s.ok()) return s;
    Kernel("", threads, resident, grid, {},
           StrCat("ws::map<", glue(), ", ", source.width, ", ", unroll, ", ", Bool(resident > 0),
                  ", ", Bool(knobs.memory().reverse()), ">(g, ", source.count, ")"));
    return absl::OkStatus();
  }

  absl::Status Rows() {
    const GroupSource& source = group_->source;
    const Space& space = group_->space;
    const v1::Group& knobs = group_->resolved;
    const int threads = occupancy().block_threads(), blocks = occupancy().blocks_per_row();
    const int resident = occupancy().blocks_per_sm();
    const auto meeting = occupancy().meeting();
    const bool second = blocks > 1 && meeting == v1::MEETING_SECOND_PASS;
    const bool counter = blocks > 1 && meeting == v1::MEETING_COUNTER;
    const bool cluster = blocks > 1 && meeting == v1::MEETING_CLUSTER;
    const int64_t shared = RowsSharedBytes(knobs, source.width, source.stream_bytes);
    const std::string config =
        StrCat("ws::RowsConfig<", source.width, ", ", threads, ", ", occupancy().threads_per_row(),
               ", ", blocks, ", ",
               counter   ? "ws::kCounter"
               : cluster ? "ws::kCluster"
                         : "ws::kAlone",
               ", ", knobs.memory().register_vectors(), ", ", knobs.memory().shared_vectors(), ", ",
               knobs.compute().unroll(), ", ", Bool(resident > 0), ">");
    const int64_t row_blocks =
        blocks > 1 ? space.rows : CeilDiv(space.rows, threads / occupancy().threads_per_row());
    if (second) {
      const int partial = storage_.AddWorkspace(StrCat(base_name_, "_partial"), "f32",
                                                space.rows * blocks * source.acc_bytes[0]);
      const std::string type = StrCat(glue(), "::Acc<0>");
      if (absl::Status s = CheckGrid(space.rows * blocks); !s.ok()) return s;
      v1::Launch* launch = Kernel("_partial", threads, 0, space.rows * blocks,
                                  {{StrCat(type, "* partial"), partial}},
                                  StrCat("ws::rows_partial<", glue(), ", ", config, ">(g, ",
                                         space.row_elements, ", partial)"));
      launch->set_shared_bytes(static_cast<uint32_t>(shared));
      int ends = 32;
      while (ends < kCombineThreads && ends < blocks) ends *= 2;
      v1::Launch* end =
          Kernel("_combine", ends, 0, space.rows, {{StrCat("const ", type, "* partial"), partial}},
                 StrCat("ws::rows_combine<", glue(), ", ", ends, ">(g, ", blocks, ", partial)"));
      v1::Group plain = knobs;
      plain.mutable_occupancy()->set_block_threads(ends);
      plain.mutable_memory()->set_shared_vectors(0);
      end->set_shared_bytes(static_cast<uint32_t>(RowsSharedBytes(plain, 1, 0)));
      return absl::OkStatus();
    }
    int64_t grid = row_blocks * blocks;
    if (resident > 0) {
      const int64_t groups = std::max<int64_t>(1, int64_t{resident} * target_.sm_count / blocks);
      grid = std::min(row_blocks, groups) * blocks;
    }
    if (absl::Status s = CheckGrid(grid); !s.ok()) return s;
    std::vector<std::pair<std::string, int>> extra;
    if (counter) {
      // Zeros, by which blocks tell this run's partial results from none.
      const int64_t bytes = grid * kExchangeBytes;
      const int exchange = storage_.AddWorkspace(StrCat(base_name_, "_exchange"), "i32", bytes);
      v1::Fill* fill = plan_.add_steps()->mutable_fill();
      fill->set_buffer(exchange);
      fill->set_pattern(0);
      fill->set_bytes(bytes);
      extra = {{"void* exchange", exchange}};
    }
    v1::Launch* launch =
        Kernel("", threads, resident, grid, extra,
               StrCat("ws::rows<", glue(), ", ", config, ">(g, ", space.rows, ", ",
                      space.row_elements, ", ", counter ? "exchange" : "nullptr", ")"));
    launch->set_shared_bytes(static_cast<uint32_t>(shared));
    if (counter) {
      launch->set_cooperative(true);
      launch->set_programmatic(false);
    }
    if (cluster) {
      for (int n : {blocks, 1, 1}) launch->add_cluster(n);
    }
    return absl::OkStatus();
  }

  absl::Status Columns() {
    const GroupSource& source = group_->source;
    const Space& space = group_->space;
    const v1::Group& knobs = group_->resolved;
    const int threads = occupancy().block_threads(), rows = occupancy().threads_per_row();
    const int split = occupancy().blocks_per_row(), resident = occupancy().blocks_per_sm();
    const int max_acc = *std::max_element(source.acc_bytes.begin(), source.acc_bytes.end());
    const int64_t tiles = CeilDiv(space.columns, int64_t{threads} / rows * source.width);
    const int64_t jobs = tiles * space.outer * split;
    const int64_t grid =
        resident > 0 ? std::min<int64_t>(jobs, int64_t{resident} * target_.sm_count) : jobs;
    if (absl::Status s = CheckGrid(grid); !s.ok()) return s;
    const std::string config =
        StrCat("ws::ColumnsConfig<", source.width, ", ", threads, ", ", rows, ", ",
               knobs.memory().register_vectors(), ", ", knobs.compute().unroll(), ", ",
               Bool(resident > 0), ", ", split, ">");
    const std::string sizes = StrCat(space.outer, ", ", space.row_elements, ", ", space.columns);
    const std::string type = StrCat(glue(), "::Acc<0>");
    std::vector<std::pair<std::string, int>> extra;
    int partial = -1;
    if (split > 1) {
      partial = storage_.AddWorkspace(StrCat(base_name_, "_partial"), "f32",
                                      split * space.rows * source.acc_bytes[0]);
      extra = {{StrCat(type, "* partial"), partial}};
    }
    v1::Launch* launch = Kernel(split > 1 ? "_partial" : "", threads, resident, grid, extra,
                                StrCat("ws::columns<", glue(), ", ", config, ">(g, ", sizes, ", ",
                                       split > 1 ? "partial" : "nullptr", ")"));
    launch->set_shared_bytes(
        static_cast<uint32_t>(ColumnsSharedBytes(knobs, source.width, max_acc)));
    if (split > 1) {
      if (absl::Status s = CheckGrid(CeilDiv(space.rows, kCombineThreads)); !s.ok()) return s;
      Kernel("_combine", kCombineThreads, 0, CeilDiv(space.rows, kCombineThreads),
             {{StrCat("const ", type, "* partial"), partial}},
             StrCat("ws::columns_combine<", glue(), ", ", kCombineThreads, ">(g, ", split, ", ",
                    space.outer, ", ", space.columns, ", partial)"));
    }
    return absl::OkStatus();
  }

  const graph::Graph& graph_;
  const Target& target_;
  const bool programmatic_;
  Storage& storage_;
  v1::Plan& plan_;
  const AnalysedGroup* group_ = nullptr;
  std::string base_name_;
  int number_ = 0;
};

// States that the group which makes their new value may overwrite at once: nobody reads the old
// value afterwards, and within the kernel only who writes the element reads it.
std::map<int, int> FindInPlace(const graph::Graph& graph, const Work& work,
                               const std::vector<AnalysedGroup>& groups) {
  std::map<int, int> in_place;
  for (const auto& update : graph.updates) {
    const int writer = [&] {
      for (size_t g = 0; g < work.groups.size(); ++g) {
        const auto& roots = work.groups[g].roots;
        if (std::find(roots.begin(), roots.end(), update.value) != roots.end())
          return static_cast<int>(g);
      }
      return -1;
    }();
    bool fine = writer >= 0 && graph.tensors[update.value].type == graph.tensors[update.state].type;
    for (int output : graph.outputs)
      fine = fine && output != update.value && output != update.state;
    for (const auto& [alias, base] : work.alias)
      fine = fine && base != update.state && base != update.value && alias != update.value;
    for (const auto& other : graph.updates) {
      if (&other != &update)
        fine = fine && other.value != update.value && other.value != update.state;
    }
    for (size_t g = 0; fine && g < groups.size(); ++g) {
      const AnalysedGroup& group = groups[g];
      if (group.work < writer) continue;
      for (const Parameter& p : group.source.parameters) {
        if (p.tensor != update.state) continue;
        fine = fine && group.work == writer &&
               group.reads_where_it_writes.count({update.state, update.value}) > 0;
      }
    }
    if (fine) in_place[update.value] = update.state;
  }
  return in_place;
}

}  // namespace

absl::StatusOr<v1::Plan> Lower(const graph::Graph& graph, const v1::Schedule& schedule,
                               const Target& target) {
  auto work = ArrangeWork(graph, schedule);
  if (!work.ok()) return work.status();
  auto groups = AnalyseGroups(graph, schedule, *work, target);
  if (!groups.ok()) return groups.status();
  v1::Plan plan;
  bool fast = false;
  std::string includes;
  for (auto [skeleton, header] : {std::pair{v1::SKELETON_MAP, "map"},
                                  {v1::SKELETON_ROWS, "rows"},
                                  {v1::SKELETON_COLUMNS, "columns"}}) {
    for (const AnalysedGroup& group : *groups) {
      fast = fast || group.resolved.precision().fast_math();
      if (group.space.skeleton == skeleton) {
        absl::StrAppend(&includes, "#include <warpsmith/", header, ".cuh>\n");
        break;
      }
    }
  }
  plan.set_source(includes);
  plan.set_fast_math(fast);
  Storage storage(graph, *work, FindInPlace(graph, *work, *groups), plan);
  GroupLowering lowering(graph, target, schedule.launch().programmatic(), storage, plan);
  for (const AnalysedGroup& group : *groups) {
    if (absl::Status s = lowering.Lower(group); !s.ok()) return s;
  }
  storage.AddFinalCopies();
  return plan;
}

}  // namespace warpsmith::codegen
