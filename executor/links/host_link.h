// HostLink: all that one host sends to another while runs go on: payloads, flags and rings.
//
//   this host                                        a peer
//   offer(areas)  -> OwnMemory, whose offer() ...    ... the peer opens: PeerMemory
//                                                    place(area): it writes this area from now on
//                                                    at(): writes a payload into what put() sends
//   waits on a word of its OwnMemory          <----  put(payload, flag, value)   payload, then flag
//                                             <----  signal(flag, value)         a flag alone
//   its device looks again                    <----  ring(device)
//
// Invariants
//  - A host waits only on words of its own memory, which its peers write: no network card can poll
//    a peer's memory. A flag, a credit and a payload therefore lie with the host that waits for
//    them.
//  - An area has one writer. The writer mirrors the areas that it writes, and nothing else of the
//    peer's memory.
//  - Order is kept by area: a thread that sees the value of a flag also sees the payload of its
//    put(), which lies in the same area, and everything that was put to that area before. Writes to
//    other areas may come before or after it, whichever host they are from: a payload of 100 MB
//    must not hold up the gates and flags of every other program between two hosts.
//  - A ring comes behind everything that its caller put to that peer before.
//  - A payload that was put stays as it is, at at(), until the peer has shown that it has read it:
//    a network sends it from there, later.
//  - A link to a memory may break while both hosts live. Nothing that is written there from then on
//    arrives, also when the network is well again, since something may be missing.
//  - An offer is opaque to everyone but the implementation that opens it.
//  - Each offer() makes new memory, which no later offer() uses again while a peer holds it. A peer
//    that was given up may only have stopped: when it goes on it still writes there.
//
// A network implements this by writing to a peer's memory (RDMA): put() is two writes with a fence
// between them, and at() is memory of this host that the card may read. There are two
// implementations: shared_link.h for processes of one machine, where at() is the peer's memory
// itself; sim_link.h for simulated hosts, which mirrors areas and delivers them in any order.
//
// Threads: offer(), open() and place() on the reactor thread; the other calls of a memory on any
// thread, at once, at different offsets.
// Ownership: what open() returns keeps the peer's memory alive for writing, also after the peer has
// gone. A memory outlives everything that was linked to it.
// Errors: open() throws kInvalid for bytes that are no offer, kUnavailable for memory that can't be
// reached; place() throws kUnavailable. A link that breaks is reported by on_broken(). Nothing else
// fails: a peer that has gone is noticed by the controller.
// Cost: over shared memory a flag is one store, a ring 5 ns while the peer does not sleep.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "executor/links/area_list.h"

namespace gangway {

// The payload of one put(): bytes that were written to PeerMemory::at(offset) before.
struct LinkPayload {
  uint64_t offset = 0;
  int64_t bytes = 0;
};

class PeerMemory {
 public:
  virtual ~PeerMemory() = default;
  PeerMemory() = default;
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  // Offset of the area of that name, which has at least that many bytes. This host writes the area
  // from now on: at(), put() and signal() take offsets of areas that were placed.
  virtual uint64_t place(const std::string& area, int64_t bytes) = 0;
  // Number of devices that can be rung.
  virtual uint32_t devices() const = 0;
  // Where to write the payload that is put to that offset.
  virtual std::byte* at(uint64_t offset) const = 0;
  // The memory around at(offset), with the whole area, for a device that must pin what it copies
  // to.
  virtual std::span<std::byte> range(uint64_t offset) const = 0;

  virtual void put(const LinkPayload& payload, uint64_t flag, uint64_t value) = 0;
  virtual void signal(uint64_t flag, uint64_t value) = 0;
  virtual void ring(uint32_t device) = 0;

  // Whether all that is written here arrives in the order in which it was written, whatever the
  // area: true where both hosts reach the memory by an address.
  virtual bool keeps_order() const { return false; }

  // `broken` gets the reason, once, when the link breaks, on the reactor thread. It must not
  // suspend, and is not called any more once this memory is destroyed. Memory that both hosts reach
  // by an address has no link that breaks.
  using Broken = std::function<void(const std::string& why)>;
  virtual void on_broken(Broken broken) { static_cast<void>(broken); }
};

// Memory of this host that its peers may write. The host writes there too, as a peer of itself:
// then at() is the memory itself. place() only finds an area here, which a peer may write.
class OwnMemory : public PeerMemory {
 public:
  virtual std::vector<std::byte> offer() const = 0;
  const std::atomic<uint64_t>& word(uint64_t offset) const {
    return *reinterpret_cast<const std::atomic<uint64_t>*>(at(offset));
  }
};

class HostLink {
 public:
  virtual ~HostLink() = default;

  // The memory is zero, except for its directory.
  virtual std::shared_ptr<OwnMemory> offer(const AreaList& areas) = 0;
  virtual std::shared_ptr<PeerMemory> open(std::span<const std::byte> offer) = 0;
};

}  // namespace gangway
