#include "runtime/fibers/mailbox.h"

#include "runtime/fibers/port.h"

namespace gangway {
namespace {

void never_delivered(Mail&) {}

// The head's value while the reactor sleeps; only its address matters.
Mail* asleep() {
  static Mail marker(never_delivered);
  return &marker;
}

}  // namespace

Mailbox::~Mailbox() {
  for (Mail* mail = take_all(); mail != nullptr;) {
    Mail* next = mail->next;
    if (mail->discard != nullptr) mail->discard(*mail);
    mail = next;
  }
}

void Mailbox::post(Mail& mail) noexcept {
  Mail* head = head_.load(std::memory_order_relaxed);
  do {
    mail.next = head == asleep() ? nullptr : head;
  } while (!head_.compare_exchange_weak(head, &mail, std::memory_order_acq_rel,
                                        std::memory_order_relaxed));
  if (head == asleep()) port_.wake();
}

Mail* Mailbox::take_all() {
  if (head_.load(std::memory_order_relaxed) == nullptr) return nullptr;
  Mail* newest = head_.exchange(nullptr, std::memory_order_acq_rel);
  if (newest == asleep()) return nullptr;
  Mail* oldest = nullptr;
  while (newest != nullptr) {
    Mail* next = newest->next;
    newest->next = oldest;
    oldest = newest;
    newest = next;
  }
  return oldest;
}

bool Mailbox::deliver_all() {
  Mail* mail = take_all();
  const bool any = mail != nullptr;
  while (mail != nullptr) {
    Mail* next = mail->next;  // Delivery may free the node, or post it again.
    mail->deliver(*mail);
    mail = next;
  }
  return any;
}

bool Mailbox::fall_asleep() {
  Mail* expected = nullptr;
  return head_.compare_exchange_strong(expected, asleep(), std::memory_order_acq_rel);
}

void Mailbox::wake_up() {
  Mail* expected = asleep();
  head_.compare_exchange_strong(expected, nullptr, std::memory_order_acq_rel);
}

}  // namespace gangway
