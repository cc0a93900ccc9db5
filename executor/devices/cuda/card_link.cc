#include "executor/devices/cuda/card_link.h"

#include <utility>

namespace gangway {

CardLink::CardLink(CudaStream& sender, CudaStream& receiver, uint32_t slots)
    : sender_(sender), receiver_(receiver), label_(cat("send to ", receiver.name())) {
  cuda::Driver& driver = sender_.gpu().driver();
  ready_ = driver.make_event().take();
  for (uint32_t slot = 0; slot < slots; ++slot) sent_.push_back(driver.make_event().take());
}

CardLink::~CardLink() {
  cuda::Driver& driver = sender_.gpu().driver();
  driver.destroy(ready_);
  for (const cuda::EventHandle event : sent_) driver.destroy(event);
}

std::shared_ptr<const Error> CardLink::send(uint32_t slot, void* to, const void* from,
                                            int64_t bytes) {
  if (sender_.lost() != nullptr) return sender_.lost();
  cuda::Driver& driver = sender_.gpu().driver();
  const cuda::At compute{sender_.compute(), label_};
  const cuda::At communication{sender_.communication(), label_};
  cuda::Status status = driver.record(compute, ready_);
  if (status.ok()) status = driver.wait(communication, ready_);
  if (status.ok() && bytes > 0) status = driver.copy(communication, to, from, bytes);
  if (status.ok()) status = driver.record(communication, sent_[slot]);
  if (!status.ok()) return sender_.failure_of(status);
  last_ = sent_[slot];
  return nullptr;
}

void CardLink::join() {
  const cuda::EventHandle last = std::exchange(last_, {});
  if (!last || sender_.lost() != nullptr) return;
  sender_.note(sender_.gpu().driver().wait({sender_.compute(), label_}, last));
}

void CardLink::receive(uint32_t slot) {
  if (receiver_.lost() != nullptr) return;
  receiver_.note(receiver_.gpu().driver().wait({receiver_.compute(), label_}, sent_[slot]));
}

}  // namespace gangway
