// Puts every node that writes state behind the commit point, so that all before it leaves state as
// it was.
//
// A node writes a state in place when it may (AdamW: element i of the new value needs only element
// i of the old) and nothing but earlier nodes reads the old value. Any other new value is computed
// first and copied behind the commit point (`barrier` whose result shares the state's buffer).
#pragma once

#include <vector>

#include "ir/plan/plan.h"

namespace gangway {

struct Ordered {
  Function function;
  NodeId commit_begin = 0;
};

Ordered order_commit(const Function& local, const std::vector<LocalFunction::InPlace>& in_place);

}  // namespace gangway
