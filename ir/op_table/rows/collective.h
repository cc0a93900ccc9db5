// Helpers of the rows of ops of local functions: rules of their attributes, and why none has a
// gradient.
//
// A type rule sees no mesh: the verifier checks that the axes are the function's, and that `parts`
// is the number of their members (ir/verify/verify_collective.cc).
#pragma once

#include <string_view>
#include <vector>

#include "ir/op_table/op.h"

namespace gangway::internal {

inline constexpr std::string_view kMadeLater = "the partitioner makes it, after differentiation";
inline constexpr std::string_view kByDistributedOps =
    "it exists in local functions alone, which are not differentiated";

// `attr` lists different mesh axes.
void need_axis_list(const OpCall& call, std::string_view attr);
// `reduction` names one.
void need_reduction(const OpCall& call);
// `parts`: 1 to as many devices as a mesh may have.
int64_t need_parts(const OpCall& call);
// `size` rows of `parts` parts of dimension `dim` of the first operand; what lies behind is
// dropped.
int64_t need_size(const OpCall& call, size_t dim, int64_t parts);

AttrSpec axes_attr();
AttrSpec parts_attr();
AttrSpec reduction_attr();

}  // namespace gangway::internal
