// The smallest program: one tensor in, two out, on two devices of this machine.
#include <cstdio>

#include "gangway.h"

namespace gw = gangway;

int main() try {
  gw::Client client = gw::connect("local:1x2");  // One executor process with two devices.
  gw::Slice slice = client.allocate({.devices = 2});
  gw::Mesh mesh = slice.mesh({{"data", 2}});

  gw::ProgramBuilder b("hello", mesh);
  gw::Value x = b.input("x", gw::f32({4}), {{"data", gw::shard(0)}});
  b.output("y", x * 2.0 + 1.0);  // It stays on the devices.
  b.output("total", gw::sum(x));
  gw::Executable hello = slice.compile(b.build());

  gw::Run run = hello.run({{"x", gw::HostTensor::of<float>({4}, {1, 2, 3, 4})}});
  gw::HostTensor y = run["y"].to_host();  // Waits for the data; run() did not.
  for (float value : y.as<float>()) std::printf("%g ", value);
  std::printf("total %g\n", run["total"].item<float>());
} catch (const gw::Error& error) {
  return gw::report(error);
}
// Prints:
// 3 5 7 9 total 10
