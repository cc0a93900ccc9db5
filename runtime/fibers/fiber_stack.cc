#include "runtime/fibers/fiber_stack.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "runtime/base/error.h"
#include "runtime/base/units.h"

// Present in a process only under AddressSanitizer. A stack that is reused still carries the poison
// of its last user's frames.
// NOLINTNEXTLINE(bugprone-reserved-identifier): the sanitizer's name.
extern "C" __attribute__((weak)) void __asan_unpoison_memory_region(const volatile void*, size_t);

namespace gangway::internal {

StackPool::StackPool() : guard_bytes_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {}

StackPool::~StackPool() {
  for (StackRange range : idle_) unmap(range);
}

StackRange StackPool::take() {
  if (!idle_.empty()) {
    last_ = idle_.back();
    idle_.pop_back();
    return last_;
  }
  const size_t bytes = guard_bytes_ + kFiberStackBytes;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, guard_bytes_, PROT_NONE) != 0) {
    const int error = errno;
    if (memory != MAP_FAILED) munmap(memory, bytes);
    throw Error(ErrorKind::kOverloaded,
                cat("fiber: no memory for its stack: ", std::strerror(error), " with ", mapped_,
                    " stacks of ", format_bytes(kFiberStackBytes), " in use"),
                {}, "each stack takes two mappings: raise vm.max_map_count, or run fewer fibers");
  }
  ++mapped_;
  last_ = {static_cast<char*>(memory), static_cast<char*>(memory) + bytes};
  return last_;
}

void StackPool::give_back(StackRange range) noexcept {
  if (__asan_unpoison_memory_region != nullptr)
    __asan_unpoison_memory_region(range.low + guard_bytes_, kFiberStackBytes);
  if (idle_.size() < kIdleStacksMax) {
    idle_.push_back(range);
  } else {
    unmap(range);
  }
}

void StackPool::unmap(StackRange range) noexcept {
  munmap(range.low, static_cast<size_t>(range.high - range.low));
  --mapped_;
}

boost::context::stack_context PooledStack::allocate() {
  const StackRange range = pool_->take();
  boost::context::stack_context stack;
  stack.size = kFiberStackBytes;
  stack.sp = range.high;
  return stack;
}

void PooledStack::deallocate(boost::context::stack_context& stack) noexcept {
  char* high = static_cast<char*>(stack.sp);
  pool_->give_back({high - stack.size - pool_->guard_bytes(), high});
}

RunningFiber& running_fiber() {
  thread_local RunningFiber running;
  return running;
}

namespace {

struct sigaction previous_segv;
struct sigaction previous_bus;

// Async-signal-safe: write() and constant text only.
void say(const char* text) {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, std::strlen(text));
}

void on_fault(int signal_number, siginfo_t* info, void*) {
  const RunningFiber& running = running_fiber();
  const char* address = static_cast<const char*>(info->si_addr);
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  if (running.name != nullptr && address >= running.stack.low &&
      address < running.stack.low + page) {
    say("fiber \"");
    say(running.name);
    say("\": its stack of 256 KiB overflowed\n  hint: look for unbounded recursion or large arrays "
        "on the stack\n");
  }
  // The faulting instruction runs again, under whatever handler was there before.
  sigaction(signal_number, signal_number == SIGSEGV ? &previous_segv : &previous_bus, nullptr);
}
static_assert(kFiberStackBytes == 256 << 10, "the text above names the size");

// Signal handlers belong to the process, and so does the flag that says whether this one was
// installed.
std::atomic<bool> installed{false};

// The alternative stack of a thread, for as long as the thread lives.
struct SignalStack {
  SignalStack() {
    stack_t current{};
    if (sigaltstack(nullptr, &current) == 0 && (current.ss_flags & SS_DISABLE) == 0) return;
    memory = std::make_unique<char[]>(kBytes);
    stack_t own{};
    own.ss_sp = memory.get();
    own.ss_size = kBytes;
    sigaltstack(&own, nullptr);
  }
  ~SignalStack() {
    if (memory == nullptr) return;
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    sigaltstack(&none, nullptr);
  }
  static constexpr size_t kBytes = 64 << 10;
  std::unique_ptr<char[]> memory;
};

}  // namespace
}  // namespace gangway::internal

namespace gangway {

void report_stack_overflows() {
  using namespace internal;
  thread_local SignalStack stack;
  (void)stack;
  if (installed.exchange(true)) return;
  struct sigaction action{};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(SIGSEGV, &action, &previous_segv);
  sigaction(SIGBUS, &action, &previous_bus);
}

}  // namespace gangway
