#include "worker/device/plan_check.h"

#include <limits>

#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
#include "common/graph/graph.h"
#include "common/graph/operators.h"
#include "common/problem/lanes.h"

namespace warpsmith::device {
namespace {

// Of a tensor map, by the driver's reference (cuTensorMapEncodeTiled, cuTensorMapEncodeIm2col).
constexpr int kMaxMapAxes = 5;
constexpr int kMaxMapBox = 256;
constexpr int kMapAlignment = 16;
constexpr int64_t kMaxMapSize = int64_t{1} << 32;
constexpr int64_t kMaxMapStride = int64_t{1} << 40;
constexpr int kMinWindowAxes = 3;
constexpr int kMaxWindowStride = 8;
constexpr int kCorners[] = {32768, 128, 16};  // a window's, of 3, 4, 5 axes: from -this to this - 1

std::string Where(const v1::Plan& plan, int step) {
  std::string text = absl::StrCat("step ", step);
  if (plan.steps(step).has_launch()) {
    absl::StrAppend(&text, " (kernel '", plan.steps(step).launch().entry(), "')");
  }
  return text + ": ";
}

absl::Status CheckRange(const v1::Plan& plan, int buffer, int64_t bytes) {
  if (buffer < 0 || buffer >= plan.buffers_size()) {
    return absl::InvalidArgumentError(absl::StrCat("there is no buffer ", buffer));
  }
  if (bytes < 0 || bytes > plan.buffers(buffer).bytes()) {
    return absl::InvalidArgumentError(absl::StrCat(bytes, " bytes of buffer ", buffer,
                                                   ", which has ", plan.buffers(buffer).bytes()));
  }
  return absl::OkStatus();
}

// What the driver asks of a window, of a map whose sizes it takes.
absl::Status CheckWindow(const v1::TensorMap& map) {
  const auto bad = [](auto... parts) { return absl::InvalidArgumentError(absl::StrCat(parts...)); };
  const v1::TensorMap::Window& window = map.window();
  const int axes = map.sizes_size(), images = axes - 2;  // axes of an image
  if (axes < kMinWindowAxes || window.lower_size() != images || window.upper_size() != images ||
      window.strides_size() != images) {
    return bad("a window of ", window.lower_size(), " lower and ", window.upper_size(),
               " upper corners and ", window.strides_size(), " strides, of a tensor map of ", axes,
               " axes; all of ", kMinWindowAxes, " to ", kMaxMapAxes,
               " but the innermost and the outermost have one of each");
  }
  const int end = kCorners[axes - kMinWindowAxes];
  for (int i = 0; i < images; ++i) {
    const int lower = window.lower(i), upper = window.upper(i), stride = window.strides(i);
    for (int corner : {lower, upper}) {
      if (corner < -end || corner >= end) {
        return bad("a window's corner of ", corner, " along axis ", i + 1, ", not in ", -end,
                   " to ", end - 1);
      }
    }
    if (stride < 1 || stride > kMaxWindowStride) {
      return bad("a window's stride of ", stride, " along axis ", i + 1, ", not in 1 to ",
                 kMaxWindowStride);
    }
    if (map.sizes(i + 1) + upper - lower < 1) {
      return bad("a window from ", lower, " to ", upper, " behind the last of ", map.sizes(i + 1),
                 " elements of axis ", i + 1, ": it has no place there");
    }
  }
  return absl::OkStatus();
}

// What the driver asks of a tensor map, and that it lies within its buffer.
absl::Status CheckMap(const v1::Plan& plan, const v1::TensorMap& map) {
  const auto bad = [](auto... parts) { return absl::InvalidArgumentError(absl::StrCat(parts...)); };
  const int64_t element = MapElementBytes(map);
  const int axes = map.sizes_size();
  if (element == 0) return bad("a tensor map of the type '", map.dtype(), "'");
  if (axes < 1 || axes > kMaxMapAxes || map.strides_size() != axes - 1 ||
      map.box_size() != (map.has_window() ? 2 : axes)) {
    return bad("a tensor map of ", axes, " sizes, ", map.strides_size(), " strides and a box of ",
               map.box_size(), "; they go by 1 to ", kMaxMapAxes,
               " axes, of which the innermost has no stride",
               map.has_window() ? ", and a window's box is channels and places" : "");
  }
  if (map.offset() < 0 || map.offset() % kMapAlignment != 0) {
    return bad("a tensor map at byte ", map.offset(), ", not a multiple of ", kMapAlignment);
  }
  int64_t end = element;  // of the last element, from the first one on
  for (int i = 0; i < axes; ++i) {
    const int64_t size = map.sizes(i), stride = i == 0 ? element : map.strides(i - 1);
    if (size < 1 || size > kMaxMapSize) {
      return bad("a tensor map of ", size, " elements along axis ", i);
    }
    if (i > 0 && (stride < 0 || stride >= kMaxMapStride || stride % kMapAlignment != 0)) {
      return bad("a tensor map's stride of ", stride, " bytes along axis ", i,
                 ", not a multiple of ", kMapAlignment, " below 2^40");
    }
    if (stride > 0 && size - 1 > (std::numeric_limits<int64_t>::max() - end) / stride) {
      return bad("a tensor map beyond 2^63 bytes");
    }
    end += (size - 1) * stride;
  }
  for (int i = 0; i < map.box_size(); ++i) {
    if (map.box(i) < 1 || map.box(i) > kMaxMapBox) {
      return bad("a tensor map's box of ", map.box(i),
                 map.has_window() && i > 0 ? std::string(" places")
                                           : absl::StrCat(" elements along axis ", i),
                 "; the limit is ", kMaxMapBox);
    }
  }
  const int64_t row = map.box(0) * element;
  if (row % kMapAlignment != 0) {
    return bad("a tensor map's box has rows of ", row, " bytes, not a multiple of ", kMapAlignment);
  }
  const int swizzle = map.swizzle();
  if (swizzle != 0 && swizzle != 32 && swizzle != 64 && swizzle != 128) {
    return bad("a tensor map swizzled by ", swizzle, " bytes; there are 0, 32, 64 and 128");
  }
  if (swizzle != 0 && row > swizzle) {
    return bad("a tensor map's box has rows of ", row, " bytes, swizzled by ", swizzle);
  }
  if (map.has_window()) {
    if (absl::Status status = CheckWindow(map); !status.ok()) return status;
  }
  if (absl::Status status = CheckRange(plan, map.buffer(), 0); !status.ok()) return status;
  const int64_t bytes = plan.buffers(map.buffer()).bytes();
  if (end > bytes || map.offset() > bytes - end) {
    return bad("a tensor map of bytes ", map.offset(), " to ", map.offset(), " + ", end,
               " of buffer ", map.buffer(), ", which has ", bytes);
  }
  return absl::OkStatus();
}

absl::Status CheckLaunch(const v1::Plan& plan, const v1::Launch& launch, const DeviceInfo& info,
                         int max_cluster) {
  const auto bad = [](auto... parts) { return absl::InvalidArgumentError(absl::StrCat(parts...)); };
  if (launch.grid_size() != 3 || launch.block_size() != 3 ||
      (launch.cluster_size() != 0 && launch.cluster_size() != 3)) {
    return bad("grid, block and cluster have three sizes each (a cluster may be absent)");
  }
  uint64_t block = 1, cluster = 1;
  for (int i = 0; i < 3; ++i) {
    const uint64_t max_grid = i == 0 ? 0x7fffffff : 65535;
    if (launch.grid(i) < 1 || launch.grid(i) > max_grid) {
      return bad("grid size ", launch.grid(i), " of axis ", i, " is not in 1 to ", max_grid);
    }
    if (launch.block(i) < 1 || launch.block(i) > kMaxBlockThreads) {
      return bad("block size ", launch.block(i), " of axis ", i, " is not in 1 to ",
                 kMaxBlockThreads);
    }
    block *= launch.block(i);
    if (launch.cluster_size() == 0) continue;
    if (launch.cluster(i) < 1 || launch.cluster(i) > static_cast<uint32_t>(max_cluster) ||
        launch.grid(i) % launch.cluster(i) != 0) {
      return bad("cluster size ", launch.cluster(i), " does not divide the grid's ", launch.grid(i),
                 " of axis ", i, " or is more than ", max_cluster);
    }
    cluster *= launch.cluster(i);
  }
  if (block > kMaxBlockThreads) {
    return bad("a block of ", block, " threads; the limit is ", kMaxBlockThreads);
  }
  if (cluster > static_cast<uint64_t>(max_cluster)) {
    return bad("a cluster of ", cluster, " blocks; the limit is ", max_cluster);
  }
  if (launch.shared_bytes() > info.shared_per_block) {
    return bad(launch.shared_bytes(), " bytes of shared memory a block; the limit is ",
               info.shared_per_block);
  }
  if (launch.arguments_size() > kMaxArguments) {
    return bad(launch.arguments_size(), " arguments; the limit is ", kMaxArguments);
  }
  for (int i = 0; i < launch.arguments_size(); ++i) {
    const v1::Argument& argument = launch.arguments(i);
    if (argument.value_case() == v1::Argument::VALUE_NOT_SET) {
      return bad("argument ", i, " has no value");
    }
    if (argument.has_map()) {
      if (!info.tensor_maps) return bad("argument ", i, ": this device has no tensor maps");
      if (absl::Status status = CheckMap(plan, argument.map()); !status.ok()) {
        return bad("argument ", i, ": ", status.message());
      }
    }
    if (argument.has_buffer()) {
      if (absl::Status status = CheckRange(plan, argument.buffer(), 0); !status.ok()) {
        return bad("argument ", i, ": ", status.message());
      }
    }
  }
  return absl::OkStatus();
}

// That a matrix of so many rows and columns lies within its buffer.
absl::Status CheckMatrix(const v1::Plan& plan, const v1::Matrix& matrix, int64_t rows,
                         int64_t columns, int64_t batches) {
  const auto bad = [](auto... parts) { return absl::InvalidArgumentError(absl::StrCat(parts...)); };
  if (auto status = CheckRange(plan, matrix.buffer(), 0); !status.ok()) return status;
  const int64_t inner = matrix.along_rows() ? rows : columns,
                lines = matrix.along_rows() ? columns : rows;
  if (matrix.offset() < 0 || matrix.offset() % kMatrixAlignment != 0)
    return bad("a matrix at byte ", matrix.offset(), ", not a multiple of ", kMatrixAlignment);
  if (matrix.line() < inner || matrix.batch() < 0)
    return bad("lines of ", inner, " elements, ", matrix.line(), " apart, of matrices that are ",
               matrix.batch(), " apart");
  const int64_t element = matrix.dtype() == "f32" ? 4 : 2;
  const absl::int128 end =
      matrix.offset() + element * (absl::int128(batches - 1) * matrix.batch() +
                                   absl::int128(lines - 1) * matrix.line() + inner);
  if (end > plan.buffers(matrix.buffer()).bytes())
    return bad("a matrix that ends beyond buffer ", matrix.buffer(), ", which has ",
               plan.buffers(matrix.buffer()).bytes(), " bytes");
  return absl::OkStatus();
}

// That what is added to each row lies within its buffer.
absl::Status CheckBias(const v1::Plan& plan, const v1::LibraryProduct& product) {
  const auto bad = [](auto... parts) { return absl::InvalidArgumentError(absl::StrCat(parts...)); };
  const v1::Vector& bias = product.bias();
  if (bias.dtype() != product.d().dtype())
    return bad("a bias of ", bias.dtype(), " for a result of ", product.d().dtype());
  if (auto status = CheckRange(plan, bias.buffer(), 0); !status.ok()) return status;
  if (bias.offset() < 0 || bias.offset() % kMatrixAlignment != 0)
    return bad("a bias at byte ", bias.offset(), ", not a multiple of ", kMatrixAlignment);
  const int64_t bytes = plan.buffers(bias.buffer()).bytes();
  if (bias.offset() > bytes - product.n() * (bias.dtype() == "f32" ? 4 : 2))
    return bad("a bias that ends beyond buffer ", bias.buffer(), ", which has ", bytes, " bytes");
  if (bias.buffer() == product.workspace()) return bad("its workspace is its bias");
  if (bias.buffer() == product.d().buffer())
    return bad("it writes buffer ", bias.buffer(), ", where its bias is");
  return absl::OkStatus();
}

absl::Status CheckProduct(const v1::Plan& plan, const v1::LibraryProduct& product) {
  const auto bad = [](auto... parts) { return absl::InvalidArgumentError(absl::StrCat(parts...)); };
  for (int64_t extent : {product.m(), product.n(), product.k(), product.batches()}) {
    if (extent < 1 || extent > std::numeric_limits<int32_t>::max())
      return bad("a product of ", product.batches(), " x ", product.m(), " x ", product.n(), " x ",
                 product.k());
  }
  if (product.algorithm() < 1 || product.algorithm() > kMaxAlgorithms)
    return bad("algorithm ", product.algorithm(), " is not in 1 to ", kMaxAlgorithms);
  const v1::Matrix &a = product.a(), &b = product.b(), &d = product.d();
  const std::string type = a.dtype();
  if ((type != "f16" && type != "bf16" && type != "f32") || b.dtype() != type ||
      (d.dtype() != type && d.dtype() != "f32"))
    return bad("a library's product of ", type, " and ", b.dtype(), " to ", d.dtype(),
               "; operands are both f16, both bf16 or both f32, the result of that type or f32");
  if (d.along_rows()) return bad("a result whose rows lie beside each other");
  absl::Status status = CheckMatrix(plan, a, product.m(), product.k(), product.batches());
  if (status.ok()) status = CheckMatrix(plan, b, product.n(), product.k(), product.batches());
  if (status.ok()) status = CheckMatrix(plan, d, product.m(), product.n(), product.batches());
  if (status.ok()) status = CheckRange(plan, product.workspace(), 0);
  if (!status.ok()) return status;
  // One behind the other, or lines of each between those of the others. No number wraps: the last
  // element lies within the buffer.
  if (product.batches() > 1 && d.batch() < (product.m() - 1) * d.line() + product.n() &&
      (d.batch() < product.n() || d.line() < (product.batches() - 1) * d.batch() + product.n()))
    return bad("results of a batch that overlap");
  const v1::Buffer::Kind kind = plan.buffers(d.buffer()).kind();
  if (kind == v1::Buffer::INPUT || kind == v1::Buffer::PARAM || kind == v1::Buffer::PREPARED)
    return bad("it writes buffer ", d.buffer(), ", which is read only");
  if (plan.buffers(product.workspace()).kind() != v1::Buffer::WORKSPACE)
    return bad("its workspace is buffer ", product.workspace(), ", which is none");
  for (int buffer : {a.buffer(), b.buffer(), d.buffer()}) {
    if (buffer == product.workspace()) return bad("its workspace is one of its matrices");
  }
  if (d.buffer() == a.buffer() || d.buffer() == b.buffer())
    return bad("it writes buffer ", d.buffer(), ", which it reads");
  return product.has_bias() ? CheckBias(plan, product) : absl::OkStatus();
}

absl::Status CheckStep(const v1::Plan& plan, const v1::Step& step, const DeviceInfo& info,
                       int max_cluster) {
  switch (step.step_case()) {
    case v1::Step::kLaunch:
      return CheckLaunch(plan, step.launch(), info, max_cluster);
    case v1::Step::kFill:
      if (step.fill().bytes() % 4 != 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("a fill of ", step.fill().bytes(), " bytes, not a multiple of 4"));
      }
      return CheckRange(plan, step.fill().buffer(), step.fill().bytes());
    case v1::Step::kCopy: {
      if (step.copy().from() == step.copy().to()) {
        return absl::InvalidArgumentError("a copy of a buffer to itself");
      }
      absl::Status status = CheckRange(plan, step.copy().from(), step.copy().bytes());
      return status.ok() ? CheckRange(plan, step.copy().to(), step.copy().bytes()) : status;
    }
    case v1::Step::kProduct:
      return CheckProduct(plan, step.product());
    case v1::Step::STEP_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("it is empty");
}

}  // namespace

absl::Status CheckPlan(const v1::Plan& plan, const DeviceInfo& info, int max_cluster) {
  if (plan.steps_size() > kMaxSteps) {
    return absl::InvalidArgumentError(
        absl::StrCat("a plan of ", plan.steps_size(), " steps; the limit is ", kMaxSteps));
  }
  for (int i = 0; i < plan.buffers_size(); ++i) {
    if (plan.buffers(i).bytes() <= 0) {
      return absl::InvalidArgumentError(absl::StrCat("buffer ", i, " ('", plan.buffers(i).tensor(),
                                                     "') has ", plan.buffers(i).bytes(), " bytes"));
    }
  }
  for (int i = 0; i < plan.steps_size(); ++i) {
    absl::Status status = CheckStep(plan, plan.steps(i), info, max_cluster);
    if (!status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(Where(plan, i), status.message()));
    }
  }
  return problem::LanesOf(plan).status();
}

absl::Status CheckBinding(const v1::Plan& plan, absl::Span<Memory* const> buffers) {
  if (static_cast<int>(buffers.size()) != plan.buffers_size()) {
    return absl::InvalidArgumentError(absl::StrCat("the plan has ", plan.buffers_size(),
                                                   " buffers and ", buffers.size(), " are bound"));
  }
  for (int i = 0; i < plan.buffers_size(); ++i) {
    const auto name = absl::StrCat("buffer ", i, " ('", plan.buffers(i).tensor(), "')");
    if (buffers[i] == nullptr || buffers[i]->address() == 0) {
      return absl::FailedPreconditionError(absl::StrCat(name, " is not mapped"));
    }
    if (buffers[i]->bytes() < plan.buffers(i).bytes()) {
      return absl::InvalidArgumentError(absl::StrCat(name, " needs ", plan.buffers(i).bytes(),
                                                     " bytes and is bound to ",
                                                     buffers[i]->bytes()));
    }
  }
  return absl::OkStatus();
}

int MapElementBytes(const v1::TensorMap& map) {
  const auto type = graph::FindType(map.dtype());
  return type ? static_cast<int>(graph::SizeOf(*type)) : 0;
}

int ArgumentBytes(const v1::Argument& argument) {
  switch (argument.value_case()) {
    case v1::Argument::kI32:
    case v1::Argument::kF32:
      return 4;
    case v1::Argument::kMap:
      return kMapBytes;
    default:
      return 8;
  }
}

}  // namespace warpsmith::device
