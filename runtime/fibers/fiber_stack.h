// Pooled fiber stacks with a guard page below each.
//
// Why: Boost's own pool has no guard pages, so an overflow overwrote a neighbour; its guarded
// stacks cost two system calls for each fiber. Here a stack is mapped once, guarded once and
// reused.
//
// An overflow touches the guard page and raises SIGSEGV. report_stack_overflows() installs a
// handler that runs on a stack of its own, prints the fiber's name and the size of its stack, and
// lets the process die as it would have.
//
//   [ guard page | <- grows down ........ stack, kFiberStackBytes ........ ]
//
// Threads: a pool belongs to one thread.
// Ownership: every stack in use keeps its pool alive.
// Errors: kOverloaded when the kernel refuses another mapping.
// Cost: 2-3 us for a new stack, 20 ns for a reused one.
#pragma once

#include <boost/context/stack_context.hpp>
#include <cstddef>
#include <memory>
#include <vector>

namespace gangway::internal {

// Address space, not memory: pages are allocated when they are touched.
inline constexpr size_t kFiberStackBytes = 256 << 10;
// Stacks kept for reuse; more than that are unmapped when they become free.
inline constexpr size_t kIdleStacksMax = 4096;

struct StackRange {
  char* low = nullptr;   // Start of the guard page.
  char* high = nullptr;  // One past the stack.
};

class StackPool {
 public:
  StackPool();
  ~StackPool();
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;

  StackRange take();
  void give_back(StackRange range) noexcept;
  size_t mapped() const { return mapped_; }
  size_t guard_bytes() const { return guard_bytes_; }
  // The stack that take() returned last.
  StackRange last() const { return last_; }

 private:
  void unmap(StackRange range) noexcept;

  size_t guard_bytes_;
  size_t mapped_ = 0;
  StackRange last_;
  std::vector<StackRange> idle_;
};

// The stack allocator that Boost.Fiber asks for.
class PooledStack {
 public:
  explicit PooledStack(std::shared_ptr<StackPool> pool) : pool_(std::move(pool)) {}
  boost::context::stack_context allocate();
  void deallocate(boost::context::stack_context& stack) noexcept;

 private:
  std::shared_ptr<StackPool> pool_;
};

// The fiber that runs on this thread, for the overflow report; `name` is null when none does.
struct RunningFiber {
  const char* name = nullptr;
  StackRange stack;
};
RunningFiber& running_fiber();

}  // namespace gangway::internal

namespace gangway {

// Installs the overflow report for this thread: a handler for SIGSEGV and SIGBUS (process-wide,
// once; an earlier handler still runs after it) and an alternative signal stack. Every Reactor
// calls it for its thread.
void report_stack_overflows();

}  // namespace gangway
