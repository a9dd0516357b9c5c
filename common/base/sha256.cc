#include "common/base/sha256.h"

#include <openssl/evp.h>

#include "common/base/check.h"

namespace warpsmith::base {

std::string Sha256Hex(std::string_view data) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  const int ok = EVP_Digest(data.data(), data.size(), digest, &size, EVP_sha256(), nullptr);
  WS_CHECK(ok == 1 && size == 32, "OpenSSL has no SHA-256");
  static constexpr char kHex[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * size);
  for (unsigned int i = 0; i < size; ++i) {
    text.push_back(kHex[digest[i] >> 4]);
    text.push_back(kHex[digest[i] & 15]);
  }
  return text;
}

}  // namespace warpsmith::base
