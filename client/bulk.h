// Bulk: puts and gets of a client, and the memory through which they go (SegmentHeap).
//
// Hosts map the memory and copy; the controller only tells them to, and never sees the bytes. At
// most as many transfers are under way as the controller allows.
//
// Threads: any, or a fiber of the client's reactor, if not said otherwise.
// Ownership: a part of the session, whose reactor takes the ends of transfers.
// Errors: the hosts' and the controller's, where a transfer is waited for; SegmentHeap's.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "protocol/messages.h"
#include "runtime/fibers/background.h"
#include "runtime/os/shared_segment.h"

namespace gangway::internal {

class Session;

// Address space of a segment for puts and gets under way; pages never touched cost nothing.
inline constexpr int64_t kSegmentBytes = int64_t{64} << 30;

// The client's memory that hosts read and write, and which parts of it are in use.
//
//   take()   a part of the segment
//   lend()   hosts may use it              returned()   all of them report that they are done
//   ~Part    free for the next part, if all that was lent has been returned; else the whole segment
//            is given up, and the next part lies in a new one
//
// A host that was lost may only have been stopped, and writes what it has queued when it goes on. A
// part is therefore free again only when its hosts themselves report that they are done, whatever
// error has ended the wait for them. A segment that was given up costs the client no memory: its
// pages are dropped at once, except those of parts that are still in use, and the segment goes with
// the last of these. A host that still writes there writes to pages of its own: the system frees
// them once the host has ended or has released them.
//
// A segment has its full size from the start, as address space: pages that were never touched cost
// nothing.
//
// Invariants: parts of a segment are aligned to 64 bytes and do not overlap. First fit, neighbours
// merge. A segment that was given up hands out nothing.
// Ownership: a Part gives its bytes back when it dies; it keeps the heap and its segment alive.
// Errors: kOverloaded when no hole is large enough.
class SegmentHeap : public std::enable_shared_from_this<SegmentHeap> {
 private:
  struct Segment {
    explicit Segment(int64_t bytes) : memory(SharedSegment::create(static_cast<size_t>(bytes))) {}
    SharedSegment memory;
    std::map<int64_t, int64_t> used;  // Offset to size. Guarded by the heap's mutex.
  };

 public:
  // `bytes`: size of each segment.
  explicit SegmentHeap(int64_t bytes) : segment_bytes_(bytes) {}

  class Part {
   public:
    Part(std::shared_ptr<SegmentHeap> heap, std::shared_ptr<Segment> of, int64_t offset,
         int64_t bytes)
        : heap_(std::move(heap)), of_(std::move(of)), offset_(offset), bytes_(bytes) {}
    ~Part() { heap_->release(of_, offset_, lent_ == 0); }
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;

    std::byte* data() const { return of_->memory.data() + offset_; }
    const SegmentDescriptor& segment() const { return of_->memory.descriptor(); }
    int64_t offset() const { return offset_; }
    int64_t bytes() const { return bytes_; }

    // One transfer more or less with which hosts may not be done.
    void lend() { ++lent_; }
    void returned() { --lent_; }

   private:
    std::shared_ptr<SegmentHeap> heap_;
    std::shared_ptr<Segment> of_;
    int64_t offset_;
    int64_t bytes_;
    std::atomic<int> lent_{0};
  };
  std::shared_ptr<Part> take(int64_t bytes);
  int64_t used() const;  // Bytes of parts that live.

 private:
  void release(const std::shared_ptr<Segment>& of, int64_t offset, bool is_returned);
  // Offsets and sizes of the holes between parts. The mutex is held.
  static std::vector<std::pair<int64_t, int64_t>> holes_of(const Segment& segment);

  const int64_t segment_bytes_;
  mutable std::mutex mutex_;
  std::shared_ptr<Segment> current_;  // Null: none yet, or it was given up.
  int64_t used_ = 0;
};

using TransferDone = std::function<void(const HostTransferDoneFrame&)>;

class Bulk {
 public:
  using PartPtr = std::shared_ptr<SegmentHeap::Part>;
  explicit Bulk(Session& session) : session_(session) {}

  SegmentHeap& heap() { return *heap_; }
  // These move bytes between the cluster and a part of the heap, and wait. get() asks again with
  // another part where the program is brought back meanwhile.
  PartPtr get(const HostTransferFrame& frame, int64_t bytes);
  void put(const HostTransferFrame& frame, const PartPtr& part);
  // Waits until one more transfer may be under way, and takes its place. The caller gives it back
  // with give_back_place(), or send() does when the transfer has ended.
  void take_place();
  void give_back_place();
  // Uses a place that was taken. `done` is called on the reactor, with notify.mutex held. Hosts may
  // read and write the bytes of the part until all of them have reported that they are done, also
  // after `done` was called.
  void send(HostTransferFrame frame, PartPtr part, TransferDone done);

  // For the reactor's thread: begin() before the first transfer; free_on_thread() frees memory
  // (null: none) on a thread of its own, since that takes the system long, until end().
  void begin(int64_t transfers_max) { transfers_max_ = transfers_max; }
  void free_on_thread(PartPtr part);
  void end();

 private:
  HostTransferDoneFrame transfer(const HostTransferFrame& frame, const PartPtr& part);

  Session& session_;
  const std::shared_ptr<SegmentHeap> heap_ = std::make_shared<SegmentHeap>(kSegmentBytes);
  int64_t transfers_max_ = 0;
  int64_t under_way_ = 0;  // Transfers. Guarded by the session's notify.mutex.
  std::unique_ptr<Background> freeing_;
  bool has_ended_ = false;
};

}  // namespace gangway::internal
