#include "common/base/text.h"

namespace warpsmith::base {
namespace {

constexpr std::string_view kEllipsis = "\xE2\x80\xA6";

}  // namespace

size_t CharacterBytes(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < size) return 0;
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const unsigned char second = byte(1);
  if (first == 0xE0 && second < 0xA0) return 0;
  if (first == 0xED && second > 0x9F) return 0;
  if (first == 0xF0 && second < 0x90) return 0;
  if (first == 0xF4 && second > 0x8F) return 0;
  return size;
}

std::string_view Prefix(std::string_view text, size_t bytes) {
  if (text.size() <= bytes) return text;
  size_t end = bytes;
  // Not within a character: the bytes that go on with one begin with 10, and are three at most.
  while (end > 0 && bytes - end < 3 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) {
    --end;
  }
  return text.substr(0, end);
}

std::string Shortened(std::string_view text, size_t bytes) {
  if (text.size() <= bytes) return std::string(text);
  return std::string(Prefix(text, bytes - kEllipsis.size())) + std::string(kEllipsis);
}

}  // namespace warpsmith::base
