// socket_stream(): a connected socket as a KJ stream that waits for room only when there is none.
//
// Why: KJ's own stream watches its socket for room at all times, so the system wakes a process each
// time that its peer has read what it wrote, though nothing waits for that. For small frames that
// are exchanged, those wake-ups are half of all. After a read that emptied the socket, this one
// also waits at once instead of asking the system whether it is empty.
//
// Threads: the reactor's thread.
// Ownership: the stream owns the socket; the event port outlives it.
// Errors: like KJ's stream: DISCONNECTED when the peer has gone, thrown at once or by the promise.
// Cost: one system call a write and a read; waiting for room costs four more.
#pragma once

#include <kj/async-unix.h>
#include <kj/io.h>

#include "runtime/net/transport.h"

namespace gangway::internal {

// The socket is connected and does not block.
Stream socket_stream(kj::UnixEventPort& port, kj::AutoCloseFd socket);
// Takes the socket from a stream of KJ's.
Stream socket_stream(kj::UnixEventPort& port, Stream connected);

}  // namespace gangway::internal
