#include "executor/sources/source_feeder.h"

#include "runtime/base/error.h"

namespace gangway {
namespace {

void run(const SourceJob& job) {
  try {
    job.source->fill(job.position, *job.part, job.out);
    job.filled->record();
  } catch (const Error& error) {
    job.filled->fail(std::make_shared<const Error>(error));
  } catch (const std::exception& error) {
    job.filled->fail(std::make_shared<const Error>(ErrorKind::kBug, cat("source: ", error.what())));
  }
}

}  // namespace

SourceFeeder::SourceFeeder(std::string name, bool inline_only)
    : name_(std::move(name)), inline_only_(inline_only) {}

SourceFeeder::~SourceFeeder() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  bell_.ring();
}

void SourceFeeder::fill(SourceJob job) {
  if (inline_only_) return run(job);
  {
    std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  if (!thread_.joinable()) thread_ = Thread(name_, [this] { serve(); });
  bell_.ring();
}

void SourceFeeder::serve() {
  while (true) {
    const uint32_t ticket = bell_.ticket();
    SourceJob job;
    {
      std::lock_guard lock(mutex_);
      if (stop_) return;
      if (!jobs_.empty()) {
        job = std::move(jobs_.front());
        jobs_.pop_front();
      }
    }
    if (job.source != nullptr) {
      run(job);
    } else {
      bell_.wait(ticket, SpinPolicy::park());
    }
  }
}

}  // namespace gangway
