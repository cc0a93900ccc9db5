// SectionTimes: how long each position of a plan's slice takes on each of its devices, by
// measurement where there is one and by the cost model until then.
//
// A measured time is an average that forgets: a quarter of it is new. What several positions took
// together is shared out as their times were so far. The model knows the ratios between sections
// better than it knows the machine, so once some sections of the slice were measured, the others
// count by the model times what the model was off by.
//
// Threads: a value on the reactor's thread.
// Cost: O(1); O(positions) for what was measured, but for whole runs once all positions were.
#pragma once

#include <cstdint>
#include <vector>

namespace gangway {

class SectionTimes {
 public:
  // After so many measured sections the model's error is known.
  static constexpr uint32_t kCalibrated = 8;

  // By position; 0: nothing that occupies a device, which needs no measurement.
  explicit SectionTimes(std::vector<int64_t> modelled_ns);

  uint32_t count() const { return static_cast<uint32_t>(positions_.size()); }
  int64_t ns(uint32_t position) const;
  bool is_measured(uint32_t position) const;
  // Whether ns() is better than the bare model.
  bool is_known(uint32_t position) const;
  int64_t total_ns() const;
  // The positions first .. end - 1 took so long.
  void measured(uint32_t first, uint32_t end, int64_t busy_ns);

 private:
  struct Position {
    double ns = 0;  // Modelled until it is measured; then by scale_.
    bool is_measured = false;
  };
  void measured_whole(double busy_ns);
  void measured_one(Position& position, double busy_ns);
  double now_ns(const Position& position) const;
  double error() const;  // Of the model: measured by modelled.

  std::vector<Position> positions_;
  uint32_t not_measured_ = 0;                      // Of positions_.
  double measured_ns_ = 0, modelled_ns_ = 0;       // Sums over positions_.
  double scale_ = 1;                               // Of all that were measured.
  double sample_ns_ = 0, sample_modelled_ns_ = 0;  // Of the first measurements of sections.
  uint32_t samples_ = 0;
};

}  // namespace gangway
