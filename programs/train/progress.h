// How a long job shows itself: on a terminal one live line that ends with the course of the loss,
// elsewhere plain lines at most every `interval`.
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
  double loss = 0;        // Of this step.
  double train_loss = 0;  // Mean over the last steps.
  std::optional<double> heldout_loss;
  double tokens_per_s = 0;
  // Experts: the busiest one's load over the even share; 1 is balanced.
  std::optional<double> balance;
  double seconds_left = 0;
};

std::string to_string(const ProgressLine& line);

// The same with the losses so far, in at most so many columns: what has no room is left out, the
// experts' balance first.
std::string live_text(const ProgressLine& line, const Sparkline& losses, size_t columns, bool utf8);

// The busiest expert's load over the even share, in the worst layer; 0 where no layer has experts.
// load: f32[layers that have experts, most experts of a layer], as a training step gives it;
// `experts`: of each layer, 0 where it is dense.
double busiest_expert(std::span<const float> load, const std::vector<int64_t>& experts);

class Progress {
 public:
  // Decides by whether standard error is a terminal.
  Progress();
  explicit Progress(bool live) : live_(live) {}
  ~Progress();  // Ends a live line.

  // Gets, from now on, the lines that stand elsewhere than on a terminal, also on one.
  void log_to(std::function<void(const std::string&)> log) { log_ = std::move(log); }

  // Called once a step, in their order.
  void show(const ProgressLine& line, double now_s);
  // What a compile that began at `since_s` does; on a terminal, once it has taken two seconds.
  void show_compile(const std::string& what, double part, double since_s, double now_s);
  // That it waits for devices, and who holds them.
  void show_wait(const std::string& what, double now_s);
  // A line of its own: a finished stage.
  void note(const std::string& text);

 private:
  bool live_;
  bool utf8_ = is_utf8_terminal();
  Sparkline losses_;
  bool open_ = false;
  bool passing_ = false;  // The open line need not stay: it says what is compiled or waited for.
  double shown_s_ = -1e9, logged_s_ = -1e9;
  std::function<void(const std::string&)> log_;
};

}  // namespace gangway::programs
