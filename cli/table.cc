#include "cli/table.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "common/base/check.h"

namespace warpsmith::cli {
namespace {

// Three significant digits, without an exponent for what occurs here.
std::string Short(double n) {
  if (n >= 100) return absl::StrFormat("%.0f", n);
  if (n >= 10) return absl::StrFormat("%.1f", n);
  return absl::StrFormat("%.2f", n);
}

}  // namespace

int Width(const std::string& text) {
  return static_cast<int>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string Cut(const std::string& text, int width) {
  if (Width(text) <= width) return text;
  size_t end = 0;
  for (int left = width - 1; left > 0; --left) {
    do {
      ++end;
    } while (end < text.size() && (text[end] & 0xc0) == 0x80);
  }
  return text.substr(0, end) + "~";
}

std::string Fit(const std::string& text, int width) {
  const std::string cut = Cut(text, width);
  return cut + std::string(width - Width(cut), ' ');
}

void Table::Add(std::vector<std::string> cells) {
  WS_CHECK(cells.size() == columns_.size(), "a row needs a cell for each column");
  // A cell is one line, whatever a compiler or a judge said.
  for (std::string& cell : cells) {
    std::replace_if(
        cell.begin(), cell.end(), [](char c) { return c >= 0 && c < ' '; }, ' ');
  }
  rows_.push_back(std::move(cells));
}

std::string Table::Text() const {
  std::vector<int> widths;
  for (size_t c = 0; c < columns_.size(); ++c) {
    int width = Width(columns_[c].title);
    for (const auto& row : rows_) width = std::max(width, Width(row[c]));
    widths.push_back(width);
  }
  std::string text;
  auto add_line = [&](auto&& cell) {
    std::string line;
    for (size_t c = 0; c < columns_.size(); ++c) {
      const std::string& content = cell(c);
      const std::string blanks(widths[c] - Width(content), ' ');
      if (c > 0) line += "  ";
      line += columns_[c].align == kRight ? blanks + content : content + blanks;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  };
  add_line([&](size_t c) -> const std::string& { return columns_[c].title; });
  for (const auto& row : rows_) {
    add_line([&](size_t c) -> const std::string& { return row[c]; });
  }
  return text;
}

std::string Speedup(double ratio) { return ratio > 0 ? absl::StrFormat("%.2fx", ratio) : "-"; }

std::string Microseconds(double us) {
  if (us <= 0) return "-";
  if (us < 1) return Short(us * 1e3) + " ns";
  if (us < 1e3) return Short(us) + " us";
  if (us < 1e6) return Short(us / 1e3) + " ms";
  return Short(us / 1e6) + " s";
}

std::string Bytes(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  while (bytes >= 1024 && unit < 4) {
    bytes /= 1024;
    ++unit;
  }
  return (unit == 0 ? absl::StrFormat("%.0f", bytes) : Short(bytes)) + " " + kUnits[unit];
}

std::string Count(double n) {
  if (n < 1000) return absl::StrFormat("%.0f", n);
  constexpr const char* kUnits[] = {"k", "M", "G", "T", "P"};
  int unit = -1;
  while (n >= 1000 && unit < 4) {
    n /= 1000;
    ++unit;
  }
  return Short(n) + " " + kUnits[unit];
}

std::string Clock(double seconds) {
  const int64_t s = std::llround(std::max(0.0, seconds));
  if (s < 3600) return absl::StrFormat("%d:%02d", s / 60, s % 60);
  return absl::StrFormat("%d:%02d:%02d", s / 3600, s / 60 % 60, s % 60);
}

std::string Counted(int64_t n, const std::string& what) {
  return absl::StrFormat("%d %s%s", n, what, n == 1 ? "" : "s");
}

std::string Percent(double share) {
  return share > 0 ? absl::StrFormat("%.0f %%", share * 100) : "-";
}

}  // namespace warpsmith::cli
