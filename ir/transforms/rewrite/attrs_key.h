// Attributes as text: equal texts mean equal attributes, so that maps can find nodes that are
// alike. It is not for people.
//
// Threads: a pure function.
#pragma once

#include <string>

#include "ir/types/attrs.h"

namespace gangway {

std::string attrs_key(const Attrs& attrs);

}  // namespace gangway
