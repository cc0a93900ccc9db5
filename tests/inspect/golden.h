// Views of one small program, kept in tests/golden/inspect as they are printed.
//
// Threads: pure.
#pragma once

#include <string>

#include "ir/graph/program.h"

namespace gangway {

// Nine states, four layers in a scan, and a scope around the head.
Program golden_program();
// It, over a mesh with an axis "data", along which the batch is cut.
Program with_batch_over(const Mesh& mesh);

// That the file of this name holds the text; what it ought to hold is printed where not.
void expect_golden(const std::string& file, const std::string& text);

}  // namespace gangway
