// Numbers of the command line: each option names the range that it takes, and refuses all else.
//
// A text that is not wholly a number, that is not a number (nan), or that lies outside the range is
// refused before it is converted, so that no conversion rounds it to a number that a type can hold.
// The range is part of an option's help. CLI11's own checks are not used: they take nan, and print
// the limits of a type with 309 digits.
//
// Threads: pure functions.
// Errors: number_in() throws kInvalid.
//
// An option of --steps is given check(whole_number(1, 1'000'000)).
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <string>

namespace gangway::tool {

// Limit for counts of steps, runs, bytes or seconds that nothing else limits.
inline constexpr int64_t kCountMax = 1'000'000'000'000;

// These take numbers from `low` to `high`, both included.
CLI::Validator whole_number(int64_t low, int64_t high);
CLI::Validator real_number(double low, double high);
// Takes numbers above 0, up to `high`.
CLI::Validator positive_number(double high);

// Converts a whole number that is a part of a longer text. Errors name `of`.
int64_t number_in(const std::string& text, const std::string& of, int64_t low, int64_t high);

}  // namespace gangway::tool
