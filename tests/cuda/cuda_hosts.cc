#include "tests/cuda/cuda_hosts.h"

#include <gmock/gmock.h>

#include "tests/support/training_step.h"

namespace gangway {

CudaHosts::CudaHosts(const std::vector<std::shared_ptr<cuda::Driver>>& cards,
                     std::function<std::string()> report, uint32_t devices)
    : report_(std::move(report)) {
  std::vector<std::vector<std::shared_ptr<cuda::Driver>>> gpus;
  for (const auto& card : cards) gpus.push_back({card});
  hosts_ = std::make_unique<TestHosts>(*reactor_, static_cast<uint32_t>(cards.size()), devices,
                                       DeviceKind::kCuda, nullptr, int64_t{16} << 20, gpus);
}

std::string CudaHosts::reports() {
  hosts_ = nullptr;
  reactor_->run_ready();
  return report_();
}

void expect_training(CudaHosts& t, uint32_t hosts, uint32_t devices) {
  t->install(kPlan, training_step(hosts, devices));
  t->put<float>(ArrayId(100), kPlan, 0, std::vector<float>(16, 3.0f));
  for (uint64_t run = 1; run <= 3; ++run) t->start(step_request(kPlan, run, 0.25f));
  for (uint64_t run = 1; run <= 3; ++run) {
    const Done done = t->wait(RunId(run));
    ASSERT_FALSE(done.error) << done.error->what();
  }
  // w: 1 -> 2 -> 2.5 -> 2.75; loss = 2 * (w - 3)^2
  EXPECT_FLOAT_EQ(t->item<float>(RunId(1), 0), 8.0f);
  EXPECT_FLOAT_EQ(t->item<float>(RunId(3), 0), 0.5f);
  EXPECT_THAT(t->get_state<float>("w", 2), testing::Each(2.75f));
  EXPECT_THAT(t->get<float>(ArrayId(1003), 1), testing::Each(0.5f));
  EXPECT_EQ(t.reports(), "");
}

}  // namespace gangway
