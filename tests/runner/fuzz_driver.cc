// A main() for fuzz targets where libFuzzer is not linked: every file of the corpus folder, then
// seeded mutations of them (GW_FUZZ_RUNS, default 2000). The failing run is named on standard
// error:
//   x_fuzz ir/x_corpus           runs them all
//   x_fuzz ir/x_corpus 1234      runs mutation 1234 alone
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

#include "runtime/base/environment.h"
#include "tests/support/seed.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Bytes = std::vector<uint8_t>;

char current_run[256];  // The signal handler prints it.

void report_and_die(int signal) {
  if (write(STDERR_FILENO, current_run, std::string_view(current_run).size()) < 0) _exit(3);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

std::vector<Bytes> read_corpus(const char* folder) {
  std::vector<std::filesystem::path> paths;
  if (std::filesystem::is_directory(folder)) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) paths.push_back(entry);
  }
  std::sort(paths.begin(), paths.end());  // One seed means one sequence on every file system.
  std::vector<Bytes> corpus(1);           // The empty input is one too.
  for (const auto& path : paths) {
    std::ifstream in(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return corpus;
}

// Changes one thing: a bit, a byte, the end, a repeated or removed piece, a piece of another input.
void mutate(Bytes& bytes, const std::vector<Bytes>& corpus, std::mt19937_64& random) {
  const auto below = [&](size_t n) { return n ? static_cast<size_t>(random() % n) : 0; };
  const size_t at = below(bytes.size());
  const size_t length = below(std::min<size_t>(bytes.size() - at, 64) + 1);
  const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(at);
  const auto end = begin + static_cast<std::ptrdiff_t>(length);
  switch (below(6)) {
    case 0:
      if (!bytes.empty()) bytes[at] ^= static_cast<uint8_t>(1u << below(8));
      break;
    case 1:
      if (!bytes.empty()) bytes[at] = static_cast<uint8_t>(random());
      break;
    case 2: bytes.resize(at); break;
    case 3: bytes.erase(begin, end); break;
    case 4: {
      const Bytes piece(begin, end);
      bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), piece.begin(), piece.end());
      break;
    }
    default: {
      const Bytes& other = corpus[below(corpus.size())];
      const size_t from = below(other.size());
      const size_t count = below(std::min<size_t>(other.size() - from, 64) + 1);
      bytes.insert(begin, other.begin() + static_cast<std::ptrdiff_t>(from),
                   other.begin() + static_cast<std::ptrdiff_t>(from + count));
    }
  }
}

void run_mutation(const std::vector<Bytes>& corpus, uint64_t seed, uint64_t run) {
  std::seed_seq sequence{seed, run};
  std::mt19937_64 random(sequence);
  Bytes bytes = corpus[random() % corpus.size()];
  for (uint64_t changes = 1 + random() % 4; changes > 0; --changes) mutate(bytes, corpus, random);
  std::snprintf(current_run, sizeof(current_run), "fuzz: failed at mutation %llu of seed %llu\n",
                static_cast<unsigned long long>(run), static_cast<unsigned long long>(seed));
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s CORPUS_FOLDER [MUTATION]\n", argv[0]);
    return 2;
  }
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    std::signal(signal, report_and_die);
  }
  const std::vector<Bytes> corpus = read_corpus(argv[1]);
  const uint64_t seed = gangway::tests::test_seed();
  if (argc > 2) {
    run_mutation(corpus, seed, std::strtoull(argv[2], nullptr, 10));
    return 0;
  }
  for (size_t i = 0; i < corpus.size(); ++i) {
    std::snprintf(current_run, sizeof(current_run), "fuzz: failed at input %zu of the corpus\n", i);
    LLVMFuzzerTestOneInput(corpus[i].data(), corpus[i].size());
  }
  const std::optional<std::string> runs = gangway::environment_value("GW_FUZZ_RUNS");
  const uint64_t count = runs ? std::strtoull(runs->c_str(), nullptr, 10) : 2000;
  for (uint64_t run = 0; run < count; ++run) run_mutation(corpus, seed, run);
  std::printf("%zu inputs and %llu mutations passed\n", corpus.size(),
              static_cast<unsigned long long>(count));
  return 0;
}
