#include "tests/controller_memory/many_clients.h"

#include "ir/build/ops.h"
#include "ir/build/program_builder.h"
#include "tests/support/ready_executor.h"

namespace gangway {
namespace {

// A program whose result is one array on all devices.
Program doubled(int64_t devices) {
  ProgramBuilder b("doubled", Mesh{{{"data", devices}}});
  Value x = b.input("x", f32());
  b.output("y", x + x);
  return b.build();
}

}  // namespace

class ManyClients::Host final : public ReadyExecutor {
 public:
  explicit Host(uint32_t devices)
      : ReadyExecutor(devices, {.arena = 1 << 10, .state = 1 << 10, .slots = 1 << 10}) {}

  HostId id;
};

class ManyClients::Owner final : public ClientPeer {
 public:
  void send(const Frame& frame) override {
    const auto done = std::get<RunDoneFrame>(decode(frame));
    if (done.error) throw *done.error;
    ++ended;
  }

  SessionId session;
  PlanId plan;
  uint64_t names = 0, ended = 0;
};

ManyClients::ManyClients(uint32_t hosts, uint32_t devices_per_host)
    : devices_(hosts * devices_per_host) {
  for (uint32_t h = 0; h < hosts; ++h) {
    Host& host = *hosts_.emplace_back(std::make_unique<Host>(devices_per_host));
    host.id = controller_.add_host(
        {.name = cat("host-", h), .devices = devices_per_host, .memory_bytes = int64_t{64} << 30},
        host);
  }
}

ManyClients::~ManyClients() = default;

void ManyClients::add_client() {
  Owner& owner = *owners_.emplace_back(std::make_unique<Owner>());
  owner.session = controller_.programs().add(cat("client-", owners_.size()), "ada", owner);
  owner.names = owner.session.value << 40;
  reactor_->run([&] {
    const SliceId slice = controller_.allocate(owner.session, devices_).id;
    owner.plan = controller_.compile(owner.session, doubled(devices_), {slice}, {2}).id;
  });
}

void ManyClients::remove_client() {
  controller_.session_closed(owners_.back()->session);
  owners_.pop_back();
}

void ManyClients::run_all(int runs) {
  for (int i = 0; i < runs; ++i) {
    for (const auto& owner : owners_) {
      const RunId run(++owner->names);
      const uint64_t ended = owner->ended;
      controller_.on_message(
          owner->session, RunFrame{.plan = owner->plan,
                                   .run = run,
                                   .arguments = {{.input = 0, .bytes = std::vector<std::byte>(4)}},
                                   .outputs = {ArrayId(run.value)}});
      ++last_run_;
      for (const auto& host : hosts_)
        controller_.on_message(host->id, RunDoneFrame{.run = RunId(last_run_)});
      GW_ASSERT(owner->ended == ended + 1, "run ", last_run_, " has not ended");
    }
  }
}

}  // namespace gangway
