#include "runtime/observe/metrics.h"

#include <algorithm>

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
std::string label_text(const MetricLabels& labels) {
  std::string out;
  for (const auto& [key, value] : labels)
    out += cat(out.empty() ? "" : ",", key, "=\"", escaped(value), "\"");
  return out.empty() ? out : cat("{", out, "}");
}

}  // namespace

// Under the lock.
Metrics::Family& Metrics::family(const std::string& name, const std::string& help,
                                 const MetricLabels& labels) {
  GW_REQUIRE(is_name(name), "metric \"", name, "\": a name has letters, digits and underscores");
  for (const auto& [key, value] : labels)
    GW_REQUIRE(is_name(key), "metric ", name, ": label \"", key,
               "\" has other characters than letters, digits and underscores");
  return families_.try_emplace(name, Family{help, {}, {}}).first->second;
}

Counter& Metrics::counter(const std::string& name, const std::string& help,
                          const MetricLabels& labels) {
  std::lock_guard lock(mutex_);
  Family& of = family(name, help, labels);
  GW_REQUIRE(of.gauges.empty(), "metric ", name, ": is a gauge");
  std::unique_ptr<Counter>& counter = of.counters[labels];
  if (counter == nullptr) counter = std::make_unique<Counter>();
  return *counter;
}

Gauge& Metrics::gauge(const std::string& name, const std::string& help,
                      const MetricLabels& labels) {
  std::lock_guard lock(mutex_);
  Family& of = family(name, help, labels);
  GW_REQUIRE(of.counters.empty(), "metric ", name, ": is a counter");
  std::unique_ptr<Gauge>& gauge = of.gauges[labels];
  if (gauge == nullptr) gauge = std::make_unique<Gauge>();
  return *gauge;
}

std::string Metrics::to_prometheus() const {
  std::lock_guard lock(mutex_);
  std::string out;
  for (const auto& [name, family] : families_) {
    const char* kind = family.gauges.empty() ? "counter" : "gauge";
    out += cat("# HELP ", name, " ", escaped(family.help), "\n# TYPE ", name, " ", kind, "\n");
    for (const auto& [labels, counter] : family.counters)
      out += cat(name, label_text(labels), " ", counter->value(), "\n");
    for (const auto& [labels, gauge] : family.gauges)
      out += cat(name, label_text(labels), " ", gauge->value(), "\n");
  }
  return out;
}

}  // namespace gangway
