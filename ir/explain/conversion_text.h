// A conversion that partition() inserted, in words: what became a collective, for whom, and what
// else could have been.
//
//   for %15 = add (model.cc:81): {model: partial} -> {}: all_reduce over model, each device sends
//   128.0 KiB, about 42.0 us
//     not from {data: shard(0)}, where it lies too: about 60.0 us
//
// Threads: a pure function.
#pragma once

#include <string>

#include "ir/transforms/compile_record.h"

namespace gangway {

// Lines behind `indent`.
std::string conversion_text(const CompileRecord& record, const ConversionRecord& conversion,
                            const std::string& indent);

// "%15 = add (model.cc:81)", "parameter "x"".
std::string value_text(const Function& function, ValueId value);

}  // namespace gangway
