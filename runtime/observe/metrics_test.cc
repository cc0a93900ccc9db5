#include "runtime/observe/metrics.h"

#include <gtest/gtest.h>

#include <vector>

#include "runtime/base/error.h"
#include "runtime/os/thread.h"

namespace gangway {
namespace {

TEST(Metrics, PrintsThePrometheusTextFormat) {
  Metrics metrics;
  metrics.counter("runs_total", "Runs", {{"program", "a\"b"}}).add(3);
  metrics.counter("frames_total", "Frames").add(5);
  EXPECT_EQ(
      metrics.to_prometheus(),
      "# HELP frames_total Frames\n# TYPE frames_total counter\nframes_total 5\n"
      "# HELP runs_total Runs\n# TYPE runs_total counter\nruns_total{program=\"a\\\"b\"} 3\n");
}

TEST(Metrics, AGaugeMayFallAndIsNoCounter) {
  Metrics metrics;
  const Gauge gauge = metrics.gauge("suspects", "Hosts that are silent");
  gauge.set(2);
  gauge.set(-1);
  EXPECT_EQ(metrics.to_prometheus(),
            "# HELP suspects Hosts that are silent\n# TYPE suspects gauge\nsuspects -1\n");
  EXPECT_EQ(metrics.gauge("suspects", ""), gauge);
  EXPECT_THROW(metrics.counter("suspects", ""), Error);
  metrics.counter("runs_total", "");
  EXPECT_THROW(metrics.gauge("runs_total", ""), Error);
}

TEST(Metrics, OneNameWithOneSetOfLabelsIsOneCounter) {
  Metrics metrics;
  EXPECT_EQ(metrics.counter("a", ""), metrics.counter("a", ""));
  EXPECT_NE(metrics.counter("a", ""), metrics.counter("a", "", {{"k", "v"}}));
  EXPECT_THROW(metrics.counter("9a", ""), Error);
  EXPECT_THROW(metrics.counter("a", "", {{"k-k", "v"}}), Error);
}

TEST(Metrics, AForgottenSeriesIsNotShownThoughItsHandleStillCounts) {
  Metrics metrics;
  const Counter kept = metrics.counter("runs_total", "Runs", {{"host", "b"}});
  const Counter gone = metrics.counter("runs_total", "Runs", {{"host", "a"}, {"link", "x"}});
  metrics.gauge("suspect", "Silent", {{"host", "a"}}).set(1);
  EXPECT_EQ(metrics.series(), 3u);
  metrics.forget("host", "a");
  gone.add();
  kept.add(2);
  EXPECT_EQ(metrics.to_prometheus(),
            "# HELP runs_total Runs\n# TYPE runs_total counter\nruns_total{host=\"b\"} 2\n");
  EXPECT_EQ(metrics.series(), 1u);
  EXPECT_EQ(metrics.counter("runs_total", "Runs", {{"host", "a"}, {"link", "x"}}).value(), 0u);
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
