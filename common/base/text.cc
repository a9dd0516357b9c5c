#include "common/base/text.h"

namespace warpsmith::base {
namespace {

constexpr std::string_view kEllipsis = "\xE2\x80\xA6";

}  // namespace

std::string Shortened(std::string_view text, size_t bytes) {
  if (text.size() <= bytes) return std::string(text);
  size_t end = bytes - kEllipsis.size();
  // Not within a character: the bytes that go on with one begin with 10.
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end)) + std::string(kEllipsis);
}

}  // namespace warpsmith::base
