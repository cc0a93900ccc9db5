#include "runtime/observe/metrics.h"

#include <algorithm>
#include <variant>

#include "runtime/base/error.h"

namespace gangway {
namespace {

bool is_name(const std::string& text) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !text.empty() && letter(text[0]) && std::all_of(text.begin(), text.end(), [&](char c) {
    return letter(c) || (c >= '0' && c <= '9');
  });
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out;
}

// {a="1",b="2"}, or nothing.
std::string label_text(const MetricLabels& labels, const std::string& more = "") {
  std::string out;
  for (const auto& [key, value] : labels)
    out += cat(out.empty() ? "" : ",", key, "=\"", escaped(value), "\"");
  if (!more.empty()) out += cat(out.empty() ? "" : ",", more);
  return out.empty() ? out : cat("{", out, "}");
}

void print(std::string& out, const std::string& name, const MetricLabels& labels,
           const Counter& c) {
  out += cat(name, label_text(labels), " ", c.value(), "\n");
}

void print(std::string& out, const std::string& name, const MetricLabels& labels, const Gauge& g) {
  out += cat(name, label_text(labels), " ", g.value(), "\n");
}

void print(std::string& out, const std::string& name, const MetricLabels& labels,
           const Histogram& h) {
  uint64_t below = 0;
  for (int i = 0; i <= Histogram::kBuckets; ++i) {
    below += h.bucket(i);
    const std::string bound = i < Histogram::kBuckets ? cat(Histogram::bound_s(i)) : "+Inf";
    out += cat(name, "_bucket", label_text(labels, cat("le=\"", bound, "\"")), " ", below, "\n");
  }
  out += cat(name, "_sum", label_text(labels), " ", h.sum_s(), "\n");
  out += cat(name, "_count", label_text(labels), " ", below, "\n");
}

}  // namespace

double Histogram::bound_s(int i) { return 1e-6 * static_cast<double>(int64_t{1} << i); }

void Histogram::observe_ns(int64_t ns) {
  int i = 0;
  while (i < kBuckets && ns > int64_t{1000} << i) ++i;
  buckets_[static_cast<size_t>(i)].fetch_add(1, std::memory_order_relaxed);
  sum_ns_.fetch_add(ns, std::memory_order_relaxed);
}

uint64_t Histogram::count() const {
  uint64_t sum = 0;
  for (const auto& bucket : buckets_) sum += bucket.load(std::memory_order_relaxed);
  return sum;
}

double Histogram::quantile_s(double q) const {
  const double wanted = q * static_cast<double>(count());
  double below = 0;
  for (int i = 0; i < kBuckets; ++i) {
    below += static_cast<double>(bucket(i));
    if (below >= wanted) return bound_s(i);
  }
  return bound_s(kBuckets);
}

struct Metrics::Family {
  std::string help;
  std::variant<std::map<MetricLabels, std::unique_ptr<Counter>>,
               std::map<MetricLabels, std::unique_ptr<Gauge>>,
               std::map<MetricLabels, std::unique_ptr<Histogram>>>
      metrics;
};

Metrics::Metrics() = default;
Metrics::~Metrics() = default;

template <class Metric>
Metric& Metrics::find(const std::string& name, const std::string& help,
                      const MetricLabels& labels) {
  using Map = std::map<MetricLabels, std::unique_ptr<Metric>>;
  GW_REQUIRE(is_name(name), "metric \"", name, "\": a name has letters, digits and underscores");
  for (const auto& [key, value] : labels)
    GW_REQUIRE(is_name(key), "metric ", name, ": label \"", key,
               "\" has other characters than letters, digits and underscores");
  std::lock_guard lock(mutex_);
  const auto [at, added] = families_.try_emplace(name, Family{help, Map{}});
  Map* metrics = std::get_if<Map>(&at->second.metrics);
  GW_REQUIRE(metrics != nullptr, "metric ", name, ": is already used for another type");
  std::unique_ptr<Metric>& metric = (*metrics)[labels];
  if (metric == nullptr) metric = std::make_unique<Metric>();
  return *metric;
}

Counter& Metrics::counter(const std::string& name, const std::string& help,
                          const MetricLabels& labels) {
  return find<Counter>(name, help, labels);
}
Gauge& Metrics::gauge(const std::string& name, const std::string& help,
                      const MetricLabels& labels) {
  return find<Gauge>(name, help, labels);
}
Histogram& Metrics::histogram(const std::string& name, const std::string& help,
                              const MetricLabels& labels) {
  return find<Histogram>(name, help, labels);
}

std::string Metrics::to_prometheus() const {
  constexpr const char* kTypes[] = {"counter", "gauge", "histogram"};
  std::lock_guard lock(mutex_);
  std::string out;
  for (const auto& [name, family] : families_) {
    out += cat("# HELP ", name, " ", escaped(family.help), "\n# TYPE ", name, " ",
               kTypes[family.metrics.index()], "\n");
    std::visit(
        [&out, &metric_name = name](const auto& metrics) {
          for (const auto& [labels, metric] : metrics) print(out, metric_name, labels, *metric);
        },
        family.metrics);
  }
  return out;
}

}  // namespace gangway
