// Properties of code generation over random graphs: every legal schedule of a graph gives the same
// answer, and lowering ends with a plan or an error whatever the schedule.
//
// Graphs come by number. A failure says the number, the graph and the schedule;
//   WARPSMITH_PROPERTY_GRAPH=17 bin/codegen_property_test
// does it alone again. WARPSMITH_PROPERTY_GRAPHS says how many (scripts/test.sh --thorough: 3000),
// and WARPSMITH_PROPERTY_PROCESSES by how many processes.
//
// Graphs are worked on in processes of their own, so that an abort is a failure like any other.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <new>
#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/graph/random_graph.h"
#include "worker/codegen/random_schedule.h"
#include "worker/codegen/run_and_compare.h"

namespace warpsmith::codegen {
namespace {

constexpr int kQuickGraphs = 300;  // products of matrices are in one of fifty
constexpr int kTogether = 24;      // graphs compiled at once
constexpr int kMutations = 4;      // of a graph's schedule
constexpr int kMaxShown = 12;      // failures
constexpr size_t kNoteBytes = 1 << 16;

// Graphs that are wrong, and why they are skipped until that is put right.
const std::map<int, const char*> kKnown = {
    {427, "a difference of equal numbers, ten times enlarged: beyond the tolerance of its type"},
};

int FromEnvironment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

// A fifth of them as backward passes are, with as few kernels as can be, and a fifth with products
// of matrices.
bool BothWays(int number) { return number % 5 == 3; }
bool Products(int number) { return number % 5 == 1; }

graph::Graph GraphOf(int number) {
  graph::RandomGraphOptions options;
  options.states = number % 3 == 0;
  options.scans = number % 5 == 0;
  options.equal_extents = number % 2 == 0;
  options.both_ways = BothWays(number);
  options.products = Products(number);
  options.scatters = number % 7 == 5;
  options.ranks = number % 7 == 6;
  options.max_elements = number % 8 == 0 ? 4096 : 1024;  // the host is slow
  graph::Graph graph = graph::RandomGraph(number, options);
  graph.constant_params = number % 2 == 1;
  return graph;
}

std::string TextOf(int number, const graph::Graph& graph, const v1::Schedule& schedule) {
  return absl::StrCat("graph ", number, ":\n", absl::StrJoin(graph::Print(graph), "\n"), "\n",
                      schedule.DebugString());
}

// What a process does and has found, in memory that it shares with the one that started it.
struct Board {
  size_t first = 0;  // of its numbers: those before are done
  size_t at = 0;  // the number it makes trials of; kTogether behind `first` or more: runs them all
  int done = 0, lowered = 0, refused = 0, failed = 0;
  int both_ways = 0;  // schedules whose kernels reduce rows and sum over them
  int products = 0;   // schedules with products of matrices
  int pairs = 0;      // and those with two of one factor together
  int prepared = 0;   // schedules of which something is done once for constant weights
  int beside = 0;     // schedules of which steps run beside each other
  size_t used = 0;    // of failures
  char now[kNoteBytes];
  char failures[16 * kNoteBytes];

  void Note(const std::string& text) {
    const size_t n = std::min(text.size(), kNoteBytes - 1);
    std::memcpy(now, text.data(), n);
    now[n] = 0;
  }
  void Fail(const std::string& text) {
    if (++failed > kMaxShown) return;
    const size_t n = std::min({text.size(), kNoteBytes, sizeof(failures) - 1 - used});
    std::memcpy(failures + used, text.data(), n);
    used += n;
  }
};

// Schedules of one graph: a random one, and what mutations of it are taken.
std::vector<Trial> TrialsOf(int number, Board& board) {
  const graph::Graph graph = GraphOf(number);
  Random random(number);
  board.Note(absl::StrCat("choosing a schedule of graph ", number, "\n",
                          absl::StrJoin(graph::Print(graph), "\n")));
  const v1::Schedule schedule = RandomSchedule(graph, TestTarget(), random, BothWays(number));
  const bool special = number % 4 == 1;
  std::vector<Trial> trials = {{graph, schedule, static_cast<uint64_t>(number), special}};
  const graph::Graph rewritten = Rewrite(graph, schedule.rewrites()).value();
  const auto first = Lower(rewritten, schedule, TestTarget());
  board.both_ways += first.ok() && absl::StrContains(first->source(), "ws::rows_total<");
  board.products += first.ok() && absl::StrContains(first->source(), "ws::contract_plain<");
  board.prepared += first.ok() && first->has_prepare();
  board.beside += first.ok() && std::any_of(first->steps().begin(), first->steps().end(),
                                            [](const v1::Step& step) { return step.lane() > 0; });
  board.pairs += first.ok() && absl::StrContains(first->source(), "kPair = true");
  for (int m = 0; m < kMutations; ++m) {
    const v1::Schedule mutated = Mutated(schedule, rewritten, random);
    board.Note(absl::StrCat("lowering a mutated schedule of ", TextOf(number, graph, mutated)));
    const auto plan = Lower(rewritten, mutated, TestTarget());
    if (plan.ok()) {
      ++board.lowered;
      if (trials.size() < 2 && number % 2 == 0)
        trials.push_back({graph, mutated, trials[0].seed, special});
    } else {
      ++board.refused;
      if (plan.status().code() != absl::StatusCode::kInvalidArgument) {
        board.Fail(absl::StrCat(plan.status().ToString(), "\n", board.now, "\n"));
      }
    }
  }
  return trials;
}

// What is done with a graph, by its number, and then with the trials of many.
struct Steps {
  std::function<std::vector<Trial>(int number, Board& board)> make = TrialsOf;
  std::function<std::vector<absl::Status>(const std::vector<Trial>&)> run = RunAndCompareAll;
};

void Work(const std::vector<int>& numbers, const Steps& steps, Board& board) {
  for (size_t first = 0; first < numbers.size(); first += kTogether) {
    std::vector<Trial> trials;
    std::vector<int> of;
    const size_t end = std::min(numbers.size(), first + kTogether);
    board.first = first;
    for (size_t i = first; i < end; ++i) {
      board.at = i;
      for (Trial& trial : steps.make(numbers[i], board)) {
        trials.push_back(std::move(trial));
        of.push_back(numbers[i]);
      }
    }
    board.Note("running what was lowered");
    board.at = first + kTogether;
    const std::vector<absl::Status> statuses = steps.run(trials);
    for (size_t t = 0; t < trials.size(); ++t) {
      if (statuses[t].ok()) continue;
      board.Fail(absl::StrCat(statuses[t].message().substr(0, statuses[t].message().find('\n')),
                              "\n", TextOf(of[t], trials[t].graph, trials[t].schedule), "\n"));
    }
    board.done += static_cast<int>(end - first);
    board.first = end;
  }
}

// Works on the numbers in a process of its own; after an abort, on what is left of them.
struct Worker {
  std::vector<int> numbers;
  Board* board = nullptr;
  pid_t pid = -1;
  Steps steps = {};

  void Start() {
    board->first = board->at = 0;
    pid = fork();
    REQUIRE(pid >= 0);
    if (pid > 0) return;
    for (int s : {SIGABRT, SIGSEGV, SIGFPE, SIGILL, SIGBUS, SIGTERM}) std::signal(s, SIG_DFL);
    Work(numbers, steps, *board);
    _exit(0);
  }
  // Whether there is more to do. What is done is not done again, nor what ended it: one number, or
  // all that ran together.
  bool Ended(int status) {
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return false;
    board->Fail(absl::StrCat(WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "ended", " while ",
                             board->now, "\n"));
    const size_t first = std::min(board->first, numbers.size());
    const size_t end = std::min(first + kTogether, numbers.size());
    if (board->at < end) numbers.erase(numbers.begin() + static_cast<long>(board->at));
    numbers.erase(numbers.begin(),
                  numbers.begin() + static_cast<long>(board->at < end ? first : end));
    return !numbers.empty();
  }
};

// Runs workers, each with numbers and a board, until all are done.
void RunAll(std::vector<Worker>& workers) {
  size_t running = 0;
  for (Worker& worker : workers) {
    if (worker.numbers.empty()) continue;
    worker.Start();
    ++running;
  }
  while (running > 0) {
    int status = 0;
    const pid_t pid = waitpid(-1, &status, 0);
    REQUIRE(pid > 0);
    for (Worker& worker : workers) {
      if (worker.pid != pid) continue;
      if (worker.Ended(status)) {
        worker.Start();
      } else {
        --running;
      }
    }
  }
}

Board* NewBoard() {
  void* memory =
      mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  return new (memory) Board;
}

TEST_CASE("an abort costs the graph that it is about, or those that ran with it, once",
          "[codegen]") {
  constexpr int kGraphs = 100, kNotMade = 7, kNotRun = 60;
  std::vector<Worker> workers(1);
  Worker& worker = workers[0];
  worker.board = NewBoard();
  for (int number = 1; number <= kGraphs; ++number) worker.numbers.push_back(number);
  worker.steps.make = [](int number, Board&) -> std::vector<Trial> {
    if (number == kNotMade) std::abort();
    return {{{}, {}, static_cast<uint64_t>(number), false}};
  };
  worker.steps.run = [](const std::vector<Trial>& trials) {
    for (const Trial& trial : trials) {
      if (trial.seed == kNotRun) std::abort();
    }
    return std::vector<absl::Status>(trials.size());
  };
  RunAll(workers);
  CHECK(worker.board->failed == 2);
  CHECK(worker.board->done == kGraphs - 1 - kTogether);
}

TEST_CASE("every legal schedule gives the same answer, and none makes lowering abort",
          "[codegen]") {
  const int one = FromEnvironment("WARPSMITH_PROPERTY_GRAPH", 0);
  const int count = FromEnvironment("WARPSMITH_PROPERTY_GRAPHS", kQuickGraphs);
  const int processes = one > 0 ? 1 : FromEnvironment("WARPSMITH_PROPERTY_PROCESSES", 1);
  std::vector<Worker> workers(processes);
  for (int number = 1; number <= count; ++number) {
    if (one == 0 && kKnown.count(number) == 0)
      workers[number % processes].numbers.push_back(number);
  }
  if (one > 0) workers[0].numbers = {one};
  for (const auto& [number, why] : kKnown) WARN("graph " << number << " is skipped: " << why);
  int wanted = 0;
  for (Worker& worker : workers) {
    worker.board = NewBoard();
    wanted += static_cast<int>(worker.numbers.size());
  }
  RunAll(workers);
  int done = 0, lowered = 0, refused = 0, both_ways = 0, products = 0, pairs = 0, prepared = 0,
      beside = 0;
  for (const Worker& worker : workers) {
    const Board& board = *worker.board;
    done += board.done;
    lowered += board.lowered;
    refused += board.refused;
    both_ways += board.both_ways;
    products += board.products;
    pairs += board.pairs;
    prepared += board.prepared;
    beside += board.beside;
    INFO(board.failed << " failures; the first are\n"
                      << std::string_view(board.failures, board.used));
    CHECK(board.failed == 0);
  }
  UNSCOPED_INFO(done << " graphs; mutated schedules: " << lowered << " lowered, " << refused
                     << " refused; " << both_ways << " sum over rows beside them, " << products
                     << " multiply matrices, " << pairs << " by two others at once, " << prepared
                     << " prepare weights, " << beside << " have steps beside each other");
  CHECK(done == wanted);
  if (one == 0) {
    CHECK(lowered > 0);
    CHECK(refused > 0);
    CHECK(both_ways > 0);
    CHECK(products > 0);
    CHECK(prepared > 0);
    CHECK(beside > 0);
    // Seldom is what both are multiplied by even in memory.
    if (count > kQuickGraphs) CHECK(pairs > 0);
  }
}

}  // namespace
}  // namespace warpsmith::codegen
