// Builds a case as a function, which tests run on some device, and compares its results.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/op_table/cases.h"

namespace gangway::op_table {

// A function of one node, with parameters and results of its own.
std::shared_ptr<Function> function_of(const OpCase& test, const std::vector<Literal>& inputs);

// Describes how the results of a case of type `of_case` differ from the reference. Empty if they
// are close enough.
std::string difference(const std::vector<Literal>& got, const std::vector<Literal>& want,
                       DType of_case);

// GW_TEST_SEED, or 1.
uint64_t case_seed();

}  // namespace gangway::op_table
