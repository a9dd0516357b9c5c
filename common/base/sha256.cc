#include "common/base/sha256.h"

#include <openssl/evp.h>

#include "common/base/check.h"

namespace warpsmith::base {
namespace {

constexpr unsigned int kDigestBytes = 32;

// EVP_sha256() is looked up anew by each digest, which takes longer than that of a short text.
const EVP_MD* Algorithm() {
  static const EVP_MD* const algorithm = EVP_MD_fetch(nullptr, "SHA2-256", nullptr);
  return algorithm;
}

}  // namespace

std::string Sha256Hex(std::string_view data) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  const EVP_MD* const algorithm = Algorithm();
  const bool ok = algorithm != nullptr &&
                  EVP_Digest(data.data(), data.size(), digest, &size, algorithm, nullptr) == 1;
  WS_CHECK(ok && size == kDigestBytes, "OpenSSL has no SHA-256");
  static constexpr char kHex[] = "0123456789abcdef";
  std::string text(2 * kDigestBytes, '\0');
  for (unsigned int i = 0; i < kDigestBytes; ++i) {
    text[2 * i] = kHex[digest[i] >> 4];
    text[2 * i + 1] = kHex[digest[i] & 15];
  }
  return text;
}

}  // namespace warpsmith::base
