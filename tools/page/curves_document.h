// The loss and the speed of a training over its steps, as JSON: the field "curves" of the page's
// document (docs/page_document.md).
//
// Threads: pure. Cost: linear in the points.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gangway::tool {

struct CurvePoint {
  int64_t step = 0;
  float loss = 0;
  double tokens_per_s = 0;
};

inline constexpr size_t kCurvePointsMax = 16'384;

// At most `most`, and at least 2, of the points, in their order, the first and the last among them:
// of parts of equally many steps, those with the least and the greatest loss, so that no peak is
// lost. What is not finite counts as the greatest.
std::vector<CurvePoint> thinned(const std::vector<CurvePoint>& points, size_t most);

// Of one training, with at most kCurvePointsMax points.
std::string curves_document(const std::string& name, const std::vector<CurvePoint>& points);

}  // namespace gangway::tool
