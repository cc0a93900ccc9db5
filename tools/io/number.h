// Numbers of the command line: each says which ones it takes, and nothing else passes.
//
// A text that is not wholly a number, that is not a number (nan), or that lies outside is refused
// before anything converts it, so no conversion rounds it to what a type can hold. The range is
// part of an option's help. CLI11's own checks are not used: they take nan, and print the limits of
// a type with 309 digits.
//
// Threads: pure functions. Errors: number_in() throws kInvalid.
//
// An option of --steps is given check(whole_number(1, 1'000'000)).
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <string>

namespace gangway::tool {

// What a count of steps, runs, bytes or seconds may be at most, where nothing else limits it.
inline constexpr int64_t kCountMax = 1'000'000'000'000;

// Each from `low` to `high`, these included.
CLI::Validator whole_number(int64_t low, int64_t high);
CLI::Validator real_number(double low, double high);
// Above 0, up to `high`.
CLI::Validator positive_number(double high);

// A whole number in a text that is more than it; `of` is what an error names.
int64_t number_in(const std::string& text, const std::string& of, int64_t low, int64_t high);

}  // namespace gangway::tool
