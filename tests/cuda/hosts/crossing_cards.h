// The crossing programs of tests/support/crossing.h on emulated cards: two islands of two hosts
// with two cards each.
//
// Threads: the caller's is the reactor.
#pragma once

#include <string>

#include "tests/support/crossing.h"

namespace gangway {

struct CrossingCards {
  Crossing crossing;
  std::string policy = "fair";
  bool order_collectives = true;
};

struct CrossedCards : Crossed {
  std::string broken;   // The order, by what the devices wrote down.
  std::string reports;  // What the cards saw.
};

CrossedCards cross_cards(const CrossingCards& scene);

}  // namespace gangway
