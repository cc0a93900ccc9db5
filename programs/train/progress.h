// Shows how far a long job is: on a terminal one live line that ends with the course of the loss,
// elsewhere a plain line at most every 5 s.
//
// Threads: one at a time. Writes to standard error, so that standard output stays machine-readable.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "programs/train/sparkline.h"

namespace gangway::programs {

struct ProgressLine {
  int64_t step = 0;
  int64_t steps = 0;
  double loss = 0;        // Loss of this step.
  double train_loss = 0;  // Mean over the last steps.
  std::optional<double> heldout_loss;
  double tokens_per_s = 0;
  // With experts: the busiest one's load over the even share; 1 is balanced.
  std::optional<double> balance;
  double seconds_left = 0;
};

std::string to_string(const ProgressLine& line);

// Returns the same with the losses so far, in at most `columns` columns. Parts that have no room
// are left out, the experts' balance first.
std::string live_text(const ProgressLine& line, const Sparkline& losses, size_t columns, bool utf8);

// Returns the busiest expert's load over the even share, in the worst layer; 0 if no layer has
// experts. `load`: f32[layers that have experts, most experts of a layer], as a training step gives
// it. `experts`: number of experts of each layer, 0 if it is dense.
double busiest_expert(std::span<const float> load, const std::vector<int64_t>& experts);

class Progress {
 public:
  // Live if standard error is a terminal.
  Progress();
  explicit Progress(bool live) : live_(live) {}
  ~Progress();  // Ends a live line.

  // From now on `log` gets the lines that are shown elsewhere than on a terminal, also on a
  // terminal.
  void log_to(std::function<void(const std::string&)> log) { log_ = std::move(log); }

  // Called once for each step, in the order of steps.
  void show(const ProgressLine& line, double now_s);
  // Shows what a compile that began at `since_s` does; on a terminal only once it has taken 2 s.
  void show_compile(const std::string& what, double part, double since_s, double now_s);
  // Shows that the job waits for devices, and who holds them.
  void show_wait(const std::string& what, double now_s);
  // Writes a line of its own, such as a finished stage.
  void note(const std::string& text);

 private:
  bool live_;
  bool utf8_ = is_utf8_terminal();
  Sparkline losses_;
  bool open_ = false;
  bool passing_ = false;  // The open line shows a compile or a wait, and need not stay.
  double shown_s_ = -1e9, logged_s_ = -1e9;
  std::function<void(const std::string&)> log_;
};

}  // namespace gangway::programs
