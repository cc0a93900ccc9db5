// Suites for every card, emulated or real: each is instantiated with the makers of cards that a
// program has (tests/cuda, tests/cuda_module).
//
//   CardDriver    the driver's table: streams, events, graphs, a product, a chain, communicators of
//                 one member
//   CardOps       every op of the table against the reference interpreter, and composites against
//                 their decomposition on the same card
//   CardGraphs    commands that come again are replayed as one graph
//   CardHosts     training steps of a host whose devices share one card
//   CardTraining  a tiny language model, through client, controller and executor
//
// The conformance suites of devices and collectives lie in tests/conformance.
#pragma once

#include <gtest/gtest.h>

#include <tuple>

#include "ir/types/dtype.h"
#include "tests/cuda/card.h"

namespace gangway {

// A card and a type that stands for every float type an op leaves open.
class CardOps : public testing::TestWithParam<std::tuple<CardMaker, DType>> {
 protected:
  void SetUp() override {
    if (const std::string why = maker().why_missing(); !why.empty()) GTEST_SKIP() << why;
  }
  const CardMaker& maker() const { return std::get<0>(GetParam()); }
  DType dtype() const { return std::get<1>(GetParam()); }
};
inline std::string name_of(const testing::TestParamInfo<std::tuple<CardMaker, DType>>& info) {
  return std::get<0>(info.param).name + "_" + std::string(to_string(std::get<1>(info.param)));
}

class CardSuite : public testing::TestWithParam<CardMaker> {
 protected:
  void SetUp() override {
    if (const std::string why = GetParam().why_missing(); !why.empty()) GTEST_SKIP() << why;
  }
};
class CardDriver : public CardSuite {};
class CardGraphs : public CardSuite {};
class CardHosts : public CardSuite {};
class CardTraining : public CardSuite {};
inline std::string card_name(const testing::TestParamInfo<CardMaker>& info) {
  return info.param.name;
}

}  // namespace gangway
