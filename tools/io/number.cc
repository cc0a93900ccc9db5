#include "tools/io/number.h"

#include <charconv>
#include <cstdio>
#include <optional>
#include <type_traits>

#include "runtime/base/cut.h"
#include "runtime/base/error.h"
#include "runtime/base/printable.h"

namespace gangway::tool {
namespace {

constexpr size_t kShownBytesMax = 40;

std::string got(const std::string& text) {
  return cat("got \"", printable(cut(text, kShownBytesMax)), "\"");
}

// Whether the text is like "0100", which a user may mean as an octal number.
bool has_leading_zero(const std::string& text) {
  const size_t first = text.starts_with('-') ? 1 : 0;
  return text.size() > first + 1 && text[first] == '0';
}

// Converts the whole text to a number of this type; empty if it is no number, or the type can't
// hold it.
template <class Number>
std::optional<Number> parse(const std::string& text) {
  if (std::is_integral_v<Number> && has_leading_zero(text)) return std::nullopt;
  Number value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end) return std::nullopt;
  return value;
}

std::string shown(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.10g", value);
  return text;
}

template <class Number>
CLI::Validator validator(const char* what, const std::string& range,
                         std::function<bool(Number)> fits) {
  const auto check = [what, range, fits = std::move(fits)](std::string& text) -> std::string {
    const std::optional<Number> value = parse<Number>(text);
    if (value && fits(*value)) return {};
    return cat("expected ", what, ", ", range, ", ", got(text));
  };
  return CLI::Validator(check, range);
}

}  // namespace

CLI::Validator whole_number(int64_t low, int64_t high) {
  return validator<int64_t>("a whole number", cat(low, " to ", high),
                            [low, high](int64_t value) { return value >= low && value <= high; });
}

// nan is outside of every range, since its comparisons are false.
CLI::Validator real_number(double low, double high) {
  return validator<double>("a number", cat(shown(low), " to ", shown(high)),
                           [low, high](double value) { return value >= low && value <= high; });
}

CLI::Validator positive_number(double high) {
  return validator<double>("a number", cat("above 0, up to ", shown(high)),
                           [high](double value) { return value > 0 && value <= high; });
}

int64_t number_in(const std::string& text, const std::string& of, int64_t low, int64_t high) {
  const std::optional<int64_t> value = parse<int64_t>(text);
  GW_REQUIRE(value && *value >= low && *value <= high, of, ": expected a whole number, ", low,
             " to ", high, ", ", got(text));
  return *value;
}

}  // namespace gangway::tool
