// Many simulated workers in one process: each with a connection of its own, each calling
// Synchronize when its call is due, whatever became of the one before.
//
//   Tally tally = Fleet(&sample, options).Run();
//
// A worker takes a lease, tells what it "tried" since its last call in each call, tells an
// incumbent in its first, and ends the lease in the first call after its time, in which it asks for
// the next. Results that were not answered for are sent again as they were.
#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <queue>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "bench/planner/sample.h"
#include "bench/planner/tally.h"
#include "warpsmith/v1/planner.pb.h"

namespace warpsmith::bench {

// Of the processes of one machine alike, since its start.
int64_t MonotonicUs();

// Workers to a certificate, as a machine has cards.
inline constexpr int kCards = 8;
// Of the machine of that number, in the authority's folder; its workers are NAME-cuda0 and so on.
std::string MachineName(int machine);

struct FleetOptions {
  std::string address;       // or several, with commas between them
  std::string certificates;  // an authority's folder; "": no TLS
  int first = 0;             // number of the first worker
  int count = 0;
  // Between calls; 0: as the planner asks.
  double interval_s = 10;
  double lease_s = 20;
  double trials_per_second = 4;  // of a worker with a lease
  double ramp_s = 10;            // first calls are spread over it
  // MonotonicUs. First calls begin at `start`; the window is [from, until); calls are made until
  // `end`.
  int64_t start_us = 0, from_us = 0, until_us = 0, end_us = 0;
};

class Fleet {
 public:
  // `sample` outlives the fleet.
  Fleet(const Sample* sample, const FleetOptions& options);
  ~Fleet();
  // Blocks until `end`.
  Tally Run();

 private:
  struct Worker;
  using Due = std::pair<int64_t, int>;  // when, which worker

  void Dial(Worker& worker);
  void Send(Worker& worker);
  void Prepare(Worker& worker, int64_t now_us);
  void Done(Worker& worker, const grpc::Status& status);
  void Learn(Worker& worker, const v1::SynchronizeReply& reply, int64_t now_us);
  void Refused(Worker& worker, const grpc::Status& status);
  void At(int64_t when_us, const Worker& worker);
  void Count(const char* name, int64_t count = 1);

  const Sample& sample_;
  const FleetOptions options_;
  std::vector<std::unique_ptr<Worker>> workers_;
  // By machine; of the thread of Run.
  std::map<int, std::shared_ptr<grpc::ChannelCredentials>> credentials_;

  // Guards what is below; a worker belongs to whoever took it from the queue, or to its call.
  std::mutex mutex_;
  std::condition_variable wake_;
  std::priority_queue<Due, std::vector<Due>, std::greater<Due>> queue_;
  int under_way_ = 0;
  std::mt19937_64 random_{1};
  Tally tally_;
};

}  // namespace warpsmith::bench
