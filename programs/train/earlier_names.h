// Names that earlier versions of Gangway gave to tensors in checkpoints, where today's differ: what
// reads a file looks for a tensor under its name, and then under these.
//
// Who renames what checkpoints hold adds the old name here, and to the test of tests/formats.
//
// Threads: pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gangway::programs {

// The newest first; empty: it never had another.
std::vector<std::string> earlier_names(std::string_view name);

}  // namespace gangway::programs
