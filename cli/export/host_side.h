// The host's side of exported CUDA C++, as text: what launches a plan's steps. Each part after the
// first is for those plans that need it.
#pragma once

namespace warpsmith::exporter {

constexpr char kHostBanner[] = R"(
// ---- host side: the plan's steps on a stream ---------------------------------------------------

)";

constexpr char kHostPrologue[] = R"(#include <cuda_runtime.h>

namespace host_side {
namespace {

cudaError_t launch(const void* kernel, dim3 grid, dim3 block, dim3 cluster, size_t shared,
                   bool cooperative, bool programmatic, void** arguments, cudaStream_t stream) {
  cudaLaunchAttribute attributes[3];
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared;
  config.stream = stream;
  config.attrs = attributes;
  if (cooperative) {
    attributes[config.numAttrs].id = cudaLaunchAttributeCooperative;
    attributes[config.numAttrs++].val.cooperative = 1;
  }
  if (cluster.x > 0) {
    attributes[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
    attributes[config.numAttrs].val.clusterDim.x = cluster.x;
    attributes[config.numAttrs].val.clusterDim.y = cluster.y;
    attributes[config.numAttrs++].val.clusterDim.z = cluster.z;
  }
  if (programmatic) {
    attributes[config.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[config.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
  }
  return cudaLaunchKernelExC(&config, kernel, arguments);
}

int failed(cudaError_t error, const char* step, const char** where) {
  cudaGetLastError();   // it is reported here, not by the next call of somebody else
  if (where != nullptr) *where = step;
  return static_cast<int>(error);
}
)";

constexpr char kMaps[] = R"(
// A function of the driver that makes tensor maps; null: it has none.
void* maker_of_maps(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result);
#else
  cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result);
#endif
  return result == cudaDriverEntryPointSuccess ? found : nullptr;
}
)";

constexpr char kEncode[] = R"(
// A tensor map of the address as it is now; it is made anew by every call.
cudaError_t encode(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                   const cuuint64_t* sizes, const cuuint64_t* strides, const cuuint32_t* box,
                   CUtensorMapSwizzle swizzle) {
  static const auto function =
      reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(maker_of_maps("cuTensorMapEncodeTiled"));
  if (function == nullptr) return cudaErrorNotSupported;
  const cuuint32_t each[5] = {1, 1, 1, 1, 1};
  const CUresult made = function(map, type, rank, address, sizes, strides, box, each,
                                 CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
                                 CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return made == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}
)";

constexpr char kEncodeWindow[] = R"(
// Likewise, of the places of images at which a window stands.
cudaError_t encode_window(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                          const cuuint64_t* sizes, const cuuint64_t* strides, const int* lower,
                          const int* upper, const cuuint32_t* each, const cuuint32_t* box,
                          CUtensorMapSwizzle swizzle) {
  static const auto function =
      reinterpret_cast<decltype(&cuTensorMapEncodeIm2col)>(maker_of_maps("cuTensorMapEncodeIm2col"));
  if (function == nullptr) return cudaErrorNotSupported;
  const CUresult made = function(map, type, rank, address, sizes, strides, lower, upper, box[0], box[1],
                                 each, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
                                 CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return made == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}
)";

constexpr char kProduct[] = R"(
struct MatrixForm {
  cudaDataType_t type;
  unsigned long long rows, columns;
  long long line, batch;
};

// A product of column-major matrices, by an algorithm of one version of the library.
struct ProductForm {
  const char* library;
  int algorithm, batches;  // the first algorithm is 1
  cublasOperation_t on_first, on_second;
  MatrixForm first, second, result;
  size_t workspace_bytes;
  bool has_bias;  // for each row of the result, of its type
};

struct Product {
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t first = nullptr, second = nullptr, result = nullptr;
  cublasLtMatmulAlgo_t algorithm = {};

  bool make(const ProductForm& form) {
    const size_t version = cublasLtGetVersion();
    char name[64];
    snprintf(name, sizeof name, "cuBLASLt %zu.%zu.%zu", version / 10000, version / 100 % 100, version % 100);
    return strcmp(name, form.library) == 0 && cublasLtCreate(&handle) == CUBLAS_STATUS_SUCCESS &&
           cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS &&
           describe(form, product, somewhere) &&
           describe(form.first, form.batches, &first) && describe(form.second, form.batches, &second) &&
           describe(form.result, form.batches, &result) && ask(form);
  }
  ~Product() {
    if (result != nullptr) cublasLtMatrixLayoutDestroy(result);
    if (second != nullptr) cublasLtMatrixLayoutDestroy(second);
    if (first != nullptr) cublasLtMatrixLayoutDestroy(first);
    if (product != nullptr) cublasLtMatmulDescDestroy(product);
    if (handle != nullptr) cublasLtDestroy(handle);
  }

  static bool describe(const ProductForm& form, cublasLtMatmulDesc_t product, const void* bias) {
    const auto set = [&](cublasLtMatmulDescAttributes_t which, auto value) {
      return cublasLtMatmulDescSetAttribute(product, which, &value, sizeof value) == CUBLAS_STATUS_SUCCESS;
    };
    return set(CUBLASLT_MATMUL_DESC_TRANSA, form.on_first) && set(CUBLASLT_MATMUL_DESC_TRANSB, form.on_second) &&
           (!form.has_bias || (set(CUBLASLT_MATMUL_DESC_EPILOGUE, uint32_t{CUBLASLT_EPILOGUE_BIAS}) &&
                               set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias)));
  }

 private:
  // Where a bias is said to be while algorithms are asked for, which may differ by its alignment.
  const void* const somewhere = reinterpret_cast<const void*>(256);

  static bool describe(const MatrixForm& form, int batches, cublasLtMatrixLayout_t* layout) {
    return cublasLtMatrixLayoutCreate(layout, form.type, form.rows, form.columns, form.line) == CUBLAS_STATUS_SUCCESS &&
           (batches == 1 ||
            (cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batches,
                                              sizeof batches) == CUBLAS_STATUS_SUCCESS &&
             cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &form.batch,
                                              sizeof form.batch) == CUBLAS_STATUS_SUCCESS));
  }
  // The algorithm: sums that several blocks share are not rounded before they are added up.
  bool ask(const ProductForm& form) {
    cublasLtMatmulPreference_t preference = nullptr;
    if (cublasLtMatmulPreferenceCreate(&preference) != CUBLAS_STATUS_SUCCESS) return false;
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t which, auto value) {
      return cublasLtMatmulPreferenceSetAttribute(preference, which, &value, sizeof value) == CUBLAS_STATUS_SUCCESS;
    };
    cublasLtMatmulHeuristicResult_t found[8];
    int count = 0;
    const bool asked =
        prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, form.workspace_bytes) &&
        prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE}) &&
        prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, uint32_t{16}) &&
        prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, uint32_t{16}) &&
        prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, uint32_t{16}) &&
        prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, uint32_t{16}) &&
        cublasLtMatmulAlgoGetHeuristic(handle, product, first, second, result, result, preference, 8, found,
                                       &count) == CUBLAS_STATUS_SUCCESS &&
        count >= form.algorithm;
    cublasLtMatmulPreferenceDestroy(preference);
    if (asked) algorithm = found[form.algorithm - 1].algo;
    return asked;
  }
};

// `made`: by device; what a second thread makes meanwhile is thrown away. cudaErrorNotSupported: the library
// is of another version, or has no such algorithm.
cudaError_t multiply(const ProductForm& form, std::atomic<const Product*>* made, const void* first,
                     const void* second, const void* bias, void* result, void* workspace, cudaStream_t stream) {
  int device = 0;
  const cudaError_t error = cudaGetDevice(&device);
  if (error != cudaSuccess) return error;
  const Product* it = made[device & 63].load();
  if (it == nullptr) {
    Product* const mine = new Product;
    if (!mine->make(form)) {
      delete mine;
      return cudaErrorNotSupported;
    }
    if (made[device & 63].compare_exchange_strong(it, mine)) {
      it = mine;
    } else {
      delete mine;
    }
  }
  cublasLtMatmulDesc_t product = it->product;
  cublasLtMatmulDescOpaque_t with_bias;
  if (form.has_bias) {  // a description of this call's own: other threads have other addresses
    product = &with_bias;
    if (cublasLtMatmulDescInit(product, CUBLAS_COMPUTE_32F, CUDA_R_32F) != CUBLAS_STATUS_SUCCESS ||
        !Product::describe(form, product, bias)) {
      return cudaErrorUnknown;
    }
  }
  const float one = 1, zero = 0;
  const cublasStatus_t status = cublasLtMatmul(it->handle, product, &one, first, it->first, second, it->second,
                                               &zero, result, it->result, result, it->result, &it->algorithm,
                                               workspace, form.workspace_bytes, stream);
  return status == CUBLAS_STATUS_SUCCESS ? cudaSuccess : cudaErrorUnknown;
}
)";

constexpr char kFill[] = R"(
__global__ void fill_words(unsigned* words, unsigned pattern, long long count) {
  for (long long i = blockIdx.x * 256LL + threadIdx.x; i < count; i += gridDim.x * 256LL) {
    words[i] = pattern;
  }
}

cudaError_t fill(void* words, unsigned pattern, long long count, cudaStream_t stream) {
  const long long blocks = (count + 255) / 256;
  fill_words<<<static_cast<unsigned>(blocks < 4096 ? blocks : 4096), 256, 0, stream>>>(
      static_cast<unsigned*>(words), pattern, count);
  return cudaGetLastError();
}
)";

constexpr char kLanes[] = R"(
// Streams that run beside a caller's, and events by which they meet: of one call at a time.
struct Streams {
  cudaStream_t beside[kBeside];
  cudaEvent_t events[kEvents];
  cudaStream_t caller;  // beside which they run: another one would wait for what stands before them
  Streams* next;
};

// Those that no call has, by device.
std::mutex idle_lock;
Streams* idle[64];

// The number of the capture that a stream is part of; 0: none.
cudaError_t capture_of(cudaStream_t stream, unsigned long long* number) {
  *number = 0;
  // The legacy stream never is, and must not be asked while another one is.
  if (stream == nullptr || stream == cudaStreamLegacy) return cudaSuccess;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaError_t error = cudaStreamGetCaptureInfo(stream, &status, number);
  if (status == cudaStreamCaptureStatusNone) *number = 0;
  return status == cudaStreamCaptureStatusInvalidated ? cudaErrorStreamCaptureInvalidated : error;
}

// A call's lanes. The first event is of their beginning and end, each waited for before the next is recorded.
// Whatever happens, the caller's stream waits in the end for all that was put into them.
class Lanes {
 public:
  explicit Lanes(cudaStream_t caller) : caller_(caller) {}
  Lanes(const Lanes&) = delete;
  ~Lanes() {
    if (streams_ == nullptr) return;
    if (end() != cudaSuccess) cudaGetLastError();
    const std::lock_guard<std::mutex> lock(idle_lock);
    streams_->next = idle[device_ & 63];
    idle[device_ & 63] = streams_;
  }

  // Makes all lanes begin where the caller's stream is.
  cudaError_t begin() {
    cudaError_t error = take();
    if (error == cudaSuccess) error = record(caller_, 0);
    while (error == cudaSuccess && begun_ < kBeside) {
      error = wait(streams_->beside[begun_], 0);
      if (error == cudaSuccess) ++begun_;
    }
    return error;
  }
  cudaError_t end() {
    cudaError_t error = cudaSuccess;
    for (; begun_ > 0; --begun_) {
      cudaError_t joined = record(streams_->beside[begun_ - 1], 0);
      if (joined == cudaSuccess) joined = wait(caller_, 0);
      if (error == cudaSuccess) error = joined;
    }
    return error;
  }
  cudaStream_t stream(int lane) const { return streams_->beside[lane - 1]; }
  cudaError_t record(cudaStream_t stream, int event) { return cudaEventRecord(streams_->events[event], stream); }
  cudaError_t wait(cudaStream_t stream, int event) { return cudaStreamWaitEvent(stream, streams_->events[event], 0); }

 private:
  // Such as were captured together with another stream are part of that capture until it ends.
  cudaError_t take() {
    unsigned long long mine = 0, theirs = 0;
    cudaError_t error = cudaGetDevice(&device_);
    if (error == cudaSuccess) error = capture_of(caller_, &mine);
    if (error != cudaSuccess) return error;
    const std::lock_guard<std::mutex> lock(idle_lock);
    for (Streams** at = &idle[device_ & 63]; *at != nullptr; at = &(*at)->next) {
      if ((*at)->caller != caller_) continue;
      if (capture_of((*at)->beside[0], &theirs) != cudaSuccess || (theirs != 0 && theirs != mine)) continue;
      streams_ = *at;
      *at = streams_->next;
      return cudaSuccess;
    }
    return make();
  }
  // As may be done while a stream is being captured.
  cudaError_t make() {
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    cudaError_t error = cudaThreadExchangeStreamCaptureMode(&mode);
    if (error != cudaSuccess) return error;
    Streams* const made = new Streams();
    made->caller = caller_;
    for (cudaStream_t& stream : made->beside) {
      if (error == cudaSuccess) error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    }
    for (cudaEvent_t& event : made->events) {
      if (error == cudaSuccess) error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    }
    if (error == cudaSuccess) {
      streams_ = made;
    } else {
      for (cudaStream_t stream : made->beside) {
        if (stream != nullptr) cudaStreamDestroy(stream);
      }
      for (cudaEvent_t event : made->events) {
        if (event != nullptr) cudaEventDestroy(event);
      }
      delete made;
    }
    cudaThreadExchangeStreamCaptureMode(&mode);
    return error;
  }

  const cudaStream_t caller_;
  int device_ = 0, begun_ = 0;
  Streams* streams_ = nullptr;
};
)";

}  // namespace warpsmith::exporter
