#include "tests/sim/recovery/trainer.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/sim/recovery/recovery_case.h"
#include "tests/sim/sim_time.h"

namespace gangway::sim {

Trainer::Trainer(Reactor& in, int hosts)
    : reactor(in),
      cluster(in, {.hosts = hosts,
                   .checkpoint_folder = root.path().string(),
                   .time = ProcessTime::kModelled}) {
  client = cluster.connect("client", {.name = "trainer", .on_warning = [this](const auto& line) {
                                        told.push_back(line);
                                      }});
  slice = client->allocate({.devices = 4});
  step = slice->compile(trained_program());
  slice->keep_checkpoints({.every = kEvery, .keep = 2});
}

Trainer::~Trainer() {
  close();
  pass(reactor, 20'000 * kMillisecond);
  EXPECT_EQ(cluster.controller.controller().counts().total(), 0u);
}

void Trainer::close() {
  open.clear();
  step.reset();
  slice.reset();
  if (client) client->close();
  client.reset();
}

void Trainer::enqueue() {
  open.push_back(step->run({{"x", number(input_of(enqueued))}}));
  ++enqueued;
}

void Trainer::look() {
  losses.push_back(as_double(open.front()["loss"].to_host()));
  open.pop_front();
}

void Trainer::train(int steps, size_t ahead) {
  while (static_cast<int>(losses.size()) < steps) {
    while (open.size() < ahead && enqueued < kSteps) enqueue();
    look();
  }
}

bool Trainer::was_told(const std::string& text) const {
  return std::ranges::any_of(
      told, [&](const std::string& line) { return line.find(text) != std::string::npos; });
}

void Trainer::wait_told(const std::string& text) const {
  constexpr int kLooks = 60'000;
  for (int i = 0; i < kLooks && !was_told(text); ++i) pass(reactor, kMillisecond);
  EXPECT_TRUE(was_told(text)) << text;
}

const std::vector<double>& alone() {
  static const std::vector<double> losses = undisturbed_losses({.steps = Trainer::kSteps});
  return losses;
}

void with_trainer(int hosts, const std::function<void(Trainer&)>& body) {
  alone();  // It has a reactor of its own; a thread has one at a time.
  auto reactor = Reactor::make_simulated({.seed = 5});
  reactor->run([&] {
    Trainer trainer(*reactor, hosts);
    body(trainer);
  });
}

}  // namespace gangway::sim
