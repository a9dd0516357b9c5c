#include "worker/device/cuda_program.h"

#include <algorithm>
#include <cstring>

#include "absl/base/casts.h"
#include "absl/numeric/bits.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/problem/units.h"
#include "worker/device/plan_check.h"

namespace warpsmith::device {
namespace {

constexpr uint32_t kPortableShared = 48 << 10;  // more must be asked for
constexpr int kPortableCluster = 8;             // likewise

absl::Status In(const v1::Launch& launch, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat("kernel '", launch.entry(), "': ", status.message()));
}

absl::Status In(const v1::Step& step, const absl::Status& status) {
  return step.has_launch() ? In(step.launch(), status) : status;
}

int64_t Volume(const google::protobuf::RepeatedField<uint32_t>& sizes) {
  int64_t volume = 1;
  for (const uint32_t size : sizes) volume *= size;
  return volume;
}

uint64_t ValueOf(const v1::Argument& argument) {
  uint64_t value = 0;
  const int32_t i32 = argument.i32();
  const int64_t i64 = argument.i64();
  const float f32 = argument.f32();
  if (argument.has_i32()) std::memcpy(&value, &i32, sizeof(i32));
  if (argument.has_i64()) std::memcpy(&value, &i64, sizeof(i64));
  if (argument.has_f32()) std::memcpy(&value, &f32, sizeof(f32));
  return value;
}

bool Encodes(const cuda::Driver& driver, const v1::TensorMap& map) {
  return map.has_window() ? driver.TensorMapEncodeIm2col != nullptr
                          : driver.TensorMapEncodeTiled != nullptr;
}

absl::StatusOr<cuda::TensorMap> Encode(CudaContext& cuda, const v1::TensorMap& map,
                                       uint64_t buffer) {
  static constexpr int kTypes[] = {cuda::kMapU8, cuda::kMapU16, cuda::kMapU32, cuda::kMapU64};
  const int type = kTypes[absl::countr_zero(static_cast<unsigned>(MapElementBytes(map)))];
  const int swizzle = map.swizzle() == 0
                          ? cuda::kSwizzleNone
                          : absl::countr_zero(static_cast<unsigned>(map.swizzle())) - 4;
  const std::vector<uint64_t> sizes(map.sizes().begin(), map.sizes().end());
  const std::vector<uint64_t> strides(map.strides().begin(), map.strides().end());
  const std::vector<uint32_t> box(map.box().begin(), map.box().end());
  std::vector<uint32_t> each(sizes.size(), 1);
  const auto rank = static_cast<unsigned>(sizes.size());
  void* const address = absl::bit_cast<void*>(buffer + map.offset());
  cuda::TensorMap encoded;
  if (map.has_window()) {
    const v1::TensorMap::Window& window = map.window();
    std::copy(window.strides().begin(), window.strides().end(), each.begin() + 1);
    WS_CUDA(cuda, TensorMapEncodeIm2col(&encoded, type, rank, address, sizes.data(), strides.data(),
                                        window.lower().data(), window.upper().data(), box[0],
                                        box[1], each.data(), 0, swizzle, cuda::kMapPromotion, 0));
  } else {
    WS_CUDA(cuda,
            TensorMapEncodeTiled(&encoded, type, rank, address, sizes.data(), strides.data(),
                                 box.data(), each.data(), 0, swizzle, cuda::kMapPromotion, 0));
  }
  return encoded;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaProgram>> CudaProgram::Make(std::shared_ptr<CudaContext> context,
                                                               const DeviceInfo& info,
                                                               const v1::Plan& plan,
                                                               const std::string& cubin) {
  if (absl::Status status = context->Usable(); !status.ok()) return status;
  if (absl::Status status = CheckPlan(plan, info, info.max_cluster); !status.ok()) return status;
  auto program = std::unique_ptr<CudaProgram>(new CudaProgram(std::move(context)));
  program->plan_ = plan;
  auto images = problem::ImagesOf(cubin);
  if (!images.ok()) return images.status();
  for (const std::string& image : *images) {
    cuda::Module module = nullptr;
    WS_CUDA(*program->context_, ModuleLoadData(&module, image.data()));
    program->modules_.push_back(module);
  }
  if (absl::Status status = program->LetWaitsBeSaid(); !status.ok()) return status;
  if (absl::Status status = program->MakeEvents(); !status.ok()) return status;
  for (int i = 0; i < plan.steps_size(); ++i) {
    const v1::Step& step = plan.steps(i);
    const size_t number = step.has_launch() ? program->kernels_.size() : program->products_.size();
    program->numbers_.push_back(static_cast<int>(number));
    if (step.has_launch()) {
      auto kernel = program->Prepare(step.launch(), program->lanes_.turns[i].may_overlap, info);
      if (!kernel.ok()) return In(step.launch(), kernel.status());
      program->kernels_.push_back(*std::move(kernel));
    } else if (step.has_product()) {
      if (auto status = program->AddProduct(step.product()); !status.ok()) return status;
    }
  }
  return program;
}

absl::Status CudaProgram::MakeEvents() {
  auto lanes = problem::LanesOf(plan_);
  if (!lanes.ok()) return lanes.status();
  lanes_ = *std::move(lanes);
  ended_.assign(plan_.steps_size(), nullptr);
  if (lanes_.count == 1) return absl::OkStatus();
  WS_CUDA(*context_, EventCreate(&meeting_, cuda::kEventDisableTiming));
  for (int i = 0; i < plan_.steps_size(); ++i) {
    if (!lanes_.turns[i].awaited) continue;
    WS_CUDA(*context_, EventCreate(&ended_[i], cuda::kEventDisableTiming));
  }
  return absl::OkStatus();
}

absl::Status CudaProgram::LetWaitsBeSaid() {
  if (!absl::StartsWith(plan_.source(), problem::kBoundWaits)) return absl::OkStatus();
  CudaContext& cuda = *context_;
  constexpr unsigned kMapped = 2;
  for (cuda::Module module : modules_) {
    cuda::Address at = 0;
    size_t bytes = 0;
    if (cuda.driver().ModuleGetGlobal(&at, &bytes, module, "ws_waited") != cuda::kSuccess ||
        bytes != sizeof(uint64_t))
      continue;
    if (waited_ == nullptr) {
      void* memory = nullptr;
      WS_CUDA(cuda, MemHostAlloc(&memory, sizeof(Waited), kMapped));
      waited_ = new (memory) Waited;
    }
    const auto address = reinterpret_cast<uint64_t>(waited_);  // the same on the device
    WS_CUDA(cuda, MemcpyHtoDAsync(at, &address, sizeof(address), cuda.stream()));
    if (absl::Status status = cuda.Synchronize(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

CudaProgram::~CudaProgram() {
  if (context_->lost()) return;
  if (waited_ != nullptr) context_->driver().MemFreeHost(waited_);
  DropGraph();
  ended_.push_back(meeting_);
  for (cuda::Event event : ended_) {
    if (event != nullptr) context_->driver().EventDestroy(event);
  }
  for (cuda::Module module : modules_) context_->driver().ModuleUnload(module);
}

absl::Status CudaProgram::AddProduct(const v1::LibraryProduct& product) {
  auto library = context_->Library();
  if (!library.ok()) return library.status();
  if ((*library)->name() != product.library()) {
    return absl::InvalidArgumentError(absl::StrCat("a product by ", product.library(), "; here is ",
                                                   (*library)->name(),
                                                   ", whose algorithms differ"));
  }
  auto made = LibraryProduct::Make(*library, product, plan_.buffers(product.workspace()).bytes());
  if (!made.ok()) return made.status();
  if (product.algorithm() > (*made)->algorithms()) {
    return absl::InvalidArgumentError(absl::StrCat("algorithm ", product.algorithm(), " of ",
                                                   product.library(), ", which names ",
                                                   (*made)->algorithms(), " for this product"));
  }
  products_.push_back(*std::move(made));
  return absl::OkStatus();
}

void CudaProgram::DropGraph() {
  if (graph_ != nullptr) context_->driver().GraphExecDestroy(graph_);
  graph_ = nullptr;
}

absl::StatusOr<CudaProgram::Kernel> CudaProgram::Prepare(const v1::Launch& launch, bool may_overlap,
                                                         const DeviceInfo& info) {
  CudaContext& cuda = *context_;
  Kernel kernel;
  cuda::Result found = cuda::kNotFound;
  for (size_t i = 0; i < modules_.size() && found == cuda::kNotFound; ++i) {
    found = cuda.driver().ModuleGetFunction(&kernel.function, modules_[i], launch.entry().c_str());
  }
  if (found == cuda::kNotFound) {
    return absl::InvalidArgumentError("the source has no such extern \"C\" __global__ kernel");
  }
  if (absl::Status status = cuda.Check(found, "cuModuleGetFunction"); !status.ok()) return status;
  if (absl::Status status = CheckParameters(launch, kernel.function); !status.ok()) return status;

  for (int i = 0; i < 3; ++i) {
    kernel.config.grid[i] = launch.grid(i);
    kernel.config.block[i] = launch.block(i);
  }
  kernel.config.shared_bytes = launch.shared_bytes();
  kernel.config.stream = cuda.stream();
  if (launch.shared_bytes() > kPortableShared) {
    WS_CUDA(cuda, FuncSetAttribute(kernel.function, cuda::kFunctionMaxDynamicShared,
                                   static_cast<int>(launch.shared_bytes())));
  }
  const int64_t cluster = Volume(launch.cluster());
  if (cluster > kPortableCluster) {
    WS_CUDA(cuda, FuncSetAttribute(kernel.function, cuda::kFunctionNonPortableCluster, 1));
  }
  if (launch.cluster_size() == 3) {
    cuda::LaunchAttribute attribute;
    attribute.id = cuda::kLaunchClusterDimension;
    attribute.value.cluster = {launch.cluster(0), launch.cluster(1), launch.cluster(2)};
    kernel.attributes.push_back(attribute);
  }
  if (launch.cooperative()) {
    cuda::LaunchAttribute attribute;
    attribute.id = cuda::kLaunchCooperative;
    attribute.value.cooperative = 1;
    kernel.attributes.push_back(attribute);
  }
  // Overlap is defined between two kernels; behind a fill or a copy there is nothing to overlap
  // with. Its attribute is the last, where Put can leave it out.
  if (launch.programmatic() && may_overlap && !launch.cooperative()) {
    cuda::LaunchAttribute attribute;
    attribute.id = cuda::kLaunchProgrammaticSerialization;
    attribute.value.programmatic = 1;
    kernel.attributes.push_back(attribute);
  }
  for (const v1::Argument& argument : launch.arguments()) {
    kernel.values.push_back(ValueOf(argument));  // a buffer's comes with Bind, a map too
    if (!argument.has_map()) continue;
    if (!Encodes(cuda.driver(), argument.map())) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the driver knows no tensor maps", argument.map().has_window() ? " of windows" : "",
          "; they need one of CUDA 12"));
    }
    kernel.maps.emplace_back();
  }
  auto map = kernel.maps.begin();
  for (int i = 0; i < launch.arguments_size(); ++i) {
    kernel.arguments.push_back(launch.arguments(i).has_map() ? static_cast<void*>(&*map++)
                                                             : &kernel.values[i]);
  }
  kernel.config.attributes = kernel.attributes.data();
  kernel.config.attribute_count = static_cast<unsigned>(kernel.attributes.size());
  if (absl::Status status = CheckResidency(launch, kernel, info); !status.ok()) return status;
  return kernel;
}

absl::Status CudaProgram::CheckParameters(const v1::Launch& launch, cuda::Function function) {
  const cuda::Driver& driver = context_->driver();
  if (driver.FuncGetParamInfo == nullptr) return absl::OkStatus();
  for (int i = 0; i <= launch.arguments_size(); ++i) {
    size_t offset = 0, bytes = 0;
    const cuda::Result result = driver.FuncGetParamInfo(function, i, &offset, &bytes);
    const bool exists = result == cuda::kSuccess;
    if (!exists && result != cuda::kInvalidValue) {
      return context_->Check(result, "cuFuncGetParamInfo");
    }
    if (exists != (i < launch.arguments_size())) {
      return absl::InvalidArgumentError(absl::StrCat("it takes ", exists ? "more" : "fewer",
                                                     " arguments than the plan's ",
                                                     launch.arguments_size()));
    }
    if (exists && static_cast<int>(bytes) != ArgumentBytes(launch.arguments(i))) {
      return absl::InvalidArgumentError(absl::StrCat("parameter ", i, " has ", bytes,
                                                     " bytes, the plan's argument ",
                                                     ArgumentBytes(launch.arguments(i))));
    }
  }
  return absl::OkStatus();
}

absl::Status CudaProgram::CheckResidency(const v1::Launch& launch, const Kernel& kernel,
                                         const DeviceInfo& info) {
  CudaContext& cuda = *context_;
  int blocks = 0;
  const int64_t threads = Volume(launch.block());
  WS_CUDA(cuda, OccupancyBlocks(&blocks, kernel.function, static_cast<int>(threads),
                                launch.shared_bytes()));
  if (blocks < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("a block of ", threads, " threads with ", launch.shared_bytes(),
                     " bytes of dynamic shared memory does not fit a multiprocessor"));
  }
  if (launch.cluster_size() == 3) {
    int clusters = 0;
    cuda::LaunchConfig config = kernel.config;
    config.attribute_count = 1;  // the cluster's comes first; the others do not matter here
    WS_CUDA(cuda, OccupancyClusters(&clusters, kernel.function, &config));
    const int64_t cluster = Volume(launch.cluster());
    if (clusters < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("no cluster of ", cluster, " such blocks fits the card"));
    }
    if (launch.cooperative() && clusters * cluster < Volume(launch.grid())) {
      return absl::InvalidArgumentError(
          absl::StrCat("a cooperative grid of ", Volume(launch.grid()), " blocks in clusters of ",
                       cluster, "; at once the card holds ", clusters, " such clusters"));
    }
  } else if (launch.cooperative() && int64_t{blocks} * info.sm_count < Volume(launch.grid())) {
    return absl::InvalidArgumentError(absl::StrCat("a cooperative grid of ", Volume(launch.grid()),
                                                   " blocks; at once the card holds ",
                                                   int64_t{blocks} * info.sm_count));
  }
  return absl::OkStatus();
}

absl::Status CudaProgram::Bind(absl::Span<Memory* const> buffers) {
  CudaContext& cuda = *context_;
  if (absl::Status status = cuda.Usable(); !status.ok()) return status;
  if (absl::Status status = CheckBinding(plan_, buffers); !status.ok()) return status;
  DropGraph();
  buffers_.assign(buffers.begin(), buffers.end());
  addresses_.clear();
  for (const Memory* buffer : buffers_) addresses_.push_back(buffer->address());
  auto kernel = kernels_.begin();
  for (const v1::Step& step : plan_.steps()) {
    if (!step.has_launch()) continue;
    if (auto status = BindArguments(step.launch(), *kernel); !status.ok()) {
      return In(step.launch(), status);
    }
    ++kernel;
  }

  auto graph = Capture();
  if (!graph.ok()) return graph.status();
  absl::Status status =
      cuda.Check(cuda.driver().GraphInstantiate(&graph_, *graph, 0), "cuGraphInstantiateWithFlags");
  cuda.driver().GraphDestroy(*graph);
  if (!status.ok()) {
    graph_ = nullptr;
    return status;
  }
  WS_CUDA(cuda, GraphUpload(graph_, cuda.stream()));
  return cuda.Synchronize();
}

absl::StatusOr<cuda::Graph> CudaProgram::Capture() {
  CudaContext& cuda = *context_;
  const auto streams = cuda.Lanes(lanes_.count);  // before: a capture is no time to make some
  if (!streams.ok()) return streams.status();
  WS_CUDA(cuda, StreamBeginCapture(cuda.stream(), products_.empty() ? cuda::kCaptureThreadLocal
                                                                    : cuda::kCaptureRelaxed));
  const absl::Status enqueued = Enqueue(*streams);
  // Whatever happened, the stream has to leave capture, and so have with it those that came to it
  // by waiting for events of it, which have to be joined before.
  const absl::Status joined = Join(*streams);
  cuda::Graph graph = nullptr;
  absl::Status status =
      cuda.Check(cuda.driver().StreamEndCapture(cuda.stream(), &graph), "cuStreamEndCapture");
  if (!joined.ok()) status = joined;
  if (!enqueued.ok()) status = enqueued;
  if (status.ok()) return graph;
  if (graph != nullptr) cuda.driver().GraphDestroy(graph);
  // Nothing of a capture that failed may be met by the next.
  if (!cuda.lost()) cuda.DropLanes();
  return status;
}

absl::Status CudaProgram::BindArguments(const v1::Launch& launch, Kernel& kernel) {
  auto map = kernel.maps.begin();
  for (int i = 0; i < launch.arguments_size(); ++i) {
    const v1::Argument& argument = launch.arguments(i);
    if (argument.has_buffer()) kernel.values[i] = addresses_[argument.buffer()];
    if (!argument.has_map()) continue;
    auto encoded = Encode(*context_, argument.map(), addresses_[argument.map().buffer()]);
    if (!encoded.ok()) return encoded.status();
    *map++ = *encoded;
  }
  return absl::OkStatus();
}

absl::Status CudaProgram::Enqueue(absl::Span<const cuda::Stream> streams) {
  CudaContext& cuda = *context_;
  const auto beside = streams.subspan(1);
  if (!beside.empty()) WS_CUDA(cuda, EventRecord(meeting_, streams[0]));
  for (cuda::Stream stream : beside) WS_CUDA(cuda, StreamWaitEvent(stream, meeting_, 0));
  for (int i = 0; i < plan_.steps_size(); ++i) {
    const v1::Step& step = plan_.steps(i);
    const cuda::Stream stream = streams[step.lane()];
    for (const uint32_t before : step.after()) {
      WS_CUDA(cuda, StreamWaitEvent(stream, ended_[before], 0));
    }
    if (absl::Status status = Put(i, stream, /*alone=*/false); !status.ok())
      return In(step, status);
    if (lanes_.turns[i].awaited) WS_CUDA(cuda, EventRecord(ended_[i], stream));
  }
  return absl::OkStatus();
}

absl::Status CudaProgram::Join(absl::Span<const cuda::Stream> streams) {
  CudaContext& cuda = *context_;
  for (cuda::Stream stream : streams.subspan(1)) {
    WS_CUDA(cuda, EventRecord(meeting_, stream));
    WS_CUDA(cuda, StreamWaitEvent(streams[0], meeting_, 0));
  }
  return absl::OkStatus();
}

absl::Status CudaProgram::Put(int number, cuda::Stream stream, bool alone) {
  CudaContext& cuda = *context_;
  const v1::Step& step = plan_.steps(number);
  if (step.has_product()) {
    const v1::LibraryProduct& it = step.product();
    const auto at = [&](const v1::Matrix& matrix) { return addresses_[matrix.buffer()]; };
    return products_[numbers_[number]]->Run(it.algorithm(), at(it.a()), at(it.b()),
                                            it.has_bias() ? addresses_[it.bias().buffer()] : 0,
                                            at(it.d()), addresses_[it.workspace()], stream);
  }
  if (step.has_launch()) {
    Kernel& kernel = kernels_[numbers_[number]];
    cuda::LaunchConfig config = kernel.config;
    config.stream = stream;
    if (alone && config.attribute_count > 0 &&
        kernel.attributes.back().id == cuda::kLaunchProgrammaticSerialization) {
      --config.attribute_count;
    }
    return cuda.Check(
        cuda.driver().LaunchKernelEx(&config, kernel.function, kernel.arguments.data(), nullptr),
        "cuLaunchKernelEx");
  }
  if (step.has_fill() && step.fill().bytes() > 0) {
    WS_CUDA(cuda, MemsetD32Async(addresses_[step.fill().buffer()], step.fill().pattern(),
                                 step.fill().bytes() / 4, stream));
  } else if (step.has_copy() && step.copy().bytes() > 0) {
    WS_CUDA(cuda, MemcpyDtoDAsync(addresses_[step.copy().to()], addresses_[step.copy().from()],
                                  step.copy().bytes(), stream));
  }
  return absl::OkStatus();
}

absl::Status CudaProgram::CheckBound() const {
  if (graph_ == nullptr) return absl::FailedPreconditionError("the program is not bound to memory");
  for (size_t i = 0; i < buffers_.size(); ++i) {
    if (buffers_[i]->address() != addresses_[i]) {
      return absl::FailedPreconditionError(
          absl::StrCat("buffer ", i, " has moved since the program was bound"));
    }
  }
  return absl::OkStatus();
}

absl::Status CudaProgram::Launch() {
  if (absl::Status status = CheckBound(); !status.ok()) return status;
  WS_CUDA(*context_, GraphLaunch(graph_, context_->stream()));
  return absl::OkStatus();
}

absl::Status CudaProgram::LaunchApart(const Around& around) {
  if (absl::Status status = CheckBound(); !status.ok()) return status;
  int started = 0;  // kernels and products
  for (int i = 0; i < plan_.steps_size(); ++i) {
    const v1::Step& step = plan_.steps(i);
    const auto put = [&] { return Put(i, context_->stream(), /*alone=*/true); };
    const absl::Status status =
        step.has_launch() || step.has_product() ? around(started++, put) : put();
    if (!status.ok()) return In(step, status);
  }
  return absl::OkStatus();
}

}  // namespace warpsmith::device
