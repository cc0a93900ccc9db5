#include "executor/devices/cuda/collectives/comm_collective.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "executor/devices/cuda/collectives/card_moves.h"

namespace gangway {

CommCollective::CommCollective(CardStreams& device, CommBook& comms,
                               std::unique_ptr<Collective> rendezvous, Options options)
    : ForwardingCollective(std::move(rendezvous)),
      device_(device),
      comms_(comms),
      options_(std::move(options)),
      own_cards_(rendezvous_->size()) {
  std::iota(own_cards_.begin(), own_cards_.end(), 0);
  if (options_.kinds.has(CollectiveKind::kRaggedAllToAll))
    sizes_ = std::make_unique<RaggedSizes>(device_, size());
}

int64_t CommCollective::staging_bytes_for(CollectiveKinds kinds, int64_t bytes_max,
                                          uint32_t members) {
  return kinds.has_moves() ? CardComms::staging_bytes(bytes_max, members) : 0;
}

void CommCollective::begin_exchange(uint64_t word, bool poisoned) {
  phase_ = Phase::kExchange;
  no_comm_ = false;
  forward_exchange(word, poisoned);
}

void CommCollective::begin(const CollectiveCall& call, bool poisoned) {
  keep(call);
  ranks_.assign(1, {rank(), &call_, staging_});
  ranks_given_ = false;
  if (call.kind != CollectiveKind::kRaggedAllToAll) return begin_rendezvous(poisoned);
  no_comm_ = false;
  sizes_->begin(call_, label_, poisoned);
  phase_ = Phase::kSizes;
}

void CommCollective::begin_ranks(std::vector<CardRank> ranks, bool poisoned) {
  ranks_ = std::move(ranks);
  ranks_given_ = true;
  begin_rendezvous(poisoned);
}

void CommCollective::begin_rendezvous(bool poisoned) {
  poisoned_ = poisoned;
  tried_ = no_comm_ = false;
  failure_ = nullptr;
  comm_ = comms_.find(options_.group);
  meet();
}

// Once the sizes are known the members meet for the rows; where they are not, since a member was
// poisoned, the phase stays kSizes and the collective is done.
Progress CommCollective::advance_sizes() {
  if (sizes_->advance(*rendezvous_) == Progress::kPending) return Progress::kPending;
  if (!rendezvous_->poisoned()) {
    call_ = sizes_->known();
    begin_rendezvous(sizes_->failure() != nullptr);
  }
  failure_ = sizes_->failure();
  return Progress::kDone;
}

// Each member gives the number of its communicator.
void CommCollective::meet() {
  phase_ = Phase::kMeet;
  rendezvous_->begin_exchange(comm_ == nullptr ? 0 : comm_->identity(),
                              poisoned_ || device_.lost() != nullptr);
}

bool CommCollective::agreed() const {
  return rendezvous_->least() != 0 && rendezvous_->least() == rendezvous_->most();
}

Progress CommCollective::advance() {
  while (true) {
    if (phase_ == Phase::kSizes) {
      if (advance_sizes() == Progress::kPending) return Progress::kPending;
      if (phase_ == Phase::kSizes) break;
    }
    if (phase_ == Phase::kConnect) {
      if (!connected()) return Progress::kPending;
      meet();
    }
    if (rendezvous_->advance() == Progress::kPending) return Progress::kPending;
    if (phase_ == Phase::kExchange || (phase_ == Phase::kMeet && rendezvous_->poisoned())) break;
    if (phase_ == Phase::kId) {
      if (take_id_word()) connect();
    } else if (agreed()) {
      launch();
      break;
    } else if (std::exchange(tried_, true)) {
      no_comm_ = true;  // All see the same words, so all of them stop here.
      break;
    } else {
      comms_.drop(options_.group);
      begin_id();
    }
  }
  if (phase_ != Phase::kExchange) device_.end_collective();
  comm_ = nullptr;
  return Progress::kDone;
}

void CommCollective::begin_id() {
  phase_ = Phase::kId;
  id_words_ = 0;
  std::fill_n(id_, kIdWords, 0);
  if (rank() == 0 && device_.lost() == nullptr) {
    const Result<cuda::CommId> made = device_.gpu().driver().new_comm_id();
    if (made.ok()) std::memcpy(id_, made.value().bytes, sizeof(id_));
    if (!made.ok()) fail({cuda::StatusKind::kAborted, false, made.error().message()}, 0);
  }
  rendezvous_->begin_exchange(id_[0], false);
}

// False: more words are to come.
bool CommCollective::take_id_word() {
  id_[id_words_++] = rendezvous_->most();  // The other members' are 0.
  if (id_words_ == kIdWords) return true;
  rendezvous_->begin_exchange(id_[id_words_], false);
  return false;
}

// 0: there is no id.
uint64_t CommCollective::identity() const {
  uint64_t hash = 0;
  for (const uint64_t word : id_) hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
  return hash;
}

void CommCollective::connect() {
  phase_ = Phase::kConnect;
  comm_ = nullptr;
  if (identity() == 0) return;
  if (device_.lost() != nullptr) return rendezvous_->raise_abort(identity());
  cuda::CommId id;
  std::memcpy(id.bytes, id_, sizeof(id_));
  cuda::Driver& driver = device_.gpu().driver();
  const Result<cuda::CommHandle> made = driver.create_comm(id, rank(), size());
  if (made.ok()) comm_ = std::make_shared<Comm>(driver, made.value(), identity());
  if (made.ok()) return;
  const cuda::Status health = driver.health();
  fail(health.ok() ? cuda::Status{cuda::StatusKind::kAborted, false, made.error().message()}
                   : health,
       identity());
}

// False: not yet.
bool CommCollective::connected() {
  if (comm_ == nullptr) return true;
  const cuda::Status status = device_.lost() != nullptr
                                  ? cuda::Status{cuda::StatusKind::kFault}
                                  : device_.gpu().driver().query(comm_->handle());
  if (status.kind == cuda::StatusKind::kNotReady && !rendezvous_->abort_raised(identity())) {
    device_.ring();  // The others' arrival rings no bell: look again.
    return false;
  }
  if (status.failed() && device_.lost() == nullptr) fail(status, identity());
  if (device_.lost() != nullptr) rendezvous_->raise_abort(identity());
  if (!status.ok()) comm_ = nullptr;
  if (comm_ != nullptr) comms_.put(options_.group, comm_);
  return true;
}

void CommCollective::launch() {
  if (device_.lost() != nullptr) {  // The device was lost after the rendezvous.
    failure_ = device_.lost();
    return rendezvous_->raise_abort(comm_->identity());
  }
  // It broke after the rendezvous began: another work waited for its card meanwhile.
  if (comm_->broken()) {
    failure_ = comm_->why();
    no_comm_ = failure_ == nullptr;
    return rendezvous_->raise_abort(comm_->identity());
  }
  const cuda::Status status = enqueue();
  if (!status.failed()) return comms_.launched(comm_, *rendezvous_, label_);
  fail(status, comm_->identity());
  comm_->abort(failure_);
}

cuda::Status CommCollective::enqueue() {
  cuda::Status status = device_.fork();
  if (!status.ok()) return status;
  const CardComms comms{
      device_, label_, comm_->handle(), size(), ranks_given_ ? options_.card_of : own_cards_,
      ranks_};
  CardTraffic moved;
  status = comms.enqueue(moved);
  if (status.failed()) return status;
  options_.meter.add(LinkClass::kHost, moved.here);
  options_.meter.add(options_.next, moved.sent);
  const bool reported =
      ranks_given_ || call_.kind != CollectiveKind::kRaggedAllToAll || sizes_->tell(label_);
  if (reported) return status;
  return copy_failed(label_);
}

void CommCollective::fail(const cuda::Status& status, uint64_t identity) {
  auto error = std::make_shared<Error>(*device_.failure_of(status));
  error->add_where({.node = std::string(label_)});
  failure_ = std::move(error);
  rendezvous_->raise_abort(identity);
}

}  // namespace gangway
