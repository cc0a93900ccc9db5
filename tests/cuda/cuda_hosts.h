// CudaHosts: hosts whose devices are on cards, as tests of hosts drive them.
//
// Example:
//   CudaHosts t(card, 4);  // A host of four devices on one card.
//   t->install(kPlan, training_step(1, 4));
//   EXPECT_EQ(t.reports(), "");
//
// Threads: the caller's is the reactor.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/fibers/reactor.h"
#include "tests/cuda/card.h"
#include "tests/support/test_hosts.h"

namespace gangway {

class CudaHosts {
 public:
  CudaHosts(const Card& card, uint32_t devices) : CudaHosts({card.driver}, card.report, devices) {}
  // Makes a host for each `cards_each` cards.
  CudaHosts(const std::vector<std::shared_ptr<cuda::Driver>>& cards,
            std::function<std::string()> report, uint32_t devices, uint32_t cards_each = 1);

  TestHosts* operator->() const { return hosts_.get(); }
  Reactor& reactor() { return *reactor_; }
  // Destroys the hosts, and returns the errors that the cards found until then.
  std::string reports();

 private:
  const std::unique_ptr<Reactor> reactor_ = Reactor::make_real();
  const std::function<std::string()> report_;
  std::unique_ptr<TestHosts> hosts_;
};

inline constexpr PlanId kPlan{1};

// Runs three steps of training_step(), runs 1 to 3, and expects their losses and the state after
// them.
void train(CudaHosts& t, PlanId plan, uint32_t hosts, uint32_t devices, StateScope scope = {1});
// Trains, ends the hosts, and expects that the cards found no errors.
void expect_training(CudaHosts& t, uint32_t hosts, uint32_t devices);

}  // namespace gangway
