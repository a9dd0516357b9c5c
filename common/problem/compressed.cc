#include "common/problem/compressed.h"

#include <zstd.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace warpsmith::problem {
namespace {

constexpr int kCompressionLevel = 3;

// Of a thread: the tables of one take longer to make than a batch to compress, or to read.
struct FreeContext {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

}  // namespace

std::string Compressed(absl::string_view bytes) {
  thread_local const std::unique_ptr<ZSTD_CCtx, FreeContext> context(ZSTD_createCCtx());
  WS_CHECK(context != nullptr, "zstd has no memory");
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, kCompressionLevel);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, 1);
  std::string compressed(ZSTD_compressBound(bytes.size()), '\0');
  const size_t size = ZSTD_compress2(context.get(), compressed.data(), compressed.size(),
                                     bytes.data(), bytes.size());
  WS_CHECK(ZSTD_isError(size) == 0, ZSTD_getErrorName(size));
  compressed.resize(size);
  return compressed;
}

absl::StatusOr<std::string> Uncompressed(absl::string_view compressed, absl::string_view what) {
  const unsigned long long size = ZSTD_getFrameContentSize(compressed.data(), compressed.size());
  if (size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN ||
      size > kMaxUncompressedBytes) {
    return absl::DataLossError(absl::StrCat(what, " is not compressed as it should be"));
  }
  thread_local const std::unique_ptr<ZSTD_DCtx, FreeContext> context(ZSTD_createDCtx());
  WS_CHECK(context != nullptr, "zstd has no memory");
  std::string bytes(size, '\0');
  const size_t got = ZSTD_decompressDCtx(context.get(), bytes.data(), bytes.size(),
                                         compressed.data(), compressed.size());
  if (ZSTD_isError(got) != 0 || got != bytes.size()) {
    return absl::DataLossError(absl::StrCat(
        what,
        " is damaged: ", ZSTD_isError(got) != 0 ? ZSTD_getErrorName(got) : "it ends too early"));
  }
  return bytes;
}

}  // namespace warpsmith::problem
