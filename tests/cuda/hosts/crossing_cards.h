// The crossing programs of tests/support/crossing.h on emulated cards: two islands of two hosts
// with two cards each.
//
// Threads: the caller's is the reactor.
#pragma once

#include <string>

#include "tests/support/crossing.h"

namespace gangway {

struct CrossingCards {
  int runs = 0;  // Each client sends so many.
  std::string policy = "fair";
};

struct CrossedCards : Crossed {
  std::string broken;    // Violation of the order in the logs.
  int64_t meetings = 0;  // Steps in the logs that all devices of a run do in one order.
  std::string reports;   // Errors that the cards found.
};

CrossedCards cross_cards(const CrossingCards& scene);

}  // namespace gangway
