// Picks the messages of one kind from all that a fake peer was sent, for tests.
//
// Threads: pure.
#pragma once

#include <vector>

#include "protocol/messages.h"

namespace gangway {

template <class T>
std::vector<T> all_of(const std::vector<Message>& messages) {
  std::vector<T> found;
  for (const Message& message : messages) {
    if (const T* item = std::get_if<T>(&message)) found.push_back(*item);
  }
  return found;
}

}  // namespace gangway
