// Training in its smallest form: state, a gradient, an update. Fits y = 3x - 1 by gradient descent.
#include <cstdio>
#include <vector>

#include "gangway.h"

namespace gw = gangway;

gw::Value squared_error(const gw::Tree& line, gw::Value x, gw::Value y) {
  return gw::mean(gw::square(x * line["slope"] + line["offset"] - y));
}

gw::Program fit_line(const gw::Mesh& mesh) {
  gw::ProgramBuilder b("fit_line", mesh);
  gw::StateTree start;
  start.set("slope", gw::zeros(gw::f32()));
  start.set("offset", gw::zeros(gw::f32()));
  gw::Tree line = b.state("line", start);
  gw::Value x = b.input("x", gw::f32({8}), {{"data", gw::shard(0)}});
  gw::Value y = b.input("y", gw::f32({8}), {{"data", gw::shard(0)}});
  gw::Value rate = b.input("rate", gw::f32());  // A run-time input: changing it never recompiles.
  auto [loss, grads] = gw::value_and_grad(squared_error)(line, x, y);
  for (const char* name : {"slope", "offset"})
    b.update(line[name], line[name] - rate * grads[name]);
  b.output("loss", loss);
  return b.build();
}

int main() try {
  gw::Client client = gw::connect("local:2x1");  // Two executor processes with one device each.
  gw::Slice slice = client.allocate({.devices = 2});
  gw::Mesh mesh = slice.mesh({{"data", 2}});
  gw::Executable step = slice.compile(fit_line(mesh));

  std::vector<float> xs, ys;
  for (int i = 0; i < 8; ++i) {
    xs.push_back(static_cast<float>(i) / 4 - 1);
    ys.push_back(3 * xs.back() - 1);
  }
  gw::Array x = slice.from_host(gw::HostTensor::of<float>({8}, xs));
  gw::Array y = slice.from_host(gw::HostTensor::of<float>({8}, ys));
  for (int i = 0; i < 200; ++i) step.run({{"x", x}, {"y", y}, {"rate", 0.2f}});

  std::printf("slope %.3f offset %.3f\n", slice.read_state("line.slope").as<float>()[0],
              slice.read_state("line.offset").as<float>()[0]);
} catch (const gw::Error& error) {
  return gw::report(error);
}
// Prints:
// slope 3.000 offset -1.000
