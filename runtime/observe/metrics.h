// Metrics: counters, gauges and histograms of one process, printed in the Prometheus text format.
//
// Owned by whoever makes them (main, a test's cluster); no global registry. Asking again for the
// same name and labels gives the same metric. Threads: any; updates are one relaxed atomic.
// Ownership: references live as long as the Metrics. Errors: kInvalid for a name that Prometheus
// does not allow, or one that is used for two types. Cost: update 2-5 ns; asking for a metric takes
// a lock: do it once.
//
//   Counter& runs = metrics.counter("gangway_runs_total", "Runs that were started", {{"program",
//   "train"}}); runs.add(); std::string page = metrics.to_prometheus();
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace gangway {

using MetricLabels = std::map<std::string, std::string>;

class Counter {
 public:
  void add(uint64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

class Gauge {
 public:
  void set(double value) { value_.store(value, std::memory_order_relaxed); }
  void add(double delta) { value_.fetch_add(delta, std::memory_order_relaxed); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

// Buckets double from 1 us: le = 1e-6, 2e-6, 4e-6 ... 134 s. Values are seconds, as Prometheus
// wants them.
class Histogram {
 public:
  static constexpr int kBuckets = 28;

  void observe_ns(int64_t ns);
  uint64_t count() const;
  double sum_s() const {
    return static_cast<double>(sum_ns_.load(std::memory_order_relaxed)) * 1e-9;
  }
  // An upper bound of the quantile q in [0, 1], exact to a bucket.
  double quantile_s(double q) const;
  uint64_t bucket(int i) const {
    return buckets_[static_cast<size_t>(i)].load(std::memory_order_relaxed);
  }
  static double bound_s(int i);

 private:
  std::array<std::atomic<uint64_t>, kBuckets + 1> buckets_{};  // The last: all above.
  std::atomic<int64_t> sum_ns_{0};
};

class Metrics {
 public:
  Metrics();
  ~Metrics();

  Counter& counter(const std::string& name, const std::string& help,
                   const MetricLabels& labels = {});
  Gauge& gauge(const std::string& name, const std::string& help, const MetricLabels& labels = {});
  Histogram& histogram(const std::string& name, const std::string& help,
                       const MetricLabels& labels = {});

  // The Prometheus text exposition format, sorted by name.
  std::string to_prometheus() const;

 private:
  struct Family;
  template <class Metric>
  Metric& find(const std::string& name, const std::string& help, const MetricLabels& labels);

  mutable std::mutex mutex_;
  std::map<std::string, Family> families_;
};

}  // namespace gangway
