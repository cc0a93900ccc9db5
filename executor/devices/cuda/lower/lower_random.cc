#include "executor/devices/cuda/kernels/strided_view.h"
#include "executor/devices/cuda/lower/lower.h"
#include "executor/devices/lower/random_part.h"

namespace gangway::cuda {

void lower_random(Lowering& call) {
  const RandomPart part(call);
  const Type& y = call.out();
  StridedView view;
  const auto add = [&](int64_t size, int64_t stride) {
    if (view.rank == kViewRankMax) call.refuse(cat("more than ", kViewRankMax, " dimensions"));
    view.sizes[view.rank] = size;
    view.source[view.rank++] = stride;
  };
  for (size_t d = 0; d < part.sizes().size(); ++d) add(part.sizes()[d], part.strides()[d]);
  add(part.cols(), 1);
  const std::vector<int64_t> firsts = part.firsts();
  const char* kernel = call.op() == Op::random_normal ? "normal_" : "uniform_";
  call.launch_flat(cat(kernel, to_string(y.dtype)), y.elements(),
                   {call.read(0), call.write(0),
                    firsts.size() == 1 ? value(firsts[0]) : value_by_device(firsts), value(view)});
}

}  // namespace gangway::cuda
