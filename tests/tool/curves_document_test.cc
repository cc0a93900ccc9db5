// The document that the page gets of a training's losses, also for a long training.
#include "tools/page/curves_document.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

namespace gangway {
namespace {

using tool::CurvePoint;

TEST(CurvesDocument, TheCurveOfAShortTrainingHasEachStep) {
  const std::vector<CurvePoint> points = {{7, 2.3f, 1000}, {8, std::nanf(""), 1001.26}};
  EXPECT_EQ(nlohmann::json::parse(tool::curves_document("a \"b\" \xff", points)),
            nlohmann::json::parse(R"([{"name": "a \"b\" \ufffd", "points": [
              {"step": 7, "loss": 2.3, "tokens_per_s": 1000},
              {"step": 8, "loss": null, "tokens_per_s": 1001.3}]}])"));
  EXPECT_EQ(tool::curves_document("none", {}), R"([{"name":"none","points":[]}])");
}

TEST(CurvesDocument, TheCurveOfALongTrainingKeepsEndsPeaksAndNonFiniteSteps) {
  std::vector<CurvePoint> points;
  for (int step = 1; step <= 100'000; ++step) points.push_back({step, 1.0f, 1});
  points[33'333].loss = 9;
  points[44'444].loss = 0.5f;
  points[55'555].loss = std::nanf("");
  const std::vector<CurvePoint> kept = tool::thinned(points, 1000);
  EXPECT_LE(kept.size(), 1000u);
  EXPECT_GT(kept.size(), 400u);
  EXPECT_EQ(kept.front().step, 1);
  EXPECT_EQ(kept.back().step, 100'000);
  int peaks = 0, valleys = 0, gaps = 0;
  for (const CurvePoint& point : kept) {
    peaks += point.loss == 9;
    valleys += point.loss == 0.5f;
    gaps += std::isnan(point.loss);
  }
  EXPECT_TRUE(std::ranges::is_sorted(kept, std::ranges::less(), &CurvePoint::step));
  EXPECT_EQ(peaks, 1);
  EXPECT_EQ(valleys, 1);
  EXPECT_EQ(gaps, 1);
  for (const size_t most : {2u, 3u, 4u, 5u}) EXPECT_LE(tool::thinned(points, most).size(), most);
}

}  // namespace
}  // namespace gangway
