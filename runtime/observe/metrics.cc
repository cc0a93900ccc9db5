#include "runtime/observe/metrics.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>

#include "runtime/base/error.h"
#include "runtime/base/quote.h"

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

// `quotes`: whether quotes are escaped too, as in labels.
std::string escaped(std::string_view text, bool quotes) {
  const bool is_text = internal::is_utf8(text);
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      out += "\\n";
    } else if (!is_text && (byte < ' ' || byte > '~')) {
      constexpr char kDigits[] = "0123456789abcdef";
      out += cat("\\\\x", kDigits[byte / 16], kDigits[byte % 16]);
    } else {
      if (c == '\\' || (c == '"' && quotes)) out += '\\';
      out += c;
    }
  }
  return out;
}

// {a="1",b="2"}, or nothing.
std::string label_text(const MetricLabels& labels) {
  std::string out;
  for (const auto& [key, value] : labels)
    out += cat(out.empty() ? "" : ",", key, "=\"", escaped(value, true), "\"");
  return out.empty() ? out : cat("{", out, "}");
}

}  // namespace

void MetricsPage::begin(std::string_view name, std::string_view help, MetricKind kind) {
  name_ = name;
  text_ += cat("# HELP ", name, " ", escaped(help, false), "\n# TYPE ", name, " ",
               kind == MetricKind::kCounter ? "counter" : "gauge", "\n");
}

void MetricsPage::add(const MetricLabels& labels, double value) {
  if (std::isnan(value)) return add_text(labels, "NaN");
  if (std::isinf(value)) return add_text(labels, value > 0 ? "+Inf" : "-Inf");
  char digits[64];
  const auto end = std::to_chars(std::begin(digits), std::end(digits), value).ptr;
  add_text(labels, std::string_view(digits, end));
}

void MetricsPage::add(const MetricLabels& labels, uint64_t value) {
  add_text(labels, std::to_string(value));
}

void MetricsPage::add_text(const MetricLabels& labels, std::string_view value) {
  text_ += cat(name_, label_text(labels), " ", value, "\n");
}

// The caller holds the lock.
Metrics::Family& Metrics::family(const std::string& name, const std::string& help,
                                 const MetricLabels& labels) {
  GW_REQUIRE(is_name(name), "metric \"", name, "\": a name has letters, digits and underscores");
  for (const auto& [key, value] : labels)
    GW_REQUIRE(is_name(key), "metric ", name, ": label \"", key,
               "\" has other characters than letters, digits and underscores");
  return families_.try_emplace(name, Family{help, {}, {}}).first->second;
}

Counter Metrics::counter(const std::string& name, const std::string& help,
                         const MetricLabels& labels) {
  std::lock_guard lock(mutex_);
  Family& of = family(name, help, labels);
  GW_REQUIRE(of.gauges.empty(), "metric ", name, ": is a gauge");
  return of.counters[labels];
}

Gauge Metrics::gauge(const std::string& name, const std::string& help, const MetricLabels& labels) {
  std::lock_guard lock(mutex_);
  Family& of = family(name, help, labels);
  GW_REQUIRE(of.counters.empty(), "metric ", name, ": is a counter");
  return of.gauges[labels];
}

void Metrics::forget(const std::string& label, const std::string& value) {
  const auto is_of = [&](const auto& series) {
    const auto at = series.first.find(label);
    return at != series.first.end() && at->second == value;
  };
  std::lock_guard lock(mutex_);
  for (auto& [name, family] : families_) {
    std::erase_if(family.counters, is_of);
    std::erase_if(family.gauges, is_of);
  }
  std::erase_if(families_, [](const auto& item) {
    return item.second.counters.empty() && item.second.gauges.empty();
  });
}

size_t Metrics::series() const {
  std::lock_guard lock(mutex_);
  size_t count = 0;
  for (const auto& [name, family] : families_)
    count += family.counters.size() + family.gauges.size();
  return count;
}

std::string Metrics::to_prometheus(const IsShown& is_shown) const {
  std::lock_guard lock(mutex_);
  MetricsPage page;
  for (const auto& [name, family] : families_) {
    const MetricKind kind = family.gauges.empty() ? MetricKind::kCounter : MetricKind::kGauge;
    page.begin(name, family.help, kind);
    const auto shown = [&, k = kind](const MetricLabels& labels) {
      return !is_shown || is_shown(k, labels);
    };
    for (const auto& [labels, counter] : family.counters)
      if (shown(labels)) page.add(labels, counter.value());
    for (const auto& [labels, gauge] : family.gauges)
      if (shown(labels)) page.add(labels, static_cast<double>(gauge.value()));
  }
  return page.text();
}

}  // namespace gangway
