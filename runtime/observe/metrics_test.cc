#include "runtime/observe/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "runtime/base/error.h"
#include "runtime/os/thread.h"

namespace gangway {
namespace {

using testing::HasSubstr;

TEST(Metrics, PrintsThePrometheusTextFormat) {
  Metrics metrics;
  metrics.counter("runs_total", "Runs", {{"program", "a\"b"}}).add(3);
  metrics.gauge("memory_bytes", "Memory").set(1.5);
  EXPECT_EQ(
      metrics.to_prometheus(),
      "# HELP memory_bytes Memory\n# TYPE memory_bytes gauge\nmemory_bytes 1.5\n"
      "# HELP runs_total Runs\n# TYPE runs_total counter\nruns_total{program=\"a\\\"b\"} 3\n");
}

TEST(Metrics, HistogramBucketsAreCumulativeAndBoundTheQuantile) {
  Metrics metrics;
  Histogram& h = metrics.histogram("step_seconds", "Step");
  for (int i = 0; i < 99; ++i) h.observe_ns(3'000);
  h.observe_ns(1'000'000'000'000);
  EXPECT_EQ(h.quantile_s(0.5), 4e-6);
  EXPECT_EQ(h.count(), 100u);
  const std::string text = metrics.to_prometheus();
  EXPECT_THAT(text, HasSubstr("step_seconds_bucket{le=\"2e-06\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("step_seconds_bucket{le=\"4e-06\"} 99\n"));
  EXPECT_THAT(text, HasSubstr("step_seconds_bucket{le=\"+Inf\"} 100\n"));
  EXPECT_THAT(text, HasSubstr("step_seconds_count 100\n"));
}

TEST(Metrics, OneNameIsOneMetricOfOneType) {
  Metrics metrics;
  EXPECT_EQ(&metrics.counter("a", ""), &metrics.counter("a", ""));
  EXPECT_NE(&metrics.counter("a", ""), &metrics.counter("a", "", {{"k", "v"}}));
  EXPECT_THROW(metrics.gauge("a", ""), Error);
  EXPECT_THROW(metrics.counter("9a", ""), Error);
  EXPECT_THROW(metrics.counter("a", "", {{"k-k", "v"}}), Error);
}

TEST(Metrics, CountFromManyThreads) {
  Metrics metrics;
  {
    std::vector<Thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back("count", [&] {
        for (int i = 0; i < 10'000; ++i) metrics.counter("a", "").add();
      });
    }
  }
  EXPECT_EQ(metrics.counter("a", "").value(), 40'000u);
}

}  // namespace
}  // namespace gangway
