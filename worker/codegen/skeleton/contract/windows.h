// Convolutions as products of which one operand is windows of an image: places of windows are its
// rows, and what a window has are channels of some taps.
//
//   y[o, (n, p)] = sum of t, c: w[o, (t, c)] * x[n, stride * p + apart * t - padding, c]
//
// Written out window by window that operand is as many times the image as there are taps. On the
// tensor cores the image is written once instead, a row of channels for each of its places, and the
// copy engine brings the rows of a tile of windows moved by the tap that a step of K is of (im2col
// tensor maps). Where there are few channels a row has those of several taps, `together` of them
// along each axis, so that a step of K is not mostly zeros.
//
// Where windows move an element at a time the image may lie in planes of eight channels instead, of
// which a block brings what a tile's windows see once, and taps are shifts of that (shifts.cc).
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "warpsmith/v1/schedule.pb.h"
#include "worker/codegen/group/analysis.h"

namespace warpsmith::codegen {

struct ContractForm;

// What a product's B is: rows; or windows of an image, that the copy engine brings, that are read
// as they are an element at a time (direct.cc), or whose taps are shifts (shifts.cc).
enum class OfB { kRows, kWindows, kDirect, kShifts };

// Elements of K of a step, in 16 bits.
inline constexpr int64_t kWindowStep = 64;

// One of an image's axes. A window's tap has element stride * place + apart * tap of it, of which
// there are `elements` from `first` on: others are zero. Where windows begin to be anything is a
// row: of those that begin with an element between `begin` and `end`.
struct WindowAxis {
  int place = -1, tap = -1;      // of the domain; tap: -1, there is one
  bool backwards = false;        // taps count from the last
  int64_t places = 1, taps = 1;  // of windows; of a window
  int64_t stride = 1, apart = 1;
  int64_t first = 0, elements = 1;
  int64_t together = 1;  // taps whose channels a row has, a part of all
  // Whether a row has those of all taps, and so is a place's.
  bool whole() const { return together == taps; }
  int64_t begin() const { return std::max<int64_t>(0, first - (together - 1) * apart); }
  int64_t end() const {
    return std::min(stride * (places - 1) + apart * (taps - together), first + elements - 1);
  }
  int64_t rows() const { return whole() ? places : end() - begin() + 1; }
  // Of the window of place 0 at tap 0: its row, which may be before the first.
  int64_t lower() const { return whole() ? 0 : -begin(); }
  int64_t step() const { return whole() ? 1 : stride; }  // rows from a place to the next
  int64_t steps() const { return taps / together; }
  // Elements that so many places reach, with those outside of the image.
  int64_t reach(int64_t of_places) const {
    return (of_places - 1) * step() + apart * (taps - 1) + 1;
  }
};

struct Windows {
  std::vector<int> images, channels;  // axes of the domain, outermost first
  std::vector<WindowAxis> axes;       // likewise, one to three
  int64_t image_count = 1, channel_count = 1;
  int64_t batch = 1;  // groups of channels, each a product's
  OfB how = OfB::kWindows;

  // An axis by its number from the innermost on; of one that there is not, one place and one tap.
  WindowAxis axis(size_t from_last) const {
    return from_last < axes.size() ? axes[axes.size() - 1 - from_last] : WindowAxis();
  }
  int64_t inner() const;     // elements of a row that a product has
  int64_t unit() const;      // of them that a box brings: a step's or half of one
  int64_t group() const;     // from a product's elements to the next's
  int64_t line() const;      // elements from a row to the next
  bool staged() const;       // whether rows are put together before they are written
  int64_t rows() const;      // of all images
  int64_t elements() const;  // of the images, as they are
  int64_t depth() const;     // of K, whole steps
};

// The form's second operand as windows; none: InvalidArgument. `points`: of single elements, with
// an operand `b` in it. `batch`, `m`: of the product. `how`: not kRows.
absl::StatusOr<Windows> FindWindows(const Domain& domain, const Kernel& points, ValuePtr b,
                                    const ContractForm& form, OfB how);

// The image: the frame's outer is the batch, its row a row, its k an element of it, and its lanes
// are rows of one line.
absl::StatusOr<Kernel> BuildImage(const Analysis& group, const Domain& domain,
                                  const ContractForm& form, int width);
// Neighbouring rows that a thread reads together.
int ImageWidth(const Analysis& group, const Domain& domain, const ContractForm& form, int bytes);

// ws::Window of the form, as a type; of windows whose taps are shifts ws::Shifts of that.
std::string WindowText(const ContractForm& form, const v1::ContractKnobs& knobs);

}  // namespace warpsmith::codegen
