// Mailbox: how any thread hands a function to a reactor's thread.
//
// A lock-free stack of intrusive nodes that the reactor takes whole and delivers in posting order.
// The stack's head also says whether the reactor is asleep: only a post that finds it asleep pays
// for a wake-up (one write to an eventfd), so a burst of posts costs one.
//
//   head:  null (reactor awake, empty) | kAsleep | newest mail -> ... -> oldest mail
//
// Threads: post() anywhere; delivery on the reactor's thread, outside any fiber: a delivered
// function must not suspend (it spawns a fiber or fulfils a promise). Posts by one thread are
// delivered in order.
// Ownership: the mailbox is destroyed with its reactor, so every thread that posts must have ended
// by then (join it first). The sender owns an intrusive node and may post it again once it was
// delivered.
// Cost: 20-50 ns, and 1-2 us for the post that wakes. post(function) allocates; post(Mail&) does
// not.
//
// Example:
//   reactor.mailbox().post([promise = std::move(promise)]() mutable { promise.set(3); });
#pragma once

#include <atomic>
#include <concepts>
#include <memory>
#include <utility>

namespace gangway {

namespace internal {
class Port;
}

// An intrusive node: derive from it, or keep one as a member.
struct Mail {
  using Deliver = void (*)(Mail& mail);
  explicit Mail(Deliver function, Deliver if_never = nullptr)
      : deliver(function), discard(if_never) {}

  Deliver deliver;
  Deliver discard;       // Called instead when the reactor ends first.
  Mail* next = nullptr;  // Owned by the mailbox while posted.
};

class Mailbox {
 public:
  explicit Mailbox(const internal::Port& port) : port_(port) {}
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  void post(Mail& mail) noexcept;

  template <class Function>
    requires std::invocable<Function&>
  void post(Function function) {
    struct Letter : Mail {
      explicit Letter(Function f) : Mail(&Letter::run, &Letter::free), body(std::move(f)) {}
      static void run(Mail& mail) {
        std::unique_ptr<Letter> self(static_cast<Letter*>(&mail));
        self->body();
      }
      static void free(Mail& mail) { delete static_cast<Letter*>(&mail); }
      Function body;
    };
    post(static_cast<Mail&>(*new Letter(std::move(function))));
  }

  // For the reactor. deliver_all() returns whether there was any mail.
  bool deliver_all();
  // Returns false, and stays awake, when mail has arrived.
  bool fall_asleep();
  void wake_up();

 private:
  Mail* take_all();

  std::atomic<Mail*> head_{nullptr};
  const internal::Port& port_;
};

}  // namespace gangway
