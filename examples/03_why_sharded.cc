// Shows what the compiler makes of a function, without any cluster: the code of one device, and the
// reason why a value is sharded as it is.
#include <cstdio>

#include "gangway.h"

namespace gw = gangway;

int main() try {
  gw::Mesh mesh{{{"data", 4}}};
  gw::Builder b("loss", mesh);
  gw::Value x = b.parameter("x", gw::f32({64, 16}), {{"data", gw::shard(0)}});
  gw::Value w = b.parameter("w", gw::f32({16, 16}));
  gw::Value loss = gw::mean(gw::square(gw::dot(x, w)));
  b.result("loss", loss);
  b.result("dw", gw::gradients(loss, std::vector<gw::Value>{w})[0]);
  gw::Function function = b.build();

  gw::Compiled compiled = gw::compile_function(function, {});
  std::printf("each device:");
  for (const gw::Node& node : compiled.local.function->nodes)
    std::printf(" %s", std::string(gw::to_string(node.op)).c_str());
  gw::Propagation why = gw::propagate_shardings(function, compiled.parameter_shardings);
  std::printf("\n%s", gw::explain(function, why, function.results[0]).c_str());
} catch (const gw::Error& error) {
  return gw::report(error);
}
// Prints:
// each device: dot mul reduce_sum constant fusion constant div fusion dot all_reduce
// %6 = div (03_why_sharded.cc:14) is partial on data
//   because %4 = reduce_sum (03_why_sharded.cc:14) is partial; through div at 03_why_sharded.cc:14
//   because %3 = mul (03_why_sharded.cc:14) is shard(0); through reduce_sum at 03_why_sharded.cc:14
//   because %2 = dot (03_why_sharded.cc:14) is shard(0); through mul at 03_why_sharded.cc:14
//   because parameter "x" is shard(0); through dot at 03_why_sharded.cc:14, as annotated
