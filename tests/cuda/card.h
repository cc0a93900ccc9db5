// A card to test the CUDA device on: an emulated one, or a real one where there is one.
//
// The suites of card_suites.h take a CardMaker, so that what is shown on every machine and what a
// GPU shows are the same tests.
//
// Ownership: a Card keeps what its driver needs alive.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include "executor/devices/cuda/driver/driver.h"

namespace gangway {

struct Card {
  std::shared_ptr<cuda::Driver> driver;
  // What was seen to be wrong; empty: nothing. A real card sees nothing.
  std::function<std::string()> report;
};

struct CardMaker {
  std::string name;
  // Why there is no such card here; empty: there is.
  std::function<std::string()> why_missing;
  std::function<Card()> make;
};
inline void PrintTo(const CardMaker& maker, std::ostream* out) { *out << maker.name; }

}  // namespace gangway
