#include "programs/train/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "runtime/base/cat.h"
#include "runtime/base/printable.h"

namespace gangway::programs {
namespace {

constexpr double kLiveInterval = 0.2;
constexpr double kPlainInterval = 5.0;
constexpr double kPlainWaitInterval = 60.0;
constexpr double kCompileShownAfter = 2.0;
constexpr size_t kLossColumns = 40, kLeastLossColumns = 8;

// The next line would not replace a live line that is longer.
size_t terminal_columns() {
  winsize size{};
  const bool is_known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return is_known ? size.ws_col - 1u : 79;
}

std::string duration(double seconds) {
  const long whole = std::lround(seconds);
  char text[32];
  std::snprintf(text, sizeof(text), "%ld:%02ld", whole / 60, whole % 60);
  return text;
}

}  // namespace

double busiest_expert(std::span<const float> load, const std::vector<int64_t>& experts) {
  double busiest = 0;
  const auto width = static_cast<size_t>(std::ranges::max(experts));
  for (const int64_t count : experts) {
    if (count == 0) continue;
    const double most = std::ranges::max(load.first(width));
    busiest = std::max(busiest, most * static_cast<double>(count));
    load = load.subspan(width);
  }
  return busiest;
}

std::string to_string(const ProgressLine& line) {
  char text[160];
  std::snprintf(text, sizeof(text), "step %ld/%ld  train %.3f", static_cast<long>(line.step),
                static_cast<long>(line.steps), line.train_loss);
  std::string out = text;
  auto add = [&](const char* format, double value) {
    std::snprintf(text, sizeof(text), format, value);
    out += text;
  };
  if (line.heldout_loss) add("  held-out %.3f", *line.heldout_loss);
  add("  %.0f tokens/s", line.tokens_per_s);
  if (line.balance) add("  busiest expert %.2fx", *line.balance);
  return out + "  left " + duration(line.seconds_left);
}

std::string live_text(const ProgressLine& line, const Sparkline& losses, size_t columns,
                      bool utf8) {
  const auto has_room = [&](const std::string& text) {
    return text.size() + 2 + kLeastLossColumns <= columns;
  };
  std::string text = to_string(line);
  if (!has_room(text) && line.balance) {
    ProgressLine less = line;
    less.balance.reset();
    text = to_string(less);
  }
  if (!has_room(text)) return text.substr(0, columns);
  return text + "  " + losses.text(std::min(kLossColumns, columns - text.size() - 2), utf8);
}

Progress::Progress() : live_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (open_) std::fputc('\n', stderr);
}

void Progress::show(const ProgressLine& line, double now_s) {
  losses_.add(line.loss);
  bool last = line.step == line.steps;
  if (log_ && (last || now_s - logged_s_ >= kPlainInterval)) {
    logged_s_ = now_s;
    log_(to_string(line));
  }
  if (!last && now_s - shown_s_ < (live_ ? kLiveInterval : kPlainInterval)) return;
  shown_s_ = now_s;
  if (live_) {
    std::fprintf(stderr, "\r\033[K%s", live_text(line, losses_, terminal_columns(), utf8_).c_str());
    open_ = true;
    passing_ = false;
  } else {
    std::fprintf(stderr, "%s\n", to_string(line).c_str());
  }
  std::fflush(stderr);
}

void Progress::show_compile(const std::string& what, double part, double since_s, double now_s) {
  if (!live_ || now_s - since_s < kCompileShownAfter) return;
  std::fprintf(stderr, "\r\033[Kcompiling: %.0f %%  %s", 100 * part, printable(what).c_str());
  std::fflush(stderr);
  open_ = passing_ = true;
}

void Progress::show_wait(const std::string& what, double now_s) {
  if (!live_ && now_s - shown_s_ < kPlainWaitInterval) return;
  shown_s_ = now_s;
  const std::string text = cat("waiting for ", printable(what));
  if (live_) {
    std::fprintf(stderr, "\r\033[K%s", text.substr(0, terminal_columns()).c_str());
    open_ = passing_ = true;
  } else {
    std::fprintf(stderr, "%s\n", text.c_str());
  }
  std::fflush(stderr);
}

void Progress::note(const std::string& text) {
  if (log_) log_(text);
  if (open_) std::fputs(passing_ ? "\r\033[K" : "\n", stderr);
  open_ = passing_ = false;
  std::fprintf(stderr, "%s\n", printable_lines(text).c_str());
  std::fflush(stderr);
}

}  // namespace gangway::programs
