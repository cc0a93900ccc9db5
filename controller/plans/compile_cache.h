// CompileCache: compiled functions by the content of the function and of its context, and by the
// user's lines that it came from, since errors at run time name these.
//
// Bounded by bytes: beyond `bytes_max` the entries that were used longest ago are dropped. A caller
// keeps a compiled function as long as it likes; the next caller compiles a dropped one again.
//
// Threads: any. Two threads that want the same function at one time both compile it.
// Errors: those of compile_function().
// Cost: a hash of the function; its passes where the cache does not hold it.
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "ir/transforms/pipeline.h"
#include "runtime/base/hash.h"

namespace gangway {

inline constexpr size_t kCompileCacheBytesMax = size_t{256} << 20;

class CompileCache {
 public:
  explicit CompileCache(size_t bytes_max = kCompileCacheBytesMax) : bytes_max_(bytes_max) {}

  std::shared_ptr<const Compiled> compile(const Function& function, const CallContext& context,
                                          const PassWatch& watch = {});

  // Contents now, and how often the cache had what was asked for.
  struct Counts {
    size_t entries = 0, bytes = 0, hits = 0;
  };
  Counts counts() const;

 private:
  using Key = std::tuple<Hash128, Hash128, Hash128>;
  struct Entry {
    std::shared_ptr<const Compiled> compiled;
    size_t bytes = 0;
    std::list<Key>::iterator use;
  };

  std::shared_ptr<const Compiled> find(const Key& key);
  std::shared_ptr<const Compiled> keep(const Key& key, Compiled compiled);

  const size_t bytes_max_;
  mutable std::mutex mutex_;
  std::map<Key, Entry> entries_;
  std::list<Key> uses_;  // The one used last comes first.
  Counts counts_;
};

}  // namespace gangway
