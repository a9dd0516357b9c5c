#include "common/problem/units.h"

#include <cstdint>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace warpsmith::problem {
namespace {

constexpr absl::string_view kHead = "images of Warpsmith\n";

}  // namespace

std::vector<std::string> UnitsOf(const std::string& source) {
  std::string all, group;  // what every unit has, and every one of the group
  std::vector<std::string> units;
  std::string* part = &all;
  for (absl::string_view rest = source; !rest.empty();) {
    const size_t end = rest.find('\n');
    const absl::string_view line = rest.substr(0, end == rest.npos ? end : end + 1);
    rest.remove_prefix(line.size());
    if (line == kGroupMark) {
      group.clear();
      part = &group;
    } else if (line == kSharedMark) {
      part = &group;
    } else if (line == kUnitMark) {
      units.push_back(absl::StrCat(all, group));
      part = &units.back();
    } else {
      absl::StrAppend(part, line);
    }
  }
  if (units.empty()) units.push_back(source);
  return units;
}

std::string JoinImages(const std::vector<std::string>& images) {
  if (images.size() == 1) return images[0];
  std::string joined(kHead);
  const auto add = [&](uint64_t number) {
    joined.append(reinterpret_cast<const char*>(&number), sizeof(number));
  };
  add(images.size());
  for (const std::string& image : images) {
    add(image.size());
    joined += image;
  }
  return joined;
}

absl::StatusOr<std::vector<std::string>> ImagesOf(const std::string& joined) {
  if (!absl::StartsWith(joined, kHead)) return std::vector<std::string>{joined};
  absl::string_view rest = joined;
  rest.remove_prefix(kHead.size());
  const auto take = [&](uint64_t* number) {
    if (rest.size() < sizeof(*number)) return false;
    std::memcpy(number, rest.data(), sizeof(*number));
    rest.remove_prefix(sizeof(*number));
    return true;
  };
  uint64_t count = 0, size = 0;
  bool whole = take(&count);
  std::vector<std::string> images;
  while (whole && images.size() < count) {
    whole = take(&size) && size <= rest.size();
    if (!whole) break;
    images.emplace_back(rest.substr(0, size));
    rest.remove_prefix(size);
  }
  if (!whole || !rest.empty()) {
    return absl::DataLossError(absl::StrCat("of ", count, " images ", images.size(),
                                            " are there, and ", rest.size(), " bytes behind them"));
  }
  return images;
}

}  // namespace warpsmith::problem
