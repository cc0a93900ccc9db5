// Views of one small program, kept in tests/golden/inspect as they are printed.
//
// Threads: pure.
#pragma once

#include <string>

#include "ir/graph/program.h"

namespace gangway {

// Nine states, four layers in a scan, and a scope around the head.
Program golden_program();
// The golden program over a mesh with an axis "data", which cuts the batch.
Program with_batch_over(const Mesh& mesh);

// Expects that the file of this name holds the text. Prints the text if it does not.
void expect_golden(const std::string& file, const std::string& text);

}  // namespace gangway
