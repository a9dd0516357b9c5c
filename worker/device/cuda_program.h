// A plan on a card: its cubins loaded (common/problem/units.h), its steps captured as a CUDA graph,
// of whose branches its lanes are some (common/problem/lanes.h).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/problem/lanes.h"
#include "worker/device/cuda_context.h"
#include "worker/device/device.h"
#include "worker/device/waited.h"

namespace warpsmith::device {

class CudaProgram : public Program {
 public:
  // InvalidArgument: the plan does not fit the card or the cubin (a kernel that is missing, takes
  // other parameters, or whose blocks, clusters or cooperative grid cannot be resident).
  static absl::StatusOr<std::unique_ptr<CudaProgram>> Make(std::shared_ptr<CudaContext> context,
                                                           const DeviceInfo& info,
                                                           const v1::Plan& plan,
                                                           const std::string& cubin);
  ~CudaProgram() override;

  absl::Status Bind(absl::Span<Memory* const> buffers) override;

  // Puts one run of the plan into the stream. FailedPrecondition: not bound, or a buffer has moved
  // since.
  absl::Status Launch();
  // The same step by step in the plan's order, lanes too, each kernel's launch within `around`,
  // none before the last has ended.
  using Around =
      std::function<absl::Status(int kernel, const std::function<absl::Status()>& launch)>;
  absl::Status LaunchApart(const Around& around);
  const v1::Plan& plan() const { return plan_; }
  // What its kernels say of a wait in vain; empty: nothing.
  std::string WhereItWaited() const { return waited_ == nullptr ? "" : waited_->Text(); }

  const CudaContext* context() const { return context_.get(); }

 private:
  struct Kernel {
    cuda::Function function = nullptr;
    cuda::LaunchConfig config;  // its attributes point into `attributes`
    std::vector<cuda::LaunchAttribute> attributes;
    std::vector<uint64_t> values;       // an argument each, in its lowest bytes
    std::vector<cuda::TensorMap> maps;  // of those that are maps, in order
    std::vector<void*> arguments;
  };

  explicit CudaProgram(std::shared_ptr<CudaContext> context) : context_(std::move(context)) {}
  absl::StatusOr<Kernel> Prepare(const v1::Launch& launch, bool may_overlap,
                                 const DeviceInfo& info);
  absl::Status CheckParameters(const v1::Launch& launch, cuda::Function function);
  absl::Status CheckResidency(const v1::Launch& launch, const Kernel& kernel,
                              const DeviceInfo& info);
  // Fills in what depends on addresses_.
  absl::Status BindArguments(const v1::Launch& launch, Kernel& kernel);
  absl::Status CheckBound() const;
  // What the graph is: the steps in their lanes' streams, and these joined to the first again.
  absl::StatusOr<cuda::Graph> Capture();
  absl::Status Enqueue(absl::Span<const cuda::Stream> streams);
  absl::Status Join(absl::Span<const cuda::Stream> streams);
  // Puts one step into the stream. `alone`: after all that is there has ended.
  absl::Status Put(int step, cuda::Stream stream, bool alone);
  // By which lanes meet.
  absl::Status MakeEvents();
  // Of a step: what makes its product.
  absl::Status AddProduct(const v1::LibraryProduct& product);
  void DropGraph();
  // Gives kernels that bound their waits a place to say where.
  absl::Status LetWaitsBeSaid();

  const std::shared_ptr<CudaContext> context_;
  v1::Plan plan_;
  std::vector<cuda::Module> modules_;
  problem::Lanes lanes_;
  // Of lanes' beginning and end, each waited for before the next is recorded; null: there is one
  // lane.
  cuda::Event meeting_ = nullptr;
  std::vector<cuda::Event> ended_;  // by step; null where no other lane waits for it
  std::vector<Kernel> kernels_;     // of the launch steps, in order
  std::vector<std::unique_ptr<LibraryProduct>> products_;  // of the library's steps, in order
  std::vector<int> numbers_;  // of each step that is either: its place among them
  std::vector<Memory*> buffers_;
  std::vector<uint64_t> addresses_;
  cuda::GraphExec graph_ = nullptr;
  Waited* waited_ = nullptr;  // null: its kernels say nothing
};

}  // namespace warpsmith::device
