// Text of the world: of no known length where there is room for so much, and of bytes that may be
// no UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace warpsmith::base {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD, for what is none

// Bytes of the character that `text` begins with; 0: it begins with none, or is empty. RFC 3629: no
// overlong forms, no surrogates, nothing beyond U+10FFFF.
size_t CharacterBytes(std::string_view text);

// At most `bytes` of its beginning, and no part of a character.
std::string_view Prefix(std::string_view text, size_t bytes);

// `text`, UTF-8, if it has at most `bytes`, which are 3 at least; else so many characters of its
// beginning as fit with U+2026 ("...") behind them.
std::string Shortened(std::string_view text, size_t bytes);

}  // namespace warpsmith::base
