#include "tools/page/curves_document.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>

namespace gangway::tool {
namespace {

float height(const CurvePoint& point) {
  return std::isfinite(point.loss) ? point.loss : std::numeric_limits<float>::infinity();
}

bool is_lower(const CurvePoint& a, const CurvePoint& b) { return height(a) < height(b); }

// Returns a number with few digits: a float's shortest text is shorter than that of the same
// double.
nlohmann::json shortest(float value) {
  if (!std::isfinite(value)) return nullptr;
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g", static_cast<double>(value));
  for (int digits = 1; digits < 9; ++digits) {
    char fewer[32];
    std::snprintf(fewer, sizeof(fewer), "%.*g", digits, static_cast<double>(value));
    if (std::strtof(fewer, nullptr) == value) return std::strtod(fewer, nullptr);
  }
  return std::strtod(text, nullptr);
}

}  // namespace

std::vector<CurvePoint> thinned(const std::vector<CurvePoint>& points, size_t most) {
  if (points.size() <= most) return points;
  std::vector<CurvePoint> kept = {points.front()};
  const size_t inside = points.size() - 2, parts = most > 3 ? (most - 2) / 2 : 0;
  for (size_t part = 0; part < parts; ++part) {
    const auto from = points.begin() + 1 + static_cast<ptrdiff_t>(inside * part / parts);
    const auto to = points.begin() + 1 + static_cast<ptrdiff_t>(inside * (part + 1) / parts);
    const auto [least, greatest] = std::minmax_element(from, to, is_lower);
    kept.push_back(*std::min(least, greatest));
    if (least != greatest) kept.push_back(*std::max(least, greatest));
  }
  kept.push_back(points.back());
  return kept;
}

std::string curves_document(const std::string& name, const std::vector<CurvePoint>& points) {
  nlohmann::json curve = {{"name", name}, {"points", nlohmann::json::array()}};
  for (const CurvePoint& point : thinned(points, kCurvePointsMax)) {
    curve["points"].push_back({{"step", point.step},
                               {"loss", shortest(point.loss)},
                               {"tokens_per_s", std::round(point.tokens_per_s * 10) / 10}});
  }
  return nlohmann::json::array({curve}).dump(-1, ' ', false,
                                             nlohmann::json::error_handler_t::replace);
}

}  // namespace gangway::tool
