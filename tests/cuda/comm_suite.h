// Suite for communicators of the driver's table, emulated or real: one member for each card.
//
//   CardComms   collectives and messages, in streams and inside graphs; abort, and a new start
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/cuda/card.h"

namespace gangway {

struct CommMaker {
  std::string name;
  std::function<std::string()> why_missing;
  // The cards of the members, by rank.
  std::function<std::vector<Card>()> make;
};
inline void PrintTo(const CommMaker& maker, std::ostream* out) { *out << maker.name; }

class CardComms : public testing::TestWithParam<CommMaker> {
 protected:
  void SetUp() override {
    if (const std::string why = GetParam().why_missing(); !why.empty()) GTEST_SKIP() << why;
  }
};

}  // namespace gangway
