#include "runtime/fibers/stretch_watch.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/environment.h"

namespace gangway::internal {
namespace {

constexpr int64_t kNsPerMs = 1'000'000;

int64_t limit_from_environment() {
  const std::optional<std::string> text = environment_value("GANGWAY_REACTOR_LIMIT_MS");
  return text ? std::max(0L, std::strtol(text->c_str(), nullptr, 10)) * kNsPerMs : 0;
}

}  // namespace

StretchWatch::StretchWatch()
    : limit_ns_(limit_from_environment()),
      schedstat_(open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)) {}

StretchWatch::~StretchWatch() {
  if (schedstat_ >= 0) close(schedstat_);
}

// Format: "<ns on a core> <ns that it waited for one> <times>".
int64_t StretchWatch::read_waited_ns() const {
  char text[96];
  const ssize_t bytes = schedstat_ < 0 ? -1 : pread(schedstat_, text, sizeof text, 0);
  if (bytes <= 0) return 0;
  std::string_view rest(text, static_cast<size_t>(bytes));
  rest.remove_prefix(std::min(rest.find(' ') + 1, rest.size()));
  int64_t waited_ns = 0;
  std::from_chars(rest.data(), rest.data() + rest.size(), waited_ns);
  return waited_ns;
}

void StretchWatch::begin(int64_t now_ns) {
  begin_ns_ = now_ns;
  if (now_ns - read_at_ns_ < kReadEveryNs) return;
  read_at_ns_ = now_ns;
  waited_ns_ = read_waited_ns();
}

void StretchWatch::end(int64_t now_ns) {
  if (now_ns - begin_ns_ <= longest_ns_) return;
  const int64_t before_ns = waited_ns_;
  waited_ns_ = read_waited_ns();
  read_at_ns_ = now_ns;
  const int64_t stretch_ns = now_ns - begin_ns_ - std::max<int64_t>(0, waited_ns_ - before_ns);
  longest_ns_ = std::max(longest_ns_, stretch_ns);
  if (limit_ns_ == 0 || stretch_ns <= limit_ns_) return;
  std::fprintf(stderr,
               "reactor: held up for %.1f ms: expected at most %.1f ms between two looks at its "
               "connections (GANGWAY_REACTOR_LIMIT_MS): whatever takes longer belongs on another "
               "thread\n",
               static_cast<double>(stretch_ns) / kNsPerMs,
               static_cast<double>(limit_ns_) / kNsPerMs);
  std::abort();
}

}  // namespace gangway::internal
