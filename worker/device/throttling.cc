#include "worker/device/throttling.h"

#include <utility>

namespace warpsmith::device {

Throttling operator-(const Throttling& later, const Throttling& earlier) {
  return {later.power - earlier.power, later.heat - earlier.heat, later.board - earlier.board,
          later.reliability - earlier.reliability};
}

bool Disturbs(const Throttling& during) {
  return during.heat > 0 || during.board > 0 || during.reliability > 0;
}

std::string WordsOf(const Throttling& during) {
  std::string words;
  for (const auto& [seconds, word] : {std::pair(during.heat, "heat"),
                                      {during.board, "board"},
                                      {during.reliability, "reliability"},
                                      {during.power, "power"}}) {
    if (seconds <= 0) continue;
    if (!words.empty()) words += ", ";
    words += word;
  }
  return words;
}

}  // namespace warpsmith::device
