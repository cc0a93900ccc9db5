// SectionTimes: time that each position of a plan's slice takes on each of its devices, by
// measurement where there is one and by the cost model until then.
//
// A measured time is an average that forgets: a quarter of it is new. The time that several
// positions took together is shared out in the ratio of their times so far. The model knows the
// ratios between sections better than it knows the machine, so once some sections of the slice were
// measured, the others count by the model times the error that it had.
//
// Threads: a value on the reactor's thread.
// Cost: O(1); measured(): O(positions measured), but O(1) for whole runs once all were.
#pragma once

#include <cstdint>
#include <vector>

namespace gangway {

class SectionTimes {
 public:
  // The model's error is known after this many measured sections.
  static constexpr uint32_t kCalibrated = 8;

  // Modelled times by position; 0: nothing that occupies a device, which needs no measurement.
  explicit SectionTimes(std::vector<int64_t> modelled_ns);

  uint32_t count() const { return static_cast<uint32_t>(positions_.size()); }
  int64_t ns(uint32_t position) const;
  bool is_measured(uint32_t position) const;
  // Whether ns() is better than the bare model.
  bool is_known(uint32_t position) const;
  int64_t total_ns() const;
  // Notes that the positions first .. end - 1 took this long.
  void measured(uint32_t first, uint32_t end, int64_t busy_ns);

 private:
  struct Position {
    double ns = 0;  // Modelled until it is measured; then times scale_.
    bool is_measured = false;
  };
  void measured_whole(double busy_ns);
  void measured_one(Position& position, double busy_ns);
  double now_ns(const Position& position) const;
  double error() const;  // Factor of the model: measured by modelled.

  std::vector<Position> positions_;
  uint32_t not_measured_ = 0;                      // How many of positions_.
  double measured_ns_ = 0, modelled_ns_ = 0;       // Sums over positions_.
  double scale_ = 1;                               // Factor of all positions that were measured.
  double sample_ns_ = 0, sample_modelled_ns_ = 0;  // Sums of the first measurements of sections.
  uint32_t samples_ = 0;
};

}  // namespace gangway
