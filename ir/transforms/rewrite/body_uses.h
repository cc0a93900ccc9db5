// What is needed of the bodies of scans and calls: a result that nothing reads needs no operand,
// and a carry is needed only for what the last iteration gives of it or what iterations read of it.
//
// Threads: pure functions.
// Cost: a node for each time that a body is named, a few times over.
#pragma once

#include <functional>
#include <vector>

#include "ir/graph/function.h"

namespace gangway {

// By value: whether a result of the function needs it.
std::vector<bool> live_values(const Function& function);

// Which operands and results a scan or call must keep.
struct BodyUse {
  std::vector<bool> operands, results;
};
// `read`: by result, whether anything reads it.
BodyUse used_by(const Node& node, const std::vector<bool>& read);

// The function with these of its results, or these of its parameters, alone. The others must be
// unused.
Function keep_results(Function function, const std::vector<bool>& kept);
Function keep_parameters(const Function& function, const std::vector<bool>& kept);

// The function with every body of a scan or call, innermost first, as `pass` gives it; each body
// once.
Function map_bodies(const Function& function, const std::function<Function(Function)>& pass);

}  // namespace gangway
