// Metrics: the counters and gauges of one process, printed in the Prometheus text format.
//
// The creator of a Metrics owns it (main, a test's cluster); there is no global registry. Asking
// again for the same name and labels gives the same counter or gauge.
// Threads: any; updates are one relaxed atomic.
// Ownership: a Counter or Gauge is a handle, which may outlive its series and the Metrics. Counts
// made after that are shown nowhere.
// Errors: kInvalid for a name that Prometheus does not allow, or that is already a metric of the
// other kind.
// Cost: update 2-5 ns; asking for one takes a lock: do it once.
//
// Example:
//   Counter runs = metrics.counter("gangway_runs_total", "Runs that ended", {{"host", "a"}});
//   runs.add();
//   std::string page = metrics.to_prometheus();
//   metrics.forget("host", "a");  // It will not come back.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace gangway {

using MetricLabels = std::map<std::string, std::string>;

enum class MetricKind : uint8_t { kCounter, kGauge };

// Writes a page in the text format, family by family. The values need not be in a Metrics.
class MetricsPage {
 public:
  // Begins a family, to which the series that follow belong. A page has each family once.
  void begin(std::string_view name, std::string_view help, MetricKind kind);
  // Labels are texts of any bytes: those that are not UTF-8 are written as "\\xff".
  void add(const MetricLabels& labels, double value);
  void add(const MetricLabels& labels, uint64_t value);
  void append(const std::string& page) { text_ += page; }
  const std::string& text() const { return text_; }

 private:
  void add_text(const MetricLabels& labels, std::string_view value);

  std::string name_, text_;
};

// A value that only grows. Copies share one count. A default-constructed Counter is shown nowhere.
class Counter {
 public:
  void add(uint64_t n = 1) const { value_->fetch_add(n, std::memory_order_relaxed); }
  uint64_t value() const { return value_->load(std::memory_order_relaxed); }
  // Equal if they share one count.
  friend bool operator==(const Counter&, const Counter&) = default;

 private:
  std::shared_ptr<std::atomic<uint64_t>> value_ = std::make_shared<std::atomic<uint64_t>>(0);
};

// Like Counter, for a value that may also fall.
class Gauge {
 public:
  void set(int64_t value) const { value_->store(value, std::memory_order_relaxed); }
  int64_t value() const { return value_->load(std::memory_order_relaxed); }
  friend bool operator==(const Gauge&, const Gauge&) = default;

 private:
  std::shared_ptr<std::atomic<int64_t>> value_ = std::make_shared<std::atomic<int64_t>>(0);
};

class Metrics {
 public:
  Counter counter(const std::string& name, const std::string& help,
                  const MetricLabels& labels = {});
  Gauge gauge(const std::string& name, const std::string& help, const MetricLabels& labels = {});
  // Drops all series in which this label has this value. O(series).
  void forget(const std::string& label, const std::string& value);
  size_t series() const;

  using IsShown = std::function<bool(MetricKind, const MetricLabels&)>;
  // The Prometheus text exposition format, sorted by name. `is_shown` selects the series; null:
  // all.
  std::string to_prometheus(const IsShown& is_shown = {}) const;

 private:
  struct Family {
    std::string help;
    // One of the two maps is empty.
    std::map<MetricLabels, Counter> counters;
    std::map<MetricLabels, Gauge> gauges;
  };
  Family& family(const std::string& name, const std::string& help, const MetricLabels& labels);

  mutable std::mutex mutex_;
  std::map<std::string, Family> families_;
};

}  // namespace gangway
