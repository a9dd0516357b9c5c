#include "common/base/sha256.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace warpsmith::base {
namespace {

constexpr unsigned int kDigestBytes = 32;

// EVP_sha256() is looked up anew by each digest, which takes longer than that of a short text.
const EVP_MD* Algorithm() {
  static const EVP_MD* const algorithm = EVP_MD_fetch(nullptr, "SHA2-256", nullptr);
  return algorithm;
}

constexpr size_t kReadAtOnce = size_t{1} << 20;

std::string HexOf(const unsigned char* digest) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string text(2 * kDigestBytes, '\0');
  for (unsigned int i = 0; i < kDigestBytes; ++i) {
    text[2 * i] = kHex[digest[i] >> 4];
    text[2 * i + 1] = kHex[digest[i] & 15];
  }
  return text;
}

}  // namespace

std::string Sha256Hex(std::string_view data) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  const EVP_MD* const algorithm = Algorithm();
  const bool ok = algorithm != nullptr &&
                  EVP_Digest(data.data(), data.size(), digest, &size, algorithm, nullptr) == 1;
  WS_CHECK(ok && size == kDigestBytes, "OpenSSL has no SHA-256");
  return HexOf(digest);
}

absl::StatusOr<std::string> Sha256OfFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read '", path, "'"));
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(),
                                                                   &EVP_MD_CTX_free);
  WS_CHECK(Algorithm() != nullptr && context != nullptr &&
               EVP_DigestInit_ex(context.get(), Algorithm(), nullptr) == 1,
           "OpenSSL has no SHA-256");
  std::string bytes(kReadAtOnce, '\0');
  ssize_t count = 1;
  while (count != 0) {
    count = read(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;
    EVP_DigestUpdate(context.get(), bytes.data(), static_cast<size_t>(count));
  }
  const int error = errno;
  close(fd);
  if (count < 0) return absl::ErrnoToStatus(error, absl::StrCat("cannot read '", path, "'"));
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  WS_CHECK(EVP_DigestFinal_ex(context.get(), digest, &size) == 1 && size == kDigestBytes,
           "OpenSSL has no SHA-256");
  return HexOf(digest);
}

}  // namespace warpsmith::base
