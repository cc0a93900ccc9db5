// A program that goes on without its client: one client begins it and detaches, another attaches.
#include <cstdio>

#include "gangway.h"
#include "programs/optim/schedule.h"

namespace gw = gangway;

namespace {

// One step of gradient descent on (w - 3)^2. The number of the step chooses its learning rate.
gw::Program descent(const gw::Mesh& mesh) {
  gw::ProgramBuilder b("descent", mesh);
  gw::Value w = b.state("w", gw::zeros(gw::f32()));
  gw::Value lr = gw::programs::table(b.input("step", gw::f32()), {0.25, 0.25, 0.125, 0.25, 0.5});
  gw::Value gradient = (w - 3.0) * 2.0;
  gw::Value next = w - gradient * lr;
  b.update(w, next);
  b.output("loss", (next - 3.0) * (next - 3.0));
  return b.build();
}

// Its handles end when it returns, and the program keeps what they refer to.
void begin(const std::string& address) {
  gw::Client client = gw::connect(address, {.name = "descent"});
  gw::Slice slice = client.allocate({.devices = 2});
  gw::Executable step = slice.compile(descent(slice.mesh({{"data", 2}})));
  std::printf("loss %g\n", step.run({{"step", 0.0f}})["loss"].item<float>());
  step.repeat(3, {{"step", gw::Schedule::linear(1, 1)}});  // Steps 1, 2 and 3.
  client.detach();
}

void go_on(const std::string& address) {
  gw::Client client = gw::attach(address, "descent");
  gw::Executable step = client.executable("descent");
  gw::RepeatStatus status = step.repetition()->wait();
  std::printf("%d steps later: loss %g\n", static_cast<int>(status.done), status.outputs[0].value);
  std::printf("loss %g\n", step.run({{"step", 4.0f}})["loss"].item<float>());
  std::printf("w %g\n", client.slices()[0].read_state("w").as<float>()[0]);
  client.close();  // Ends the program: detach() would let it go on.
}

}  // namespace

int main() try {
  gw::Client cluster = gw::connect("local:1x2");  // Ends with this process.
  begin(cluster.address());
  for (const gw::ProgramStatus& program : cluster.status().programs) {
    if (program.detached) std::printf("%s goes on without a client\n", program.name.c_str());
  }
  go_on(cluster.address());
} catch (const gw::Error& error) {
  return gw::report(error);
}
// Prints:
// loss 2.25
// descent goes on without a client
// 3 steps later: loss 0.0791016
// loss 0
// w 3
