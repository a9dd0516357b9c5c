// The outbox over a disk that fails, and a process that dies, at each moment there is.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "worker/daemon/memory_file.h"
#include "worker/daemon/outbox.h"
#include "worker/daemon/testing.h"

namespace warpsmith::daemon {
namespace {

v1::Lease MakeLease(const std::string& id) {
  v1::Lease lease;
  lease.set_id(id);
  lease.set_task_id("r1/softmax@host");
  lease.set_fence(1);
  return lease;
}

// Uses an outbox as a worker does, at random, and knows what the outbox owes it.
class User {
 public:
  User(MemoryFile& disk, uint64_t seed, Form form) : disk_(disk), random_(seed), form_(form) {
    outbox_ = *Outbox::Open(*disk_.Open());
  }

  // One thing that a worker does. What is owed is counted when it has been done.
  void Act() {
    const int choice = Draw(0, 9);
    if (choice < 5) {
      v1::Trial trial;
      trial.set_id(lease_.id() + "/" + std::to_string(++trials_));
      trial.set_reason(std::string(Draw(0, 300), 'x'));
      outbox_->AddTrial(lease_, trial);
      if (alive()) waiting_.push_back(trial.id());
    } else if (choice < 6) {
      v1::Incumbent incumbent;
      incumbent.mutable_trial()->set_id(lease_.id() + "/" + std::to_string(trials_));
      incumbent.set_speedup(1 + 0.01 * ++incumbents_);
      outbox_->AddIncumbent(lease_, incumbent);
      if (alive()) incumbent_ = incumbent.speedup();
    } else if (choice < 8) {
      Send(Draw(1, 4000));
    } else if (choice < 9) {
      Answer();
    } else {
      lease_ = MakeLease("L" + std::to_string(++leases_));
      incumbent_.reset();
    }
  }

  // The process ends here, and another begins. With the power goes what was neither synced nor an
  // incumbent nor sent.
  void Die(bool power) {
    outbox_.reset();
    disk_.set_plan(nullptr);
    dead_ = false;
    if (power) disk_.LosePower(Draw(0, disk_.unsynced()), Draw(0, 400));
    outbox_ = *Outbox::Open(*disk_.Open());
    CheckOwed(power);
    // What came back is what counts from here on.
    waiting_.clear();
    sent_.clear();
    Send(INT64_MAX);
  }

  // From the call of this number on (0 is the next) nothing that this process does has an effect,
  // but for what `first` says of that one.
  void DieAtCall(int number, FileFault first) {
    disk_.set_plan([this, number, first, calls = 0](absl::string_view) mutable {
      if (calls++ < number) return FileFault::kNone;
      return std::exchange(dead_, true) ? FileFault::kFails : first;
    });
  }
  bool alive() const { return !dead_; }

  // All that is owed is there once, in the order in which it came; what was sent as it was sent.
  void CheckOwed(bool power_was_lost) {
    std::set<std::string> seen;
    std::vector<std::string> trials;
    std::optional<double> incumbent;
    std::map<std::string, std::string> batches = sent_;
    for (const v1::LeaseResult& sent : outbox_->Next(INT64_MAX, form_)) {
      const v1::LeaseResult result = testing::Opened(sent);
      for (const v1::Trial& trial : result.trials().trials()) {
        INFO("trial " << trial.id() << " is there twice");
        CHECK(seen.insert(trial.id()).second);
      }
      if (result.lease_id() == lease_.id() && result.has_incumbent()) {
        incumbent = result.incumbent().speedup();
      }
      bool was_sent = false;  // of its trials
      for (const auto& [key, bytes] : PartsOf(result)) {
        if (ever_sent_.count(key) == 0) continue;
        CHECK(bytes == ever_sent_[key]);
        batches.erase(key);
        was_sent |= result.trials().trials_size() > 0 && key == result.trials().trials(0).id();
      }
      if (was_sent) continue;
      for (const v1::Trial& trial : result.trials().trials()) {
        INFO("trial " << trial.id() << " was sent, and is told again in another batch");
        CHECK(sent_trials_.count(trial.id()) == 0);
        trials.push_back(trial.id());
      }
    }
    for (const auto& [key, bytes] : batches) {
      INFO("batch " << key << " was sent and not answered");
      CHECK(bytes.empty());
    }
    if (incumbent_) CHECK(incumbent.value_or(0) >= *incumbent_);
    // With the power a tail of what was never sent may go.
    const size_t owed = power_was_lost ? std::min(waiting_.size(), trials.size()) : waiting_.size();
    REQUIRE(trials.size() >= owed);
    CHECK(std::equal(waiting_.begin(), waiting_.begin() + owed, trials.begin()));
  }

  Outbox& outbox() { return *outbox_; }

 private:
  int Draw(int low, int high) { return std::uniform_int_distribution<>(low, high)(random_); }

  // Its trials, named by the first, and its incumbent, which may go ahead of them.
  static std::map<std::string, std::string> PartsOf(const v1::LeaseResult& result) {
    std::map<std::string, std::string> parts;
    if (result.trials().trials_size() > 0) {
      v1::LeaseResult trials = result;
      trials.clear_incumbent();
      parts[result.trials().trials(0).id()] = trials.SerializeAsString();
    }
    if (result.has_incumbent()) {
      v1::LeaseResult incumbent = result;
      incumbent.clear_trials();
      incumbent.clear_sealed();
      parts["incumbent " + std::to_string(result.incumbent().speedup())] =
          incumbent.SerializeAsString();
    }
    return parts;
  }

  void Send(int64_t max_bytes) {
    const std::vector<v1::LeaseResult> results = outbox_->Next(max_bytes, form_);
    if (!alive()) return;
    in_flight_.clear();
    for (const v1::LeaseResult& sent : results) {
      const v1::LeaseResult result = testing::Opened(sent);
      for (const auto& [key, bytes] : PartsOf(result)) {
        if (ever_sent_.count(key) != 0) CHECK(ever_sent_[key] == bytes);
        sent_[key] = ever_sent_[key] = bytes;
      }
      in_flight_.push_back(result);
      for (const v1::Trial& trial : result.trials().trials()) {
        sent_trials_.insert(trial.id());
        waiting_.erase(std::remove(waiting_.begin(), waiting_.end(), trial.id()), waiting_.end());
      }
      if (result.has_incumbent() && result.lease_id() == lease_.id()) incumbent_.reset();
    }
  }

  // The planner has recorded all of the last request, or its first batch's lease.
  void Answer() {
    if (in_flight_.empty()) return;
    const bool all = Draw(0, 2) > 0;
    v1::SynchronizeReply reply;
    for (const v1::LeaseResult& result : in_flight_) {
      if (!all && result.lease_id() != in_flight_[0].lease_id()) continue;
      // `heard` is the highest.
      v1::SynchronizeReply one;
      testing::Record(result, one);
      reply.MergeFrom(one);
      for (const auto& [key, bytes] : PartsOf(result)) sent_.erase(key);
    }
    in_flight_.clear();
    outbox_->Recorded(reply);
  }

  MemoryFile& disk_;
  std::mt19937_64 random_;
  const Form form_;
  std::unique_ptr<Outbox> outbox_;
  v1::Lease lease_ = MakeLease("L0");
  int trials_ = 0, incumbents_ = 0, leases_ = 0;
  bool dead_ = false;
  std::vector<v1::LeaseResult> in_flight_;
  // Owed: trials that were added and never sent, oldest first; the last incumbent of the lease,
  // unless it was sent; what was sent and not answered, as it was.
  std::vector<std::string> waiting_;
  std::optional<double> incumbent_;
  std::map<std::string, std::string> sent_;
  std::map<std::string, std::string> ever_sent_;
  std::set<std::string> sent_trials_;
};

TEST_CASE("a process may die at each call that its outbox makes of the disk") {
  constexpr int kActs = 60;
  const FileFault first = GENERATE(FileFault::kFails, FileFault::kPart, FileFault::kDoneButFails);
  const bool power = GENERATE(false, true);
  const Form form = GENERATE(Form::kSealed, Form::kPlain);
  int deaths = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    INFO("seed " << seed << ", fault " << static_cast<int>(first) << ", power " << power);
    MemoryFile disk;
    User user(disk, seed, form);
    for (int round = 0; round < 4; ++round) {
      user.DieAtCall(static_cast<int>(seed) + 5 * round, first);
      for (int act = 0; act < kActs && user.alive(); ++act) user.Act();
      deaths += user.alive() ? 0 : 1;
      user.Die(power);
    }
  }
  CHECK(deaths > 100);
}

TEST_CASE("a disk that is full or fails to flush for a while loses nothing") {
  const bool power = GENERATE(false, true);
  const Form form = GENERATE(Form::kSealed, Form::kPlain);
  for (uint64_t seed = 0; seed < 60; ++seed) {
    INFO("seed " << seed << ", power " << power);
    MemoryFile disk;
    User user(disk, seed, form);
    for (int round = 0; round < 4; ++round) {
      for (int act = 0; act < 10; ++act) user.Act();
      if (round % 2 == 0) {
        disk.set_capacity(static_cast<int64_t>(disk.bytes().size() + 100 * round));
      } else {
        disk.set_plan([](absl::string_view call) {
          return call == "Sync" ? FileFault::kFails : FileFault::kNone;
        });
      }
      for (int act = 0; act < 20; ++act) user.Act();
      disk.set_capacity(INT64_MAX);
      disk.set_plan(nullptr);
      user.outbox().Next(1, form);  // as soon as it can
      user.Die(power);
    }
  }
}

TEST_CASE("what is damaged in the file costs what comes after it, and is no danger") {
  constexpr int kTrials = 20, kFirst = 10;  // of one length
  MemoryFile disk;
  std::string whole;
  {
    auto outbox = *Outbox::Open(*disk.Open());
    for (int i = 0; i < kTrials; ++i) {
      v1::Trial trial;
      trial.set_id("L0/" + std::to_string(kFirst + i));
      outbox->AddTrial(MakeLease("L0"), trial);
    }
    whole = disk.bytes();
  }
  const size_t record = whole.size() / kTrials;
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] ^= 1 << (at % 8);
    disk.set_bytes(damaged);
    auto outbox = *Outbox::Open(*disk.Open());
    const auto results = outbox->Next(INT64_MAX, Form::kPlain);
    REQUIRE(results.size() <= 1);
    const auto& trials = results.empty() ? v1::TrialBatch() : results[0].trials();
    REQUIRE(trials.trials_size() == at / record);
    for (int i = 0; i < trials.trials_size(); ++i) {
      CHECK(trials.trials(i).id() == "L0/" + std::to_string(kFirst + i));
    }
  }
}

TEST_CASE("a file that is never empty when the planner answers does not grow without end") {
  MemoryFile disk;
  auto outbox = *Outbox::Open(*disk.Open());
  const v1::Lease lease = MakeLease("L0");
  v1::SynchronizeReply reply;
  reply.add_recorded(lease.id());
  int next = 0, told = 0;
  const auto add = [&] {
    v1::Trial trial;
    trial.set_id("L0/" + std::to_string(next++));
    trial.set_reason(std::string(64 << 10, 'x'));
    outbox->AddTrial(lease, trial);
  };
  add();
  for (int i = 0; i < 400; ++i) {
    for (const auto& result : outbox->Next(INT64_MAX, Form::kPlain))
      told += result.trials().trials_size();
    add();
    outbox->Recorded(reply);
    CHECK(disk.bytes().size() < 2 * kMaxPastBytes);
    CHECK(told == next - 1);
  }
  outbox.reset();
  outbox = *Outbox::Open(*disk.Open());
  const auto left = outbox->Next(INT64_MAX, Form::kPlain);
  REQUIRE(left.size() == 1);
  CHECK(left[0].trials().trials_size() == 1);
}

}  // namespace
}  // namespace warpsmith::daemon
