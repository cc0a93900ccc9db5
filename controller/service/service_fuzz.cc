// Any bytes that a peer sends to a controller's address (the preamble, then RPC messages or frames)
// end its connection at worst: the controller still answers the next one.
#include "controller/service/service.h"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <vector>

#include "protocol/rpc_values.h"
#include "runtime/fibers/await.h"
#include "runtime/net/server.h"
#include "runtime/net/sim_network.h"

namespace {

using namespace gangway;

void pass(Reactor& reactor, Duration time) {
  WaitQueue().wait_until_ns("for time to pass", reactor.clock().now_ns() + time.count());
}

// Reads all bytes and drops them, so that none wait in a pipe of the simulation.
void drain(kj::AsyncIoStream& stream) {
  kj::byte bytes[4096];
  try {
    while (await(stream.tryRead(bytes, 1, sizeof bytes)) > 0) {
    }
  } catch (const Error&) {  // It ended.
  }
}

void send_raw(Reactor& reactor, Network& network, const std::string& address,
              kj::ArrayPtr<const kj::byte> bytes) {
  Stream stream = network.connect(address);
  Fiber reader = reactor.spawn("reader", [&] { drain(*stream); });
  Fiber writer = reactor.spawn("writer", [&] {
    try {
      await(stream->write(bytes.begin(), bytes.size()));
    } catch (const Error& error) {  // Refused half-way.
      if (error.kind() == ErrorKind::kBug) __builtin_trap();
    }
  });
  pass(reactor, std::chrono::milliseconds(1));
  writer.cancel();
  writer.join();
  reader.cancel();
  reader.join();
}

// Replaces the machine that the corpus was recorded on by this one, so that a peer may go on.
std::vector<kj::byte> on_this_machine(const uint8_t* data, size_t size) {
  constexpr std::string_view kRecorded = "00000000-0000-4000-8000-000000000000/pid:[4026531836]";
  static const std::string here = this_machine().identity;
  std::vector<kj::byte> bytes(data, data + size);
  if (here.size() != kRecorded.size()) return bytes;
  for (auto at = bytes.begin();; at += kRecorded.size()) {
    at = std::search(at, bytes.end(), kRecorded.begin(), kRecorded.end());
    if (at == bytes.end()) return bytes;
    std::copy(here.begin(), here.end(), at);
  }
}

size_t hosts_of(Reactor& reactor, Network& network, const std::string& address) {
  Connection connection = Connection::connect(reactor, network, address);
  auto request = connection.bootstrap<wire::Controller>().statusRequest();
  write(request.initVersion(), Version{});
  return await(request.send()).getHosts().size();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto reactor = Reactor::make_simulated();
  reactor->on_unhandled_error = [](const std::string&, const Error& error) {
    if (error.kind() == ErrorKind::kBug) __builtin_trap();
  };
  reactor->run([&] {
    SimNetwork network(*reactor);
    ControllerService controller(*reactor, network.endpoint("controller"),
                                 {.address = "sim:controller"});
    const std::vector<kj::byte> bytes = on_this_machine(data, size);
    send_raw(*reactor, network.endpoint("peer"), controller.address(),
             kj::arrayPtr(bytes.data(), bytes.size()));
    pass(*reactor, std::chrono::seconds(20));  // Past the preamble's time limit.
    if (hosts_of(*reactor, network.endpoint("next"), controller.address()) != 0) __builtin_trap();
  });
  return 0;
}
