// LivePage: serves the page of a running controller. Its data come from the controller itself, by
// the same functions as those of `gangway ps`, `gangway top` and `gangway graph`.
//
// Threads: the reactor's thread; destroying it suspends briefly. A thread of its own prints graphs
// and timelines.
// Bounds: the texts of kGraphsMax graphs are kept; history.h bounds the curves.
// Errors: as PageServer.
#pragma once

#include <list>
#include <memory>
#include <string>

#include "controller/service/service.h"
#include "runtime/fibers/background.h"
#include "runtime/fibers/fiber_group.h"
#include "tools/live/history.h"
#include "tools/live/page_server.h"

namespace gangway::tool {

class LivePage {
 public:
  static constexpr size_t kGraphsMax = 4;

  LivePage(Reactor& reactor, Network& network, const std::string& address,
           ControllerService& service, std::shared_ptr<TokenTable> tokens, Logger log);
  ~LivePage();

  const std::string& address() const { return server_->address(); }

 private:
  struct ShownText {
    std::shared_ptr<const Plan> plan;
    std::shared_ptr<const std::string> text;
  };
  ClusterStatus status() const;
  std::string cluster() const;
  std::shared_ptr<const std::string> graph(const GraphWanted& wanted);
  std::string timeline(const GraphWanted& wanted);
  SessionId program_of(const std::string& name) const;
  void sample();

  Reactor& reactor_;
  Controller& controller_;
  History history_;
  std::list<ShownText> graphs_;  // The one that was asked for last comes first.
  Background background_;
  WaitQueue next_sample_;  // Nothing wakes it early.
  FiberGroup fibers_;
  std::unique_ptr<PageServer> server_;
};

}  // namespace gangway::tool
