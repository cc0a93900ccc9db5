// DeviceRun: one run of a plan on one device: a state machine over the plan's entries, reused from
// run to run.
//
// Life: idle -> bind() host side -> enqueued -> granted, part by part, and advance()d by the device
// -> finished, reported to the reactor by mail -> idle. An entry begins only when it has its
// ticket. The first error poisons a run: the rest of it is skipped, except collectives, transfers
// and the gate, which pass the flag on. A run that the gate has let pass always commits.
//
// On a discrete device entries are launched ahead; an entry that must know that they are done (a
// send, the gate) waits for a mark. When a launch behind the gate fails, the run's states are lost.
//
// Threads: bind() and the accessors on the reactor thread while idle; grant(), cancel() and
// abandon() on it at any time; advance() on the device's.
// Ownership: it holds the buffers it was bound to until it is idle again.
// Cost: 15-40 ns an entry, plus its steps. On a CPU device advance() allocates nothing for a run
// that gets all its tickets at once. Otherwise the end of a section posts a mail, and a card's
// collective lists its parts.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "executor/replay/device_plan.h"
#include "executor/replay/diagnosis.h"
#include "executor/replay/section_clock.h"
#include "executor/work/event.h"
#include "protocol/messages.h"
#include "runtime/base/ids.h"
#include "runtime/fibers/mailbox.h"

namespace gangway {

class DeviceRun final : public Work {
 public:
  class Listener {
   public:
    virtual ~Listener() = default;
    // Reactor thread.
    virtual void device_done(DeviceRun& run) = 0;
    // Sections of a run that is granted section by section have ended.
    virtual void sections_ended(DeviceRun& run) = 0;
    // Compiles the functions for a diagnosis on the share's device; calls job->done also when they
    // can't be compiled.
    virtual void compile_unfused(const LaidOutShare& share,
                                 const std::shared_ptr<CompileJob>& job) = 0;

    // False: it is being destroyed.
    const std::shared_ptr<bool> alive = std::make_shared<bool>(true);
  };

  // `slot`: index of this record among the plan's runs in flight. The plan has memory.
  DeviceRun(const DevicePlan& plan, uint32_t slot, Mailbox& mailbox, Listener& listener);

  struct Inputs {
    RunId run;
    RunId after;                       // It commits only if that run did; 0: none.
    uint64_t number = 0;               // Runs of this plan so far: the transfers' sequence.
    std::vector<BufferPtr> arguments;  // Indexed by Plan::inputs; null: inline.
    // Indexed by Plan::inputs; null: an array. bind() copies the bytes.
    std::vector<const std::vector<std::byte>*> inline_bytes;
    std::vector<BufferPtr> outputs;      // Indexed by Plan::outputs; null where absent.
    std::vector<EventPtr> sources;       // Indexed by Plan::sources; null where absent.
    std::shared_ptr<const Error> error;  // Set: poisoned before it begins.
  };
  void bind(Inputs inputs);
  // Host-side work of one entry: fills the frame's bases that changed.
  void fill_frame(const Entry& entry);
  // Sequential dispatch: sets the event of a source, which is filled before its entry is granted.
  void set_source(size_t source, EventPtr filled) { inputs_.sources[source] = std::move(filled); }
  // Gives the entries at these positions their tickets. Returns whether more can run now.
  bool grant(const GrantRange& range);

  void cancel(std::shared_ptr<const Error> error);
  // Ends the run where it is without waiting for peers, and every later run at once. Only for a
  // plan that is removed or a lost peer.
  void abandon() { abandoned_.store(true, std::memory_order_release); }
  bool abandoned() const { return abandoned_.load(std::memory_order_acquire); }

  Progress advance(Turn& turn) override;
  void settled(Turn& turn, const std::shared_ptr<const Error>& failure) override;
  void retire(bool done) override;
  uint64_t ticket() const override;
  bool meets_others() const override;
  Blocks blocks() const override;
  std::span<const void* const> states() const override { return plan_.shared_states; }
  const void* region() const override { return laid_.region.get(); }
  int64_t modelled_ns() const override { return laid_.modelled_ns; }
  bool needs_others() const override { return laid_.needs_others; }

  bool active() const { return active_; }
  RunId run() const { return run_; }
  const std::shared_ptr<const Error>& error() const { return error_; }
  bool is_origin() const { return is_origin_; }
  // The progress in LaidOutShare::reported_slices[i], and the time that the device was busy with
  // it. Any thread.
  uint32_t positions_ended(size_t i) const { return clock_.positions_ended(i); }
  int64_t busy_ns(size_t i) const { return clock_.busy_ns(i); }
  // All that has ended so far is reported; later ends are news.
  void news_reported() { clock_.news_reported(); }
  // Host memory to which the host writes a value of this run.
  std::byte* staging_data(uint32_t value) const;
  std::span<const std::byte> small_output(uint32_t output) const;
  const LaidOutShare& share() const { return laid_; }

  // The run's progress, for the reactor thread to read while the device goes on: a number that
  // changes whenever an entry begins or ends. An entry beyond the last means that all are done,
  // except for what they launched on a discrete device.
  uint32_t progress() const { return progress_; }
  static uint32_t entry_of(uint32_t progress) { return progress / 2; }
  // Whether the entry has begun.
  static bool at_work(uint32_t progress) { return progress % 2 != 0; }
  // The step that the entry's call is at, or the other step that it waits for.
  uint32_t step(uint32_t entry) const {
    const CallFrame& frame = frames_[laid_.entries[entry].node];
    const uint32_t awaited = frame.awaited;
    return awaited > 0 ? awaited - 1 : uint32_t{frame.step};
  }
  // Drops the buffers that the run held. Called after device_done().
  void release();

 private:
  void build_frames();
  void write_inline(size_t input);
  std::byte* slot_data(uint32_t value) const;
  std::byte* fixed_base(uint32_t value) const;
  void copy_from_staging(uint32_t value, Turn& turn);
  void copy_inline_inputs(Turn& turn);
  bool landed(Turn& turn);
  void look_at_failure(const std::shared_ptr<const Error>& failure);
  void poison(std::shared_ptr<const Error> error, bool is_origin);
  void poison_by_peer();
  void begin(Turn& turn);
  void enter_region();
  Progress advance_entries(Turn& turn);
  bool counts_block() const;
  void stop_clock(const Turn& turn);
  bool over(const Turn& turn) const;
  bool goes_on(const Turn& turn) const;
  bool arguments_pending(const Entry& entry) const;
  bool arguments_settling() const;
  void look_at_arguments();
  void look_at_arguments(const Entry& entry);
  void look_for_cancel(const Entry& entry);
  bool sources_pending() const;
  void record_span(const Entry& entry, Turn& turn);
  void record_begin(Turn& turn);
  void record_counters(Turn& turn);
  void record_order(const Entry& entry);
  std::vector<const void*> arrays_read(const Entry& entry) const;
  std::vector<const void*> arrays_filled() const;
  Progress advance_entry(const Entry& entry, Turn& turn);
  Progress advance_steps(const Entry& entry, Turn& turn);
  Progress advance_function(const Entry& entry, CallFrame& frame, Turn& turn);
  Progress advance_source(const Entry& entry, Turn& turn);
  Progress advance_send(const Entry& entry, Turn& turn);
  void send(const Entry& entry, Turn& turn);
  Progress advance_receive(const Entry& entry, Turn& turn);
  Progress advance_gate(Turn& turn);
  void diagnose();
  void finish(Turn& turn);
  void release_inboxes();

  const DevicePlan& plan_;
  const LaidOutShare& laid_;
  const LinkedShare& links_;
  const ShareMemory& memory_;
  const uint32_t slot_;
  Mailbox& mailbox_;
  Listener& listener_;

  std::vector<std::byte*> values_;  // Each plan value's address in this run.
  std::vector<CallFrame> frames_;   // Indexed by node; only calls have bases.
  Inputs inputs_;
  RunId run_;
  bool active_ = false;

  SectionClock clock_;
  // Indexed by entry; 0: none yet. Final for entries before granted_.
  std::vector<uint64_t> tickets_;
  std::atomic<uint32_t> granted_{0};  // Number of entries, from the first on, that have tickets.

  SharedCounter progress_;
  uint32_t cursor_ = 0;
  bool started_ = false;
  bool entered_ = false;  // It is in the region that overlaid plans share.
  bool begun_ = false;    // The entry at the cursor has begun.
  bool marked_ = false;   // `mark_` is set, and has not been reached.
  Mark mark_ = 0;
  bool passed_ = false;  // The gate let the run pass, and so commit.
  bool is_origin_ = false;
  int64_t entry_start_ns_ = 0;
  int64_t sent_at_ns_ = 0;  // On a modelled device: arrival of the last send.
  std::shared_ptr<const Error> error_;
  std::unique_ptr<Diagnosis> diagnosis_;
  std::atomic<bool> abandoned_{false};
  std::atomic<bool> cancel_wanted_{false};
  std::shared_ptr<const Error> cancel_error_;  // Written before cancel_wanted_.
  // Host memory: whether a value is not finite, then a small output for each of Plan::outputs.
  HostMemory small_values_;
  uint32_t* not_finite_ = nullptr;
  std::byte* small_ = nullptr;
};

}  // namespace gangway
