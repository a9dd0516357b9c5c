// Text of no known length, where there is room for so much.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace warpsmith::base {

// `text`, UTF-8, if it has at most `bytes`, which are 3 at least; else so many characters of its
// beginning as fit with U+2026 ("...") behind them.
std::string Shortened(std::string_view text, size_t bytes);

}  // namespace warpsmith::base
