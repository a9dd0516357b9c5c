// A child process that is shown one card alone. PyTorch touches the first card that it sees,
// whichever it is told to work on: a context there, some 500 MB, that the other card's worker takes
// for a stranger's.
//
//   const ShownCard shown = ShowAlone("cuda:1");
//   auto child = base::Child::Start(arguments, shown.environment);   // which works on shown.name
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "worker/device/device.h"

namespace warpsmith::device {

struct ShownCard {
  std::string name;                                              // what the card is called there
  std::vector<std::pair<std::string, std::string>> environment;  // to add to the child's
};

// `name` among `cards`, those that this process is shown. What is no card among several ("host",
// "cpu", the only one, a slice, of which CUDA shows one) stays as it is.
ShownCard ShowAlone(const std::string& name, const std::vector<VisibleCard>& cards);
// Among ListCards().
ShownCard ShowAlone(const std::string& name);

}  // namespace warpsmith::device
