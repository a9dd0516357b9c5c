#include "worker/oracle/torch_oracle.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/base/check.h"
#include "common/base/shared_object.h"
#include "common/problem/problem.h"
#include "worker/oracle/baseline_cache.h"
#include "worker/oracle/errors.h"
#include "worker/oracle/native_device.h"
#include "worker/oracle/torch_child.h"

namespace warpsmith::oracle {
namespace {

using device::Device;
using device::Memory;
using graph::DType;
using graph::Graph;
using graph::Role;
using nlohmann::json;

constexpr absl::Duration kLoadLimit = absl::Minutes(3);
constexpr absl::Duration kDrawLimit = absl::Minutes(3);
constexpr absl::Duration kExactLimit = absl::Minutes(4);
constexpr absl::Duration kReleaseLimit = absl::Minutes(1);
constexpr absl::Duration kBaselinesLimit = absl::Minutes(9);
// How long the rounds of a baseline's calls go on at the most, and those of its graph's replays.
constexpr double kBaselineSeconds = 0.25;
constexpr char kEager[] = "eager";
constexpr char kGraph[] = "graph";
// Of what a cached report was measured by.
constexpr char kProtocol[] = "three times and the launch";
constexpr uint64_t kBaselineSeed = 7;
// The child counts on from a seed; PyTorch takes those of 64 bits.
constexpr uint64_t kSeeds = uint64_t{1} << 62;

// What fp64 may take, beside the case, before only a part of a batch is run in it.
constexpr int64_t kCudaBudget = int64_t{64} << 30;
constexpr int64_t kHostBudget = int64_t{4} << 30;

const char* WordOf(Variation variation) {
  switch (variation) {
    case Variation::kNone:
      return "none";
    case Variation::kTimes3:
      return "times3";
    case Variation::kTimes001:
      return "times001";
    case Variation::kNegated:
      return "negated";
    case Variation::kDense:
      return "dense";
    case Variation::kWide:
      return "wide";
    case Variation::kNewWeights:
      return "new_weights";
    case Variation::kTies:
      return "ties";
  }
  return "none";
}

const char* RoleOf(const graph::Tensor& tensor) {
  if (tensor.inout) return "inout";
  return tensor.role == Role::kInput ? "input" : tensor.role == Role::kState ? "state" : "param";
}

json Described(const graph::Tensor& tensor) {
  return {{"name", tensor.name},
          {"role", RoleOf(tensor)},
          {"dtype", graph::NameOf(tensor.type)},
          {"shape", tensor.shape}};
}

// Numbers of 8 bytes that the child has put into a shared-memory object.
template <class Number>
absl::StatusOr<std::vector<Number>> NumbersOf(const json& object, const char* key) {
  static_assert(sizeof(Number) == 8);
  const auto given = object.find(key);
  const int64_t bytes =
      given != object.end() && given->is_object() ? given->value("bytes", -1) : -1;
  if (bytes < 0 || bytes % 8 != 0)
    return absl::InternalError(absl::StrCat("PyTorch oracle: no valid '", key, "'"));
  std::vector<Number> numbers(bytes / 8);
  if (numbers.empty()) return numbers;
  const auto shared = base::SharedObject::Open(given->value("handle", ""));
  if (!shared.ok()) return shared.status();
  const auto read = shared->Bytes(given->value("offset", int64_t{0}), bytes);
  if (!read.ok()) return read.status();
  std::memcpy(numbers.data(), read->data(), bytes);
  return numbers;
}

std::vector<std::vector<int>> OrdersOf(const v1::TorchModule& torch) {
  std::vector<std::vector<int>> orders;
  for (const v1::AxisOrder& order : torch.orders()) {
    orders.emplace_back(order.axes().begin(), order.axes().end());
  }
  return orders;
}

class TorchOracle : public Oracle {
 public:
  TorchOracle(std::shared_ptr<TorchChild> child, int64_t exact_bytes, const v1::Problem& problem,
              const std::string& workload, const Graph& graph)
      : child_(std::move(child)),
        budget_(exact_bytes > 0                     ? exact_bytes
                : child_->options().device == "cpu" ? kHostBudget
                                                    : kCudaBudget),
        graph_(graph),
        source_(problem.torch().source()),
        workload_(workload),
        given_(problem.torch().outputs().begin(), problem.torch().outputs().end()),
        orders_(OrdersOf(problem.torch())),
        views_(problem.torch().views().begin(), problem.torch().views().end()),
        seeds_(problem.torch().seeds()),
        digest_(problem.workloads_size() > 1
                    ? absl::StrCat(problem::Digest(problem), ":", workload_)
                    : problem::Digest(problem)),
        wanted_(WantedOf(problem, child_->options())) {
    for (const graph::Tensor& tensor : graph_.tensors) {
      if (tensor.role != Role::kIntermediate) inputs_.push_back(&tensor);
    }
    // Inputs before weights, as PyTorch has them; the case is in the graph's order.
    std::stable_sort(inputs_.begin(), inputs_.end(),
                     [](const auto* a, const auto* b) { return a->given() > b->given(); });
    for (int output : graph_.outputs) answers_.push_back(&graph_.tensors[output]);
    for (const Graph::Update& update : graph_.updates) {
      answers_.push_back(&graph_.tensors[update.state]);
    }
  }

  std::string name() const override { return absl::StrCat("torch ", child_->info().version); }

  absl::Status Load() {
    if (child_->loaded() == digest_) return absl::OkStatus();
    json tensors = json::array(), outputs = json::array(), updates = json::array();
    for (const graph::Tensor* tensor : inputs_) tensors.push_back(Described(*tensor));
    for (int output : graph_.outputs) outputs.push_back(Described(graph_.tensors[output]));
    for (const Graph::Update& update : graph_.updates) {
      updates.push_back(graph_.tensors[update.state].name);
    }
    child_->set_loaded("");
    auto loaded = child_->Call({{"command", "load"},
                                {"source", source_},
                                {"device", child_->options().device},
                                {"tensors", std::move(tensors)},
                                {"outputs", std::move(outputs)},
                                {"updates", std::move(updates)},
                                {"workload", workload_},
                                {"given", given_},
                                {"orders", orders_},
                                {"wholes", Wholes()},
                                {"seeds", seeds_},
                                {"memory_bytes", child_->options().memory_bytes}},
                               kLoadLimit);
    if (!loaded.ok()) return loaded.status();
    child_->set_loaded(digest_);
    return absl::OkStatus();
  }

  // Of each output the shape, where forward's tensor is a part of it.
  std::vector<std::vector<int64_t>> Wholes() const {
    if (views_.empty()) return {};
    std::vector<std::vector<int64_t>> wholes(graph_.outputs.size());
    for (size_t i = 0; i < views_.size(); ++i) {
      const size_t output = given_.empty() ? i : given_[i];
      if (output < wholes.size() && views_[i].strides_size() > 0)
        wholes[output] = graph_.tensors[graph_.outputs[output]].shape;
    }
    return wholes;
  }

  absl::StatusOr<Case> Draw(Device& device, uint64_t seed, Variation variation) override {
    absl::StatusOr<Case> drawn = TryDraw(device, seed, variation);
    // Whatever happened, the child holds nothing while candidates run. One that ended holds
    // nothing.
    if (!child_->running()) return drawn;
    const auto released =
        child_->Call({{"command", "release"}, {"keep", room_.keep}}, kReleaseLimit);
    if (drawn.ok() && !released.ok()) return released.status();
    if (released.ok()) peak_bytes_ = released->value("peak_bytes", int64_t{0});
    return drawn;
  }

  int64_t WorkingBytes() const override { return LeastBytes() + std::min(budget_, WholeBytes()); }
  int64_t LeastBytes() const override { return InputBytes() + BytesOf(answers_); }
  void SetRoom(const Room& room) override { room_ = room; }
  int64_t PeakBytes() const override { return peak_bytes_; }

  absl::StatusOr<v1::BaselineReport> TimeBaselines(Device& device) override {
    const BaselineCache cache(child_->options().cache_dir);
    const BaselineKey key = {digest_, absl::StrCat(device.info().name, ", ", child_->info().card),
                             device.info().driver, child_->info().version,
                             absl::StrCat(kProtocol, ": ", absl::StrJoin(wanted_, ","))};
    if (auto known = cache.Find(key)) return *std::move(known);
    std::vector<std::string> names = {kEager};
    std::copy_if(wanted_.begin(), wanted_.end(), std::back_inserter(names),
                 [](const std::string& name) { return name != kGraph && name != kEager; });
    auto report = Measure(device, names);
    if (!report.ok()) return report;
    if (!report->missing().empty()) return report;  // perhaps it can be timed the next time
    const absl::Status kept = cache.Store(key, *report);
    if (!kept.ok()) return kept;
    return report;
  }

  absl::StatusOr<v1::BaselineReport> RetimeBaselines(
      Device& device, const std::vector<std::string>& names) override {
    return Measure(device, names);
  }

 private:
  absl::StatusOr<v1::BaselineReport> Measure(Device& device,
                                             const std::vector<std::string>& names) {
    const absl::Status loaded = Load();
    if (!loaded.ok()) return loaded;
    json request = ExactArguments();
    request["command"] = "baselines";
    request["names"] = names;
    request["graph"] = wanted_.count(kGraph) > 0;
    request["clock"] = child_->options().clock;
    request["seconds"] = kBaselineSeconds;
    request["seed"] = kBaselineSeed;
    auto measured = child_->Call(request, kBaselinesLimit);
    if (!measured.ok()) {
      // It may have stopped with the card's memory in use; if it cannot even free that, it is
      // ended.
      if (child_->running()) (void)child_->Call({{"command", "idle"}}, kReleaseLimit).status();
      return measured.status();
    }
    v1::BaselineReport report;
    report.set_card(device.info().name);
    report.set_driver(device.info().driver);
    report.set_oracle(name());
    for (const auto& [baseline, times] : (*measured)["times"].items()) {
      v1::Baseline& entry = *report.add_baselines();
      entry.set_name(baseline);
      entry.mutable_times()->set_device_us(times.value("device_us", 0.0));
      entry.mutable_times()->set_graph_us(times.value("graph_us", 0.0));
      entry.mutable_times()->set_launch_us(times.value("launch_us", 0.0));
      entry.mutable_times()->set_call_us(times.value("call_us", 0.0));
      entry.set_accurate((*measured)["accurate"].value(baseline, false));
    }
    for (const auto& [baseline, why] : (*measured)["errors"].items()) {
      (*report.mutable_missing())[baseline] = why.get<std::string>();
    }
    return report;
  }

  absl::StatusOr<Case> TryDraw(Device& device, uint64_t seed, Variation variation) {
    const absl::Status loaded = Load();
    if (!loaded.ok()) return loaded;
    Case drawn;
    drawn.variation = variation;
    drawn.seed = seed;
    auto inputs = child_->Call(
        {{"command", "draw"}, {"seed", seed % kSeeds}, {"variation", WordOf(variation)}},
        kDrawLimit);
    if (!inputs.ok()) return inputs.status();
    auto given = CopyIn(device, *inputs, inputs_);
    if (!given.ok()) return given.status();
    drawn.inputs = InGraphOrder(*std::move(given));

    json request = ExactArguments();
    request["command"] = "answer";
    auto outputs = child_->Call(request, kDrawLimit);
    if (!outputs.ok()) return outputs.status();
    auto answers = CopyIn(device, *outputs, answers_);
    if (!answers.ok()) return answers.status();
    drawn.answers = *std::move(answers);

    auto exact = child_->Call({{"command", "exact"}}, kExactLimit);
    if (!exact.ok()) return exact.status();
    const absl::Status taken = TakeExact(*exact, drawn);
    if (!taken.ok()) return taken;
    return drawn;
  }

  // Copies what the child handed over into memory of our own.
  absl::StatusOr<std::vector<std::unique_ptr<Memory>>> CopyIn(
      Device& device, const json& reply, const std::vector<const graph::Tensor*>& tensors) {
    std::vector<std::unique_ptr<Memory>> copies;
    const json& given = reply.contains("tensors") ? reply["tensors"] : reply;
    if (!given.is_array() || given.size() != tensors.size()) {
      return absl::InternalError("PyTorch oracle: not the tensors that were asked for");
    }
    for (size_t i = 0; i < tensors.size(); ++i) {
      const int64_t bytes = tensors[i]->bytes();
      if (given[i].value("bytes", int64_t{-1}) != bytes) {
        return absl::InternalError(
            absl::StrCat("PyTorch oracle: '", tensors[i]->name, "' is of another size"));
      }
      auto memory = device.Allocate(bytes);
      if (!memory.ok()) return memory.status();
      std::string handle = given[i].value("handle", "");
      if (child_->options().device != "cpu") handle = absl::HexStringToBytes(handle);
      const absl::Status copied =
          device.CopyFromForeign(handle, given[i].value("offset", int64_t{0}), **memory, bytes);
      if (!copied.ok()) return copied;
      copies.push_back(*std::move(memory));
    }
    return copies;
  }

  std::vector<std::unique_ptr<Memory>> InGraphOrder(std::vector<std::unique_ptr<Memory>> given) {
    std::vector<std::pair<const graph::Tensor*, std::unique_ptr<Memory>>> pairs;
    for (size_t i = 0; i < given.size(); ++i) pairs.emplace_back(inputs_[i], std::move(given[i]));
    std::sort(pairs.begin(), pairs.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<std::unique_ptr<Memory>> ordered;
    for (auto& [tensor, memory] : pairs) ordered.push_back(std::move(memory));
    return ordered;
  }

  absl::Status TakeExact(const json& reply, Case& drawn) {
    const json& answers = reply.contains("answers") ? reply["answers"] : reply;
    if (!answers.is_array() || answers.size() != answers_.size()) {
      return absl::InternalError("PyTorch oracle: not the exact answers that were asked for");
    }
    for (const json& answer : answers) {
      auto positions = NumbersOf<int64_t>(answer, "positions");
      auto values = NumbersOf<double>(answer, "values");
      auto reference = NumbersOf<double>(answer, "reference");
      for (const absl::Status& status : {positions.status(), values.status(), reference.status()}) {
        if (!status.ok()) return status;
      }
      if (positions->size() != values->size() || values->size() != reference->size()) {
        return absl::InternalError("PyTorch oracle: not a value for each position");
      }
      drawn.rms.push_back(answer.value("rms", 0.0));
      drawn.farthest.push_back(answer.value("farthest", 0.0));
      const DType type = answers_[drawn.reference.size()]->type;
      drawn.AddReference(type, *std::move(reference), *values, drawn.rms.back());
      drawn.sample.push_back(*std::move(positions));
      drawn.exact.push_back(*std::move(values));
    }
    return absl::OkStatus();
  }

  // What fp64 of everything takes: inputs and answers, and one intermediate of the largest size.
  int64_t WholeBytes() const {
    const auto doubled = [](const graph::Tensor& tensor) {
      return graph::IsFloat(tensor.type) ? tensor.elements() * 8 : tensor.bytes();
    };
    int64_t bytes = 0, largest = 0;
    for (const graph::Tensor* tensor : inputs_) bytes += doubled(*tensor);
    for (const graph::Tensor* tensor : answers_) bytes += doubled(*tensor);
    for (const graph::Tensor& tensor : graph_.tensors) largest = std::max(largest, doubled(tensor));
    return bytes + largest;
  }

  static int64_t BytesOf(const std::vector<const graph::Tensor*>& tensors) {
    int64_t bytes = 0;
    for (const graph::Tensor* tensor : tensors) bytes += tensor->bytes();
    return bytes;
  }
  int64_t InputBytes() const { return BytesOf(inputs_); }

  // While fp64 is run the inputs are still there, and the answers are not any more.
  json ExactArguments() const {
    const int64_t room =
        room_.bytes > 0 ? std::max<int64_t>(0, room_.bytes - InputBytes()) : budget_;
    return {{"sample", kSampled},
            {"whole_bytes", WholeBytes()},
            {"budget_bytes", std::min(budget_, room)}};
  }

  static std::set<std::string> WantedOf(const v1::Problem& problem,
                                        const TorchOracleOptions& options) {
    const auto& asked = problem.torch().baselines();
    if (!asked.empty()) return {asked.begin(), asked.end()};
    return {options.baselines.begin(), options.baselines.end()};
  }

  const std::shared_ptr<TorchChild> child_;
  const int64_t budget_;
  const Graph graph_;
  const std::string source_, workload_;
  const std::vector<int> given_;  // TorchModule.outputs
  const std::vector<std::vector<int>> orders_;
  const std::vector<v1::View> views_;
  const std::string seeds_;             // TorchModule.seeds
  const std::string digest_;            // of the problem and the workload
  const std::set<std::string> wanted_;  // baselines beside eager, and "graph"
  Room room_;
  int64_t peak_bytes_ = 0;
  std::vector<const graph::Tensor*> inputs_;   // inputs, then weights; into graph_
  std::vector<const graph::Tensor*> answers_;  // outputs, then updated states
};

}  // namespace

absl::StatusOr<std::shared_ptr<TorchChild>> StartTorch(const TorchOracleOptions& options) {
  auto child = std::make_shared<TorchChild>(options);
  auto info = child->Hello();
  if (!info.ok()) return info.status();
  if (options.device != "cpu" && !info->cuda) {
    return absl::FailedPreconditionError(
        absl::StrCat("PyTorch ", info->version, " of '", options.python, "' sees no card"));
  }
  return child;
}

TorchInfo InfoOf(const TorchChild& child) { return child.info(); }

absl::StatusOr<std::unique_ptr<Oracle>> MakeTorchOracle(const TorchOracleOptions& options,
                                                        const v1::Problem& problem,
                                                        const graph::Graph& graph) {
  if (!problem.has_torch() || problem.torch().source().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("problem '", problem.name(), "' has no PyTorch module"));
  }
  std::shared_ptr<TorchChild> child = options.child;
  if (child == nullptr) {
    auto started = StartTorch(options);
    if (!started.ok()) return started.status();
    child = *std::move(started);
  }
  const std::string workload = !options.workload.empty()      ? options.workload
                               : problem.workloads_size() > 0 ? problem.workloads(0).name()
                                                              : "";
  auto oracle = std::make_unique<TorchOracle>(std::move(child), options.exact_bytes, problem,
                                              workload, graph);
  const absl::Status loaded = oracle->Load();
  if (!loaded.ok()) return loaded;
  return oracle;
}

}  // namespace warpsmith::oracle
