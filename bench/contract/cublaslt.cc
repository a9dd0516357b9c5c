#include "bench/contract/cublaslt.h"

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"
#include "worker/device/library.h"

namespace warpsmith::bench {
namespace {

// The library's C interface, version 13 (cublasLt.h).
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
constexpr int kCompute32F = 68, kReal32F = 0, kReal16F = 2, kReal16BF = 14;
constexpr int kTransposeA = 3, kTransposeB = 4;   // attributes of a product
constexpr int kBatchCount = 5, kBatchStride = 6;  // of a layout
constexpr int kMaxWorkspace = 1;                  // of a preference
constexpr int kAsItIs = 0, kTransposed = 1;       // cublasOperation_t
constexpr int kMaxAlgorithms = 8;

// member, symbol, parameters
#define WARPSMITH_CUBLASLT_FUNCTIONS(X)                                                         \
  X(Create, "cublasLtCreate", (Object * library))                                               \
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
     device::cuda::Stream stream))

struct Functions {
#define WARPSMITH_DECLARE(member, symbol, parameters) int(*member) parameters = nullptr;
  WARPSMITH_CUBLASLT_FUNCTIONS(WARPSMITH_DECLARE)
#undef WARPSMITH_DECLARE
};

absl::StatusOr<Functions> Load(const std::string& path) {
  std::vector<std::string> names = {path};
  if (path.empty()) {
    names = {"libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.13"};
    for (const std::string& match :
         device::Matching("/usr/local/cuda*/targets/*/lib/libcublasLt.so.13")) {
      names.push_back(match);
    }
  }
  auto library = device::Library::Open(names, "cuBLASLt 13", "give --cublaslt PATH");
  if (!library.ok()) return library.status();
  Functions functions;
  absl::Status status;
#define WARPSMITH_FIND(member, symbol, parameters) \
  status.Update(library->Find(symbol, &functions.member));
  WARPSMITH_CUBLASLT_FUNCTIONS(WARPSMITH_FIND)
#undef WARPSMITH_FIND
  if (!status.ok()) return status;
  return functions;
}

absl::Status Check(int result, absl::string_view what) {
  return result == 0 ? absl::OkStatus()
                     : absl::InternalError(absl::StrCat(what, " failed: cuBLAS status ", result));
}

}  // namespace

struct LibraryProduct::State {
  Functions lt;
  std::shared_ptr<device::CudaContext> context;
  Object library = nullptr, product = nullptr, of_a = nullptr, of_b = nullptr, of_y = nullptr;
  std::vector<Heuristic> found;

  // The library's matrices are column major: its first operand is B, its second A, and what it
  // writes is Y transposed.
  absl::Status Describe(const ProductProblem& p) {
    const bool fp32 = p.type == "f32";
    const int operand = fp32 ? kReal32F : p.type == "bf16" ? kReal16BF : kReal16F;
    absl::Status status = Check(lt.Create(&library), "cublasLtCreate");
    status.Update(
        Check(lt.ProductCreate(&product, kCompute32F, kReal32F), "cublasLtMatmulDescCreate"));
    const int first = p.along_n ? kAsItIs : kTransposed, second = p.along_m ? kTransposed : kAsItIs;
    status.Update(Check(lt.ProductSet(product, kTransposeA, &first, sizeof(first)), "transposing"));
    status.Update(
        Check(lt.ProductSet(product, kTransposeB, &second, sizeof(second)), "transposing"));
    status.Update(Layout(operand, p.along_n ? p.n : p.k, p.along_n ? p.k : p.n, p.batch, &of_b));
    status.Update(Layout(operand, p.along_m ? p.m : p.k, p.along_m ? p.k : p.m, p.batch, &of_a));
    status.Update(Layout(operand, p.n, p.m, p.batch, &of_y));
    Object preference = nullptr;
    status.Update(Check(lt.PreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate"));
    const size_t bytes = kWorkspaceBytes;
    status.Update(
        Check(lt.PreferenceSet(preference, kMaxWorkspace, &bytes, sizeof(bytes)), "a preference"));
    if (!status.ok()) return status;
    found.resize(kMaxAlgorithms);
    int count = 0;
    const int asked = lt.Ask(library, product, of_b, of_a, of_y, of_y, preference, kMaxAlgorithms,
                             found.data(), &count);
    found.resize(count);
    if (asked != 0 || count == 0)
      return absl::UnimplementedError("cuBLASLt has no algorithm for this product");
    return absl::OkStatus();
  }

  absl::Status Layout(int type, int64_t rows, int64_t columns, int64_t batch, Object* layout) {
    absl::Status status =
        Check(lt.LayoutCreate(layout, type, rows, columns, rows), "cublasLtMatrixLayoutCreate");
    if (!status.ok() || batch == 1) return status;
    const int count = static_cast<int>(batch);
    const int64_t stride = rows * columns;
    status.Update(Check(lt.LayoutSet(*layout, kBatchCount, &count, sizeof(count)), "batches"));
    status.Update(Check(lt.LayoutSet(*layout, kBatchStride, &stride, sizeof(stride)), "batches"));
    return status;
  }
};

LibraryProduct::LibraryProduct(std::unique_ptr<State> state) : state_(std::move(state)) {}
LibraryProduct::~LibraryProduct() =
    default;  // the library's few objects are left to the process's end

absl::StatusOr<std::unique_ptr<LibraryProduct>> LibraryProduct::Make(
    std::shared_ptr<device::CudaContext> context, const ProductProblem& problem,
    const std::string& path) {
  auto functions = Load(path);
  if (!functions.ok()) return functions.status();
  auto state = std::make_unique<State>();
  state->lt = *functions;
  state->context = std::move(context);
  if (auto status = state->Describe(problem); !status.ok()) return status;
  return std::unique_ptr<LibraryProduct>(new LibraryProduct(std::move(state)));
}

int LibraryProduct::algorithms() const { return static_cast<int>(state_->found.size()); }

absl::Status LibraryProduct::Run(int algorithm, uint64_t a, uint64_t b, uint64_t y,
                                 uint64_t workspace) {
  const State& s = *state_;
  const float one = 1, zero = 0;
  const auto at = [](uint64_t address) { return absl::bit_cast<void*>(address); };
  return Check(s.lt.Run(s.library, s.product, &one, at(b), s.of_b, at(a), s.of_a, &zero, at(y),
                        s.of_y, at(y), s.of_y, &s.found[algorithm].algorithm, at(workspace),
                        kWorkspaceBytes, s.context->stream()),
               "cublasLtMatmul");
}

}  // namespace warpsmith::bench
