// The functions of a compiled call as they were cut: every value with the sharding that was found
// for it, numbered as why() (why.h) names values.
//
// Threads: pure functions.
#pragma once

#include <map>

#include "ir/graph/function.h"
#include "ir/transforms/compile_record.h"

namespace gangway {

// How the function and each body in it, at any depth, is placed. Points into the record.
std::map<const Function*, const FunctionShardings*> placed_functions(const CompileRecord& record);

// The function with the shardings of its values, those of its bodies too: in the text form
// (ir/text/text.h) each type is followed by them.
Function with_shardings(const CompileRecord& record);

}  // namespace gangway
