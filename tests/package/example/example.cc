// A program outside Gangway's tree, which sees the installed files only. It fits a line to points
// on a cluster of two processes.
#include <cstdio>
#include <vector>

#include "gangway.h"

namespace gw = gangway;

// Mean square error of w x + b over all points: no device, rank or collective is named.
gw::Value loss_of(const gw::Tree& line, gw::Value x, gw::Value y) {
  return gw::mean(gw::square(x * line["w"] + line["b"] - y));
}

gw::Program fit_step(const gw::Mesh& mesh) {
  gw::ProgramBuilder b("fit_step", mesh);
  gw::StateTree start;
  start.set("w", gw::zeros(gw::f32()));
  start.set("b", gw::zeros(gw::f32()));
  gw::Tree line = b.state("line", start);
  gw::Value x = b.input("x", gw::f32({64}), {{"data", gw::shard(0)}});
  gw::Value y = b.input("y", gw::f32({64}), {{"data", gw::shard(0)}});
  gw::Value rate = b.input("rate", gw::f32());
  auto [loss, gradient] = gw::value_and_grad(loss_of)(line, x, y);
  for (const char* name : {"w", "b"}) b.update(line[name], line[name] - rate * gradient[name]);
  b.output("loss", loss);
  return b.build();
}

int main() try {
  gw::Client client = gw::connect("local:2x1", {.memory_bytes = 64 << 20});
  gw::Slice slice = client.allocate({.devices = 2});
  gw::Executable step = slice.compile(fit_step(slice.mesh({{"data", 2}})));
  std::vector<float> xs, ys;
  for (int i = 0; i < 64; ++i) {
    xs.push_back(static_cast<float>(i) / 32 - 1);
    ys.push_back(3 * xs.back() + 2);
  }
  const auto x = gw::HostTensor::of<float>({64}, xs), y = gw::HostTensor::of<float>({64}, ys);
  float loss = 0;
  for (int i = 0; i < 100; ++i) {
    gw::Run run = step.run({{"x", x}, {"y", y}, {"rate", 0.5f}});
    if (i == 99) loss = run["loss"].item<float>();  // Only this waits.
  }
  std::printf("y = %.3f x + %.3f, loss %.1e\n", slice.read_state("line.w").as<float>()[0],
              slice.read_state("line.b").as<float>()[0], loss);
} catch (const gw::Error& error) {
  return gw::report(error);
}
