#include "controller/scheduler/gangs/section_times.h"

#include <algorithm>
#include <cmath>

namespace gangway {

SectionTimes::SectionTimes(std::vector<int64_t> modelled_ns) {
  positions_.reserve(modelled_ns.size());
  for (int64_t ns : modelled_ns) {
    positions_.push_back({.ns = static_cast<double>(ns), .is_measured = ns == 0});
    modelled_ns_ += static_cast<double>(ns);
    not_measured_ += ns == 0 ? 0 : 1;
  }
}

double SectionTimes::error() const {
  return samples_ < kCalibrated ? 1.0 : sample_ns_ / sample_modelled_ns_;
}

double SectionTimes::now_ns(const Position& position) const {
  return position.ns * (position.is_measured ? scale_ : error());
}

int64_t SectionTimes::ns(uint32_t position) const {
  return std::llround(now_ns(positions_[position]));
}

bool SectionTimes::is_measured(uint32_t position) const { return positions_[position].is_measured; }

bool SectionTimes::is_known(uint32_t position) const {
  return positions_[position].is_measured || samples_ >= kCalibrated;
}

int64_t SectionTimes::total_ns() const {
  return std::llround(measured_ns_ + modelled_ns_ * error());
}

void SectionTimes::measured(uint32_t first, uint32_t end, int64_t busy_ns) {
  if (busy_ns == 0) return;  // The positions were skipped.
  const auto busy = static_cast<double>(busy_ns);
  if (end - first == count() && not_measured_ == 0 && measured_ns_ > 0) return measured_whole(busy);
  double expected = 0;
  for (uint32_t p = first; p < end; ++p) expected += now_ns(positions_[p]);
  const double error_then = error();
  for (uint32_t p = first; p < end; ++p) {
    Position& position = positions_[p];
    const double was = position.ns * (position.is_measured ? scale_ : error_then);
    measured_one(position, expected == 0 ? busy / (end - first) : busy * was / expected);
  }
}

// All times change alike, since the time is shared out in the ratio of the times so far.
void SectionTimes::measured_whole(double busy_ns) {
  const double before = measured_ns_;
  measured_ns_ += (busy_ns - before) / 4;
  scale_ *= measured_ns_ / before;
}

void SectionTimes::measured_one(Position& position, double busy_ns) {
  const double before = position.is_measured ? now_ns(position) : 0;
  double after = before + (busy_ns - before) / 4;
  if (!position.is_measured) {
    sample_ns_ += std::max(busy_ns, 1.0);
    sample_modelled_ns_ += position.ns;
    ++samples_;
    modelled_ns_ -= position.ns;
    --not_measured_;
    position.is_measured = true;
    after = busy_ns;
  }
  position.ns = after / scale_;
  measured_ns_ += after - before;
}

}  // namespace gangway
