// A card to test the CUDA device on: an emulated one, or a real one if the machine has one.
//
// The suites of card_suites.h take a CardMaker, so that the same tests run on every machine and on
// a GPU.
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
  // Errors that the card found; empty if none. A real card never reports any.
  std::function<std::string()> report;
};

struct CardMaker {
  std::string name;
  // Why this machine has no such card; empty if it has one.
  std::function<std::string()> why_missing;
  std::function<Card()> make;
};
inline void PrintTo(const CardMaker& maker, std::ostream* out) { *out << maker.name; }

}  // namespace gangway
