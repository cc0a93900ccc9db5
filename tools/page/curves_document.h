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

// Returns at most `most`, and at least 2, of the points, in their order, with the first and the
// last. The others are those with the least and the greatest loss of equally long parts, so that no
// peak is lost. A loss that is not finite counts as the greatest.
std::vector<CurvePoint> thinned(const std::vector<CurvePoint>& points, size_t most);

// Returns the document of one training, with at most kCurvePointsMax points.
std::string curves_document(const std::string& name, const std::vector<CurvePoint>& points);

}  // namespace gangway::tool
