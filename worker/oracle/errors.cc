#include "worker/oracle/errors.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/check.h"

namespace warpsmith::oracle {

Errors ErrorsOf(absl::Span<const double> got, absl::Span<const double> exact, double rms) {
  WS_CHECK(got.size() == exact.size(), "values and exact values are not as many");
  double largest = 0, squares = 0, total = 0;
  int64_t count = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (!std::isfinite(got[i]) || !std::isfinite(exact[i])) {
      bool same = got[i] == exact[i] || (std::isnan(got[i]) && std::isnan(exact[i]));
      if (same) continue;
      double nan = std::numeric_limits<double>::quiet_NaN();
      return {nan, nan};
    }
    double difference = std::abs(got[i] - exact[i]);
    largest = std::max(largest, difference);
    squares += difference * difference;
    total += exact[i] * exact[i];
    ++count;
  }
  if (count == 0) return {};
  if (rms <= 0) rms = total > 0 ? std::sqrt(total / count) : 1.0;
  return {largest / rms, std::sqrt(squares / count) / rms};
}

}  // namespace warpsmith::oracle
