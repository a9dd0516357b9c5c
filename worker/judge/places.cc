#include "worker/judge/places.h"

#include <algorithm>
#include <cmath>

namespace warpsmith::judge {
namespace {

enum class Nearness { kFar, kTolerance, kRounding };

// The first elements of one row.
class Row {
 public:
  Row(const oracle::Ranking& ranking, const Tolerance& tolerance, int64_t row)
      : values_(&ranking.values[row * ranking.elements]),
        ranking_(ranking),
        tolerance_(tolerance) {}

  // Each is one of the row's, and there once.
  bool AreIndexes(absl::Span<const double> indexes) const {
    for (size_t p = 0; p < indexes.size(); ++p) {
      const double index = indexes[p];
      if (!(index >= 0 && index < static_cast<double>(ranking_.elements)) ||
          std::count(indexes.begin(), indexes.begin() + static_cast<long>(p), index) > 0)
        return false;
    }
    return true;
  }

  // How near the worst of `got` is to what belongs at its place.
  Nearness Of(absl::Span<const double> got, absl::Span<const double> want) const {
    const double sign = ranking_.largest ? 1 : -1;
    double last = Value(want[0]);
    for (double index : want) last = sign * Value(index) < sign * last ? Value(index) : last;
    Nearness worst = Nearness::kRounding;
    for (size_t p = 0; p < got.size(); ++p) {
      const double mine = Value(got[p]), theirs = ranking_.sorted ? Value(want[p]) : last;
      if (!ranking_.sorted && sign * mine >= sign * theirs) continue;
      worst = std::min(worst, Near(mine, theirs));
    }
    return worst;
  }

 private:
  double Value(double index) const { return values_[static_cast<int64_t>(index)]; }

  Nearness Near(double mine, double theirs) const {
    if (mine == theirs) return Nearness::kRounding;
    const double off = std::abs(mine - theirs), size = std::abs(theirs);
    if (ranking_.given || !graph::IsFloat(ranking_.type) || !std::isfinite(off))
      return Nearness::kFar;
    if (off <= oracle::ErrorFloor(ranking_.type) * size) return Nearness::kRounding;
    const double allowed = tolerance_.absolute * std::min(1.0, size) + tolerance_.relative * size;
    return off <= allowed ? Nearness::kTolerance : Nearness::kFar;
  }

  const double* const values_;
  const oracle::Ranking& ranking_;
  const Tolerance& tolerance_;
};

// Where the reference's indexes are; empty: not all are there.
std::vector<int> PlacesIn(absl::Span<const double> got, absl::Span<const double> want) {
  std::vector<int> from;
  for (double index : want) {
    const auto found = std::find(got.begin(), got.end(), index);
    if (found == got.end()) return {};
    from.push_back(static_cast<int>(found - got.begin()));
  }
  return from;
}

}  // namespace

std::vector<RightRow> RightRows(const oracle::Ranking& ranking, const Tolerance& tolerance,
                                int64_t places, absl::Span<const double> got,
                                absl::Span<const double> want) {
  const int64_t rows = std::ssize(got) / places;
  std::vector<RightRow> right, loose;
  for (int64_t r = 0; r < rows; ++r) {
    const auto mine = got.subspan(r * places, places), theirs = want.subspan(r * places, places);
    if (mine == theirs) continue;
    const Row row(ranking, tolerance, r);
    if (!row.AreIndexes(mine) || !row.AreIndexes(theirs)) continue;
    const Nearness near = row.Of(mine, theirs);
    if (near == Nearness::kFar) continue;
    (near == Nearness::kRounding ? right : loose).push_back({r, PlacesIn(mine, theirs)});
  }
  if (std::ssize(loose) <= 1 + rows / kRowsPerLoose)
    right.insert(right.end(), loose.begin(), loose.end());
  const auto other = [](const RightRow& row) { return row.from.empty(); };
  if (std::count_if(right.begin(), right.end(), other) > 1 + rows / kRowsPerOther)
    right.erase(std::remove_if(right.begin(), right.end(), other), right.end());
  return right;
}

}  // namespace warpsmith::judge
