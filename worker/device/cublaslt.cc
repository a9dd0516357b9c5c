#include "worker/device/cublaslt.h"

#include <vector>

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"
#include "worker/device/library.h"
#include "worker/device/plan_check.h"

namespace warpsmith::device {
namespace {

// The library's C interface (cublasLt.h).
using Object = void*;
struct Algorithm {
  uint64_t data[8];
};
struct Heuristic {
  Algorithm algorithm;
  size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
};
static_assert(sizeof(Heuristic) == 96);
constexpr int kCompute32F = 68, kReal32F = 0, kReal16F = 2, kReal16BF = 14, kReal8E4m3 = 28;
// Attributes of a product.
constexpr int kTransposeA = 3, kTransposeB = 4, kEpilogue = 7, kBiasPointer = 8;
constexpr uint32_t kEpilogueBias = 4;
// Where a bias is said to be while algorithms are asked for: they may differ by its alignment.
constexpr uint64_t kSomewhere = 256;
constexpr int kBatchCount = 5, kBatchStride = 6;  // of a layout
// Of a preference: by default any reduction and addresses at multiples of 256 bytes.
constexpr int kMaxWorkspace = 1, kReductions = 3, kAlignments[] = {5, 6, 7, 8};
constexpr uint32_t kInComputeType = 2;
constexpr int kAsItIs = 0, kTransposed = 1;  // cublasOperation_t

}  // namespace

// member, symbol, parameters
#define WARPSMITH_CUBLASLT_FUNCTIONS(X)                                                         \
  X(Create, "cublasLtCreate", (Object * library))                                               \
  X(Destroy, "cublasLtDestroy", (Object library))                                               \
  X(ProductCreate, "cublasLtMatmulDescCreate", (Object * product, int compute, int scale))      \
  X(ProductSet, "cublasLtMatmulDescSetAttribute",                                               \
    (Object product, int which, const void* value, size_t bytes))                               \
  X(LayoutCreate, "cublasLtMatrixLayoutCreate",                                                 \
    (Object * layout, int type, uint64_t rows, uint64_t columns, int64_t pitch))                \
  X(LayoutSet, "cublasLtMatrixLayoutSetAttribute",                                              \
    (Object layout, int which, const void* value, size_t bytes))                                \
  X(PreferenceCreate, "cublasLtMatmulPreferenceCreate", (Object * preference))                  \
  X(PreferenceSet, "cublasLtMatmulPreferenceSetAttribute",                                      \
    (Object preference, int which, const void* value, size_t bytes))                            \
  X(Ask, "cublasLtMatmulAlgoGetHeuristic",                                                      \
    (Object library, Object product, Object a, Object b, Object c, Object d, Object preference, \
     int wanted, Heuristic* found, int* count))                                                 \
  X(Run, "cublasLtMatmul",                                                                      \
    (Object library, Object product, const void* alpha, const void* a, Object layout_a,         \
     const void* b, Object layout_b, const void* beta, const void* c, Object layout_c, void* d, \
     Object layout_d, const Algorithm* algorithm, void* workspace, size_t workspace_bytes,      \
     cuda::Stream stream))                                                                      \
  X(ProductDestroy, "cublasLtMatmulDescDestroy", (Object product))                              \
  X(LayoutDestroy, "cublasLtMatrixLayoutDestroy", (Object layout))                              \
  X(PreferenceDestroy, "cublasLtMatmulPreferenceDestroy", (Object preference))

struct CublasLt::Functions {
#define WARPSMITH_DECLARE(member, symbol, parameters) int(*member) parameters = nullptr;
  WARPSMITH_CUBLASLT_FUNCTIONS(WARPSMITH_DECLARE)
#undef WARPSMITH_DECLARE
};

namespace {

absl::Status Check(int result, absl::string_view what) {
  return result == 0 ? absl::OkStatus()
                     : absl::InternalError(absl::StrCat(what, " failed: cuBLAS status ", result));
}

int TypeOf(const std::string& dtype) {
  return dtype == "f32"    ? kReal32F
         : dtype == "bf16" ? kReal16BF
         : dtype == "u8"   ? kReal8E4m3
                           : kReal16F;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const CublasLt>> CublasLt::Open(const std::string& path) {
  std::vector<std::string> names = {path};
  if (path.empty()) {
    names = {"libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.13"};
    for (const std::string& match : Matching("/usr/local/cuda*/targets/*/lib/libcublasLt.so.1[23]"))
      names.push_back(match);
  }
  auto library = Library::Open(names, "cuBLASLt",
                               "install the CUDA toolkit's cuBLAS, or give --cublaslt PATH");
  if (!library.ok()) return library.status();
  auto functions = std::make_shared<Functions>();
  size_t (*version)() = nullptr;
  absl::Status status = library->Find("cublasLtGetVersion", &version);
#define WARPSMITH_FIND(member, symbol, parameters) \
  status.Update(library->Find(symbol, &functions->member));
  WARPSMITH_CUBLASLT_FUNCTIONS(WARPSMITH_FIND)
#undef WARPSMITH_FIND
  if (!status.ok()) return status;
  const size_t number = version();
  auto opened = std::make_shared<CublasLt>();
  opened->name_ =
      absl::StrCat("cuBLASLt ", number / 10000, ".", number / 100 % 100, ".", number % 100);
  opened->functions_ = std::move(functions);
  return std::shared_ptr<const CublasLt>(std::move(opened));
}

struct LibraryProduct::State {
  std::shared_ptr<const CublasLt> library;
  v1::LibraryProduct step;
  size_t workspace_bytes = 0;
  Object handle = nullptr, product = nullptr, of_a = nullptr, of_b = nullptr, of_d = nullptr;
  std::vector<Heuristic> found;

  const CublasLt::Functions& lt() const { return library->functions(); }

  ~State() {
    for (Object layout : {of_a, of_b, of_d}) {
      if (layout != nullptr) lt().LayoutDestroy(layout);
    }
    if (product != nullptr) lt().ProductDestroy(product);
    if (handle != nullptr) lt().Destroy(handle);
  }

  // The library's matrices are column major: its first operand is b, its second a, and what it
  // writes is d transposed.
  absl::Status Describe(bool any_reduction) {
    const v1::Matrix &a = step.a(), &b = step.b();
    absl::Status status = Check(lt().Create(&handle), "cublasLtCreate");
    status.Update(
        Check(lt().ProductCreate(&product, kCompute32F, kReal32F), "cublasLtMatmulDescCreate"));
    if (!status.ok()) return status;
    const int first = b.along_rows() ? kAsItIs : kTransposed,
              second = a.along_rows() ? kTransposed : kAsItIs;
    const auto set = [&](int which, int value) {
      status.Update(Check(lt().ProductSet(product, which, &value, sizeof(value)), "transposing"));
    };
    set(kTransposeA, first);
    set(kTransposeB, second);
    if (step.has_bias()) {
      status.Update(Check(
          lt().ProductSet(product, kEpilogue, &kEpilogueBias, sizeof(kEpilogueBias)), "a bias"));
      status.Update(SetBias(kSomewhere));
    }
    status.Update(Layout(b, step.n(), step.k(), &of_b));
    status.Update(Layout(a, step.m(), step.k(), &of_a));
    status.Update(Layout(step.d(), step.m(), step.n(), &of_d));
    if (!status.ok()) return status;
    return Ask(any_reduction);
  }

  absl::Status SetBias(uint64_t address) const {
    return Check(lt().ProductSet(product, kBiasPointer, &address, sizeof(address)), "a bias");
  }

  absl::Status Layout(const v1::Matrix& matrix, int64_t rows, int64_t columns, Object* layout) {
    const int64_t inner = matrix.along_rows() ? rows : columns,
                  lines = matrix.along_rows() ? columns : rows;
    absl::Status status =
        Check(lt().LayoutCreate(layout, TypeOf(matrix.dtype()), inner, lines, matrix.line()),
              "cublasLtMatrixLayoutCreate");
    if (!status.ok() || step.batches() == 1) return status;
    const int count = static_cast<int>(step.batches());
    const int64_t stride = matrix.batch();
    status.Update(Check(lt().LayoutSet(*layout, kBatchCount, &count, sizeof(count)), "batches"));
    status.Update(Check(lt().LayoutSet(*layout, kBatchStride, &stride, sizeof(stride)), "batches"));
    return status;
  }

  absl::Status Ask(bool any_reduction) {
    Object preference = nullptr;
    absl::Status status =
        Check(lt().PreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
    if (!status.ok()) return status;
    const auto set = [&](int which, auto value) {
      status.Update(
          Check(lt().PreferenceSet(preference, which, &value, sizeof(value)), "a preference"));
    };
    set(kMaxWorkspace, workspace_bytes);
    if (!any_reduction) set(kReductions, kInComputeType);
    for (int which : kAlignments) set(which, static_cast<uint32_t>(kMatrixAlignment));
    int count = 0, asked = 0;
    if (status.ok()) {
      found.resize(kMaxAlgorithms);
      asked = lt().Ask(handle, product, of_b, of_a, of_d, of_d, preference, kMaxAlgorithms,
                       found.data(), &count);
      found.resize(asked == 0 ? count : 0);
    }
    lt().PreferenceDestroy(preference);
    if (status.ok() && found.empty())
      return absl::UnimplementedError(
          absl::StrCat(library->name(), " has no algorithm for this product"));
    return status;
  }
};

LibraryProduct::LibraryProduct(std::unique_ptr<State> state) : state_(std::move(state)) {}
LibraryProduct::~LibraryProduct() = default;

absl::StatusOr<std::unique_ptr<LibraryProduct>> LibraryProduct::Make(
    std::shared_ptr<const CublasLt> library, const v1::LibraryProduct& product,
    int64_t workspace_bytes, bool any_reduction) {
  auto state = std::make_unique<State>();
  state->library = std::move(library);
  state->step = product;
  state->workspace_bytes = workspace_bytes;
  if (auto status = state->Describe(any_reduction); !status.ok()) return status;
  return std::unique_ptr<LibraryProduct>(new LibraryProduct(std::move(state)));
}

int LibraryProduct::algorithms() const { return static_cast<int>(state_->found.size()); }

absl::Status LibraryProduct::Run(int algorithm, uint64_t a, uint64_t b, uint64_t bias, uint64_t d,
                                 uint64_t workspace, cuda::Stream stream) const {
  const State& s = *state_;
  const float one = 1, zero = 0;
  const auto at = [](uint64_t address, const v1::Matrix& matrix) {
    return absl::bit_cast<void*>(address + matrix.offset());
  };
  void* const result = at(d, s.step.d());
  if (s.step.has_bias()) {
    if (auto status = s.SetBias(bias + s.step.bias().offset()); !status.ok()) return status;
  }
  return Check(
      s.lt().Run(s.handle, s.product, &one, at(b, s.step.b()), s.of_b, at(a, s.step.a()), s.of_a,
                 &zero, result, s.of_d, result, s.of_d, &s.found[algorithm - 1].algorithm,
                 absl::bit_cast<void*>(workspace), s.workspace_bytes, stream),
      "cublasLtMatmul");
}

}  // namespace warpsmith::device
