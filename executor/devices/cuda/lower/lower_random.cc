#include "executor/devices/cuda/lower/lower.h"

namespace gangway::cuda {

void lower_random(Lowering& call) {
  const std::vector<int64_t>& offset = call.attrs().ints("offset");
  const Type& y = call.out();
  const char* kernel = call.op() == Op::random_normal ? "normal_" : "uniform_";
  call.launch_flat(cat(kernel, to_string(y.dtype)), y.elements(),
                   {call.read(0), call.write(0), value(offset.empty() ? int64_t{0} : offset[0]),
                    value(y.elements())});
}

}  // namespace gangway::cuda
