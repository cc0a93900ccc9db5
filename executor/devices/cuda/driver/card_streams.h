// CardStreams: the two streams of a device of a card, for its collectives and communicators:
// compute, and communication, which has every collective of the device.
//
// Threads: the device's. Ownership: the device implements it, and outlives its users. Errors: a
// status that failed becomes an error by failure_of() or note(); a sticky one ends the device.
#pragma once

#include <cstdint>
#include <memory>

#include "executor/collectives/collective.h"
#include "executor/devices/cuda/driver/gpu.h"
#include "runtime/base/error.h"

namespace gangway {

class CardStreams {
 public:
  virtual cuda::Gpu& gpu() const = 0;
  virtual cuda::StreamHandle compute() const = 0;
  virtual cuda::StreamHandle communication() const = 0;
  // Work enqueued on the communication stream from now on runs after all work that compute has so
  // far.
  virtual cuda::Status fork() = 0;
  // All work enqueued on the communication stream since the last call is one collective.
  virtual void end_collective() = 0;
  // The work that is advanced: operations that it starts, and their failures, are its own.
  virtual const Work* owner() const = 0;
  // The mark that will be taken next.
  virtual uint64_t next_mark() const = 0;
  // DeviceStream::mark() and reached().
  virtual uint64_t take_mark() = 0;
  virtual Progress look_for(uint64_t mark, std::shared_ptr<const Error>* failure) = 0;
  // Has the device's work looked at again.
  virtual void ring() = 0;

  // The error that ended the device; null: it works.
  virtual const std::shared_ptr<const Error>& lost() const = 0;
  // `status` as an error; null if it is none. A sticky error ends the device.
  virtual std::shared_ptr<const Error> failure_of(const cuda::Status& status) = 0;
  // Keeps the failure, if it is one, for the owner's next mark to report. False: it failed.
  virtual bool note(const cuda::Status& status) = 0;

 protected:
  ~CardStreams() = default;
};

}  // namespace gangway
