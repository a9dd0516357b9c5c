#include "common/http/compress.h"

#include <zlib.h>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace warpsmith::http {
namespace {

constexpr int kGzipWindow = MAX_WBITS + 16;  // zlib's way to say: with gzip's header
constexpr int kMemoryLevel = 8;

}  // namespace

std::string Gzip(std::string_view body) {
  z_stream stream = {};
  if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, kGzipWindow, kMemoryLevel,
                   Z_DEFAULT_STRATEGY) != Z_OK) {
    return "";
  }
  std::string packed(deflateBound(&stream, body.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(body.data()));
  stream.avail_in = static_cast<uInt>(body.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const bool done = deflate(&stream, Z_FINISH) == Z_STREAM_END;
  packed.resize(done ? stream.total_out : 0);
  deflateEnd(&stream);
  return packed;
}

bool TakesGzip(std::string_view accepted) {
  for (absl::string_view each :
       absl::StrSplit(absl::string_view(accepted.data(), accepted.size()), ',')) {
    const std::string plain = absl::StrReplaceAll(each, {{" ", ""}});
    if (plain == "gzip" ||
        (absl::StartsWith(plain, "gzip;q=") && !absl::StartsWith(plain, "gzip;q=0"))) {
      return true;
    }
  }
  return false;
}

}  // namespace warpsmith::http
