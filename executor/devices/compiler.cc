#include "executor/devices/compiler.h"

#include <algorithm>

#include "runtime/fibers/kj_error.h"

namespace gangway {
namespace {

void run(CompileJob& job) {
  try {
    for (CompileJob::Part& part : job.parts) {
      if (job.dropped.load(std::memory_order_acquire)) return;
      part.made = part.compiler->compile(part.local);
    }
  } catch (...) {
    job.error = current_error();
  }
}

}  // namespace

void CompileJob::add(uint32_t number, DeviceCompiler& compiler, const LocalFunction& local) {
  if (index.emplace(std::pair(number, compiler.family()), parts.size()).second)
    parts.push_back({&compiler, local, nullptr});
}

const CompileJob::Part* CompileJob::part(uint32_t number, const DeviceCompiler& compiler) const {
  const auto found = index.find({number, compiler.family()});
  return found == index.end() ? nullptr : &parts[found->second];
}

std::shared_ptr<const CompiledFunction> CompileJob::made(uint32_t number,
                                                         const DeviceCompiler& compiler) const {
  const Part* found = part(number, compiler);
  return found == nullptr ? nullptr : found->made;
}

void Compiler::compile(const std::shared_ptr<CompileJob>& job) {
  if (is_simulated_ || std::none_of(job->parts.begin(), job->parts.end(),
                                    [](const auto& part) { return part.compiler->blocks(); })) {
    run(*job);
    return job->done(*job);
  }
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(job);
  }
  if (!thread_.joinable()) thread_ = Thread(name_, [this] { serve(); });
  bell_.ring();
}

void Compiler::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    for (const auto& job : jobs_) job->dropped.store(true, std::memory_order_release);
  }
  bell_.ring();
  thread_.join();
}

void Compiler::serve() {
  while (true) {
    const uint32_t ticket = bell_.ticket();
    std::shared_ptr<CompileJob> job;
    {
      const std::lock_guard lock(mutex_);
      if (stop_) return;
      if (!jobs_.empty()) job = jobs_.front();
    }
    if (job == nullptr) {
      bell_.wait(ticket, SpinPolicy::park());
      continue;
    }
    run(*job);
    {
      const std::lock_guard lock(mutex_);
      jobs_.pop_front();
    }
    mailbox_.post([job = std::move(job)] {
      if (!job->dropped.load(std::memory_order_relaxed)) job->done(*job);
    });
  }
}

}  // namespace gangway
