// Names that earlier versions of Gangway gave to tensors in checkpoints, where they differ from
// today's. Code that reads a file looks for a tensor under its name, and then under these.
//
// A change that renames a tensor of checkpoints adds the old name here, and to the test of
// tests/formats.
//
// Threads: pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gangway::programs {

// Returns the earlier names, the newest first; empty: the tensor never had another name.
std::vector<std::string> earlier_names(std::string_view name);

}  // namespace gangway::programs
