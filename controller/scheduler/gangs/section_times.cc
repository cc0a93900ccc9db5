#include "controller/scheduler/gangs/section_times.h"

#include <algorithm>
#include <cmath>

namespace gangway {

SectionTimes::SectionTimes(std::vector<int64_t> modelled_ns) {
  positions_.reserve(modelled_ns.size());
  for (int64_t ns : modelled_ns) {
    positions_.push_back({.ns = ns, .is_measured = ns == 0});
    modelled_ns_ += ns;
  }
}

double SectionTimes::error() const {
  return samples_ < kCalibrated ? 1.0 : sample_ns_ / sample_modelled_ns_;
}

int64_t SectionTimes::ns(uint32_t position) const {
  const Position& at = positions_[position];
  return at.is_measured ? at.ns : std::llround(static_cast<double>(at.ns) * error());
}

bool SectionTimes::is_measured(uint32_t position) const { return positions_[position].is_measured; }

bool SectionTimes::is_known(uint32_t position) const {
  return positions_[position].is_measured || samples_ >= kCalibrated;
}

int64_t SectionTimes::total_ns() const {
  return measured_ns_ + std::llround(static_cast<double>(modelled_ns_) * error());
}

void SectionTimes::measured(uint32_t first, uint32_t end, int64_t busy_ns) {
  if (busy_ns == 0) return;  // It was skipped.
  double expected = 0;
  for (uint32_t p = first; p < end; ++p) expected += static_cast<double>(ns(p));
  const double error_then = error();
  for (uint32_t p = first; p < end; ++p) {
    Position& position = positions_[p];
    const double part = expected == 0 ? 1.0 / (end - first)
                                      : static_cast<double>(position.ns) *
                                            (position.is_measured ? 1.0 : error_then) / expected;
    measured_one(position, static_cast<double>(busy_ns) * part);
  }
}

void SectionTimes::measured_one(Position& position, double busy_ns) {
  if (!position.is_measured) {
    sample_ns_ += std::max(busy_ns, 1.0);
    sample_modelled_ns_ += static_cast<double>(position.ns);
    ++samples_;
    modelled_ns_ -= position.ns;
    position = {.ns = std::llround(busy_ns), .is_measured = true};
    measured_ns_ += position.ns;
    return;
  }
  const int64_t before = position.ns;
  position.ns += std::llround((busy_ns - static_cast<double>(before)) / 4);
  measured_ns_ += position.ns - before;
}

}  // namespace gangway
