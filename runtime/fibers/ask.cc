#include "runtime/fibers/ask.h"

namespace gangway {

ReactorThread::ReactorThread(std::string name, uint64_t seed) {
  std::promise<Mailbox*> started;
  std::future<Mailbox*> mailbox = started.get_future();
  thread_ = Thread(std::move(name), [this, seed, &started] {
    std::unique_ptr<Reactor> reactor = Reactor::make_real(seed);
    started.set_value(&reactor->mailbox());
    reactor->run_until([this] { return stop_; });
  });
  mailbox_ = mailbox.get();
}

ReactorThread::~ReactorThread() {
  mailbox_->post([this] { stop_ = true; });
}

}  // namespace gangway
