#include "worker/judge/accuracy.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_format.h"

namespace warpsmith::judge {

Tolerance ToleranceOf(const v1::AccuracyRule& rule, graph::DType type) {
  if (rule.absolute() > 0 || rule.relative() > 0) return {rule.absolute(), rule.relative()};
  switch (type) {
    case graph::DType::kF16:
      return {0x1p-9, 0x1p-9};
    case graph::DType::kBF16:
      return {0x1p-6, 0x1p-6};
    case graph::DType::kF64:
      return {1e-7, 1e-7};
    default:
      return {1e-4, 1e-4};
  }
}

double ErrorRatio(double error, double reference) {
  if (std::isnan(error) || std::isnan(reference)) return std::numeric_limits<double>::quiet_NaN();
  return std::max(error, kErrorFloor) / std::max(reference, kErrorFloor);
}

std::string TooInaccurate(double error, double reference, double allowed_ratio) {
  if (std::isnan(reference)) return "";
  double ratio = ErrorRatio(error, reference);
  if (ratio <= allowed_ratio) return "";
  return absl::StrFormat(
      "its largest error is %.2g of the answer's rms, %.3g times that of what it replaces (%.2g); "
      "at most %g times is allowed",
      error, ratio, reference, allowed_ratio);
}

}  // namespace warpsmith::judge
