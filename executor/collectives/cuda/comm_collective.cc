#include "executor/collectives/cuda/comm_collective.h"

#include <algorithm>
#include <cstring>

namespace gangway {

CommCollective::CommCollective(CudaDevice& device, std::unique_ptr<Collective> meeting)
    : device_(device),
      meeting_(std::move(meeting)),
      ready_(device.gpu().driver().make_event().take()),
      done_(device.gpu().driver().make_event().take()) {}

CommCollective::~CommCollective() {
  drop_comm();
  device_.gpu().driver().destroy(ready_);
  device_.gpu().driver().destroy(done_);
}

void CommCollective::drop_comm() {
  if (!comm_) return;
  if (broken_) static_cast<void>(device_.gpu().driver().abort(comm_));
  device_.gpu().driver().destroy(comm_);
  comm_ = {};
  broken_ = false;
}

void CommCollective::begin_exchange(uint64_t word, bool poisoned) {
  phase_ = Phase::kExchange;
  meeting_->begin_exchange(word, poisoned);
}

void CommCollective::begin_all_reduce(std::span<const CollectiveTensor> tensors,
                                      Reduction reduction, bool poisoned) {
  tensors_.assign(tensors.begin(), tensors.end());
  reduction_ = reduction;
  poisoned_ = poisoned;
  comm_ ? meet() : begin_id();
}

void CommCollective::begin_id() {
  phase_ = Phase::kId;
  id_words_ = 0;
  if (rank() == 0 && device_.lost() == nullptr) {
    const Result<cuda::CommId> made = device_.gpu().driver().new_comm_id();
    if (made.ok()) std::memcpy(id_, made.value().bytes, sizeof(id_));
  }
  exchange_id_word();
}

void CommCollective::exchange_id_word() { meeting_->begin_exchange(id_[id_words_], false); }

// False: more are to come.
bool CommCollective::take_id_word() {
  id_[id_words_++] = meeting_->words()[0];
  if (id_words_ == kIdWords) return true;
  exchange_id_word();
  return false;
}

void CommCollective::connect() {
  phase_ = Phase::kConnect;
  if (device_.lost() != nullptr) return;
  cuda::CommId id;
  std::memcpy(id.bytes, id_, sizeof(id_));
  const Result<cuda::CommHandle> made = device_.gpu().driver().create_comm(id, rank(), size());
  if (made.ok()) comm_ = made.value();
}

// False: not yet.
bool CommCollective::connected() {
  if (!comm_ || device_.lost() != nullptr) return true;
  if (device_.gpu().driver().query(comm_).kind != cuda::StatusKind::kNotReady) return true;
  device_.ring();  // Nobody rings when the others have come: look again.
  return false;
}

void CommCollective::meet() {
  phase_ = Phase::kMeet;
  const bool lost = device_.lost() != nullptr;
  if (!lost) broken_ = !comm_ || !device_.note(device_.gpu().driver().query(comm_));
  meeting_->begin_exchange(broken_ || lost ? 1 : 0, poisoned_ || broken_ || lost);
}

Progress CommCollective::advance() {
  while (true) {
    if (phase_ == Phase::kConnect) {
      if (!connected()) return Progress::kPending;
      meet();
    }
    if (meeting_->advance() == Progress::kPending) return Progress::kPending;
    if (phase_ == Phase::kId) {
      if (take_id_word()) connect();
      continue;
    }
    if (phase_ == Phase::kMeet) {
      if (!meeting_->poisoned()) launch();
      const auto words = meeting_->words();
      if (std::any_of(words.begin(), words.end(), [](uint64_t word) { return word != 0; })) {
        broken_ = true;
        drop_comm();
      }
    }
    return Progress::kDone;
  }
}

void CommCollective::launch() {
  cuda::Driver& driver = device_.gpu().driver();
  const cuda::At compute{device_.compute(), "all_reduce"};
  const cuda::At communication{device_.communication(), "all_reduce"};
  const bool reduced = device_.note(driver.record(compute, ready_)) &&
                       device_.note(driver.wait(communication, ready_)) &&
                       device_.note(driver.all_reduce(communication, comm_, tensors_, reduction_));
  // The next meeting says so to all.
  broken_ = !reduced;
  if (reduced && device_.note(driver.record(communication, done_)))
    device_.note(driver.wait(compute, done_));
}

}  // namespace gangway
