// What holds a card's clock down, and for how long it did.
#pragma once

#include <string>

namespace warpsmith::device {

// Seconds since the driver was loaded; they only grow.
struct Throttling {
  double power = 0;        // the card is at its power limit, as heavy products are on any
  double heat = 0;         // it is too hot
  double board = 0;        // the board's power supply or the machine asks for it
  double reliability = 0;  // its voltage is held
};

Throttling operator-(const Throttling& later, const Throttling& earlier);
// Whether times taken meanwhile are the machine's trouble and not the kernel's.
bool Disturbs(const Throttling& during);
// "heat, power"; empty: nothing did.
std::string WordsOf(const Throttling& during);

}  // namespace warpsmith::device
