#include "bench/timed_program.h"

#include <deque>

#include "ir/build/ops.h"
#include "ir/build/program_builder.h"

namespace gangway::bench {

Program timed_program(const std::string& name, const Mesh& mesh, const TimedSteps& steps) {
  Builder f("steps", mesh);
  Value x = f.parameter("x", f32());
  for (int64_t piece = 0; piece < steps.pieces; ++piece) x = timed(x, steps.piece_us);
  f.result("y", x);
  ProgramBuilder b(name, mesh);
  const ProgramValue in = b.input_on(0, "x", f32());
  b.output_of("y", b.call(0, "steps", std::make_shared<const Function>(f.build()), {in})[0]);
  return b.build();
}

TimedClient::TimedClient(const std::string& address, const Options& options) : options_(options) {
  client_ = connect(address, {.name = options.name, .weight = options.weight});
  const Slice slice = client_->allocate({.devices = options.devices});
  program_ = slice.compile(
      timed_program(options.name, slice.mesh({{"data", options.devices}}), options.steps),
      CompileOptions{.runs_in_flight_max = options.runs_ahead});
  host_ = program_->memory().devices.at(0).host;
  thread_ = Thread("trainer", [this] { train(); });
}

TimedClient::~TimedClient() {
  stop_ = true;
  thread_.join();
  program_.reset();
  client_->close();
}

void TimedClient::train() {
  std::deque<Run> under_way;
  try {
    while (!stop_) {
      under_way.push_back(program_->run({{"x", 1.0f}}));
      if (under_way.size() < static_cast<size_t>(options_.runs_ahead)) continue;
      under_way.front().wait();
      under_way.pop_front();
      ++done_;
    }
  } catch (const Error& error) {
    error_ = error.what();
    failed_ = true;
  }
}

}  // namespace gangway::bench
