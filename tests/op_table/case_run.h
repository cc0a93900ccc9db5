// What runs a case on some device needs: the case as a function, and what counts as equal.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/op_table/cases.h"

namespace gangway::op_table {

// One node, with parameters and results of its own.
std::shared_ptr<Function> function_of(const OpCase& test, const std::vector<Literal>& inputs);

// What differs between the results of a case of type `of_case` and the reference; empty: nothing.
std::string difference(const std::vector<Literal>& got, const std::vector<Literal>& want,
                       DType of_case);

// Of GW_TEST_SEED, or 1.
uint64_t case_seed();

}  // namespace gangway::op_table
