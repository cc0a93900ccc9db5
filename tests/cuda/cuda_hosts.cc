#include "tests/cuda/cuda_hosts.h"

#include <gmock/gmock.h>

#include "tests/support/training_step.h"

namespace gangway {

CudaHosts::CudaHosts(const std::vector<std::shared_ptr<cuda::Driver>>& cards,
                     std::function<std::string()> report, uint32_t devices, uint32_t cards_each)
    : report_(std::move(report)) {
  std::vector<std::vector<std::shared_ptr<cuda::Driver>>> gpus(cards.size() / cards_each);
  for (size_t c = 0; c < cards.size(); ++c) gpus[c / cards_each].push_back(cards[c]);
  hosts_ = std::make_unique<TestHosts>(*reactor_, static_cast<uint32_t>(gpus.size()), devices,
                                       DeviceKind::kCuda, nullptr, int64_t{16} << 20, gpus);
}

std::string CudaHosts::reports() {
  hosts_ = nullptr;
  reactor_->run_ready();
  return report_();
}

void train(CudaHosts& t, PlanId plan, uint32_t hosts, uint32_t devices, StateScope scope) {
  for (auto& log : t->logs) log->done.clear();
  t->install(plan, training_step(hosts, devices), scope);
  t->put<float>(ArrayId(100), plan, 0, std::vector<float>(16, 3.0f));
  for (uint64_t run = 1; run <= 3; ++run) t->start(step_request(plan, run, 0.25f));
  for (uint64_t run = 1; run <= 3; ++run) {
    const Done done = t->wait(RunId(run));
    ASSERT_FALSE(done.error) << done.error->what();
  }
  // w: 1 -> 2 -> 2.5 -> 2.75; loss = 2 * (w - 3)^2
  EXPECT_FLOAT_EQ(t->item<float>(RunId(1), 0), 8.0f);
  EXPECT_FLOAT_EQ(t->item<float>(RunId(3), 0), 0.5f);
  EXPECT_THAT(t->read_state<float>("w", 2, scope), testing::Each(2.75f));
  EXPECT_THAT(t->get<float>(ArrayId(1003), 1), testing::Each(0.5f));
}

void expect_training(CudaHosts& t, uint32_t hosts, uint32_t devices) {
  train(t, kPlan, hosts, devices);
  EXPECT_EQ(t.reports(), "");
}

}  // namespace gangway
