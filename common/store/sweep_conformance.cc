// Of walks that remove what nothing names (store.h, Sweep): whatever the order of what happens,
// nothing that is named goes, and all else does in the end.
#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/sha256.h"
#include "common/store/conformance.h"

namespace warpsmith::store {
namespace {

constexpr int kSubjects = 6;
constexpr int kBlobs = 14;
constexpr size_t kViews = 12;  // that somebody may still go by

// Subjects each name a blob, as events say. Somebody removes what none names, and knows more or
// less late what the log says.
class Naming {
 public:
  Naming(Reopen reopen, uint64_t seed) : reopen_(std::move(reopen)), random_(seed) {
    for (int i = 0; i < kBlobs; ++i) {
      blobs_.push_back(std::string(i % 2 == 0 ? 20 : 3'000, static_cast<char>('a' + i)));
    }
    Open();
    last_ = *store_->LastRevision();
    Look();
  }

  void Step() {
    const int what = Below(20);
    if (what < 7) Name();
    if (what >= 7 && what < 16) Walk();
    if (what == 16) Put();
    if (what == 17) Open();
    if (what == 18) Pass(Below(5));
    if (what == 19) Pass(-Below(2));  // the clock is set back
    Check();
  }

  // What is there at last.
  std::set<std::string> Left() {
    for (int walks = 0; walks < 4; ++walks) {
      Pass(100);
      Look();
      sweep_ = SweepBy(views_.back());
      do {
        const auto swept = store_->SweepBlobs(epoch_, sweep_);
        INFO(swept.status().ToString());
        REQUIRE(swept.ok());
      } while (!sweep_.at.empty());
      Check();
      CheckRemoved(sweep_.keep_s);
    }
    std::set<std::string> left;
    for (const std::string& blob : blobs_) {
      if (store_->Get(base::Sha256Hex(blob)).ok()) left.insert(base::Sha256Hex(blob));
    }
    return left;
  }
  std::set<std::string> Named() const {
    std::set<std::string> named;
    for (const auto& [subject, blob] : names_) named.insert(base::Sha256Hex(blobs_[blob]));
    return named;
  }

 private:
  struct View {
    int64_t revision = 0;
    std::set<std::string> named;
  };

  int Below(int limit) { return static_cast<int>(random_() % static_cast<uint64_t>(limit)); }

  // As after a crash: the walk under way is forgotten, or gone on with.
  void Open() {
    store_ = nullptr;
    store_ = reopen_();
    epoch_ = *store_->Lead();
    if (Below(2) == 0) sweep_.at.clear();
  }

  // A subject names another blob, and brings it; perhaps twice, the answer was lost.
  void Name() {
    const int blob = Below(kBlobs);
    names_[Below(kSubjects)] = blob;
    const Batch batch{epoch_, last_, {absl::StrCat("names ", blob)}, {blobs_[blob]}};
    REQUIRE(store_->Commit(batch).ok());
    if (Below(4) == 0) REQUIRE(store_->Commit(batch).ok());
    ++last_;
    Brought(blob);
    Look();
  }
  void Put() {
    const int blob = Below(kBlobs);
    REQUIRE(store_->Put(blobs_[blob]).ok());
    Brought(blob);
  }
  void Brought(int blob) {
    unnamed_since_[blob] = now_s_;
    for (const auto& [subject, named] : names_) unnamed_since_.erase(named);
    for (int other = 0; other < kBlobs; ++other) {
      if (there_.count(other) > 0 && !IsNamed(other)) unnamed_since_.emplace(other, now_s_);
    }
    there_.insert(blob);
  }
  bool IsNamed(int blob) const {
    return std::any_of(names_.begin(), names_.end(),
                       [&](const auto& name) { return name.second == blob; });
  }
  void Pass(int64_t seconds) {
    now_s_ += seconds;
    for (auto& [blob, since] : unnamed_since_) since = std::min(since, now_s_);
  }
  void Look() {
    views_.push_back({last_, Named()});
    if (views_.size() > kViews) views_.pop_front();
  }

  static Sweep SweepBy(const View& view) {
    Sweep sweep;
    sweep.named = [named = view.named](const std::string& digest) {
      return named.count(digest) > 0;
    };
    sweep.revision = view.revision;
    return sweep;
  }

  // By the newest view, or by a stale one; also in the middle of a walk.
  void Walk() {
    if (sweep_.at.empty() || Below(4) == 0) {
      std::string at = std::move(sweep_.at);
      sweep_ = SweepBy(views_[static_cast<size_t>(Below(static_cast<int>(views_.size())))]);
      sweep_.at = std::move(at);
    }
    sweep_.now_s = now_s_;
    sweep_.keep_s = Below(4);
    sweep_.most = 1 + static_cast<size_t>(Below(kBlobs));
    Sweep stale = sweep_;
    CHECK(IsStaleEpoch(store_->SweepBlobs(epoch_ - 1, stale).status()));
    stale.revision = last_ + 1;  // of a log that has lost its end since
    const absl::Status lost = store_->SweepBlobs(epoch_, stale).status();
    CHECK((absl::IsFailedPrecondition(lost) && !IsStaleEpoch(lost)));
    const auto swept = store_->SweepBlobs(epoch_, sweep_);
    INFO(swept.status().ToString());
    REQUIRE(swept.ok());
    CheckRemoved(sweep_.keep_s);
  }

  // What has gone was unnamed for so long at least.
  void CheckRemoved(int64_t keep_s) {
    for (auto blob = there_.begin(); blob != there_.end();) {
      if (!absl::IsNotFound(store_->Get(base::Sha256Hex(blobs_[*blob])).status())) {
        ++blob;
        continue;
      }
      INFO("blob " << *blob << " at " << now_s_);
      REQUIRE(unnamed_since_.count(*blob) > 0);
      REQUIRE(now_s_ - unnamed_since_[*blob] >= keep_s);
      unnamed_since_.erase(*blob);
      blob = there_.erase(blob);
    }
  }
  void Check() {
    for (const auto& [subject, blob] : names_) {
      const auto there = store_->Get(base::Sha256Hex(blobs_[blob]));
      INFO("subject " << subject << ", blob " << blob << ": " << there.status().ToString());
      REQUIRE(there.ok());
      REQUIRE(*there == blobs_[blob]);
    }
  }

  const Reopen reopen_;
  std::mt19937_64 random_;
  std::vector<std::string> blobs_;
  std::unique_ptr<Store> store_;
  int64_t epoch_ = 0, last_ = 0, now_s_ = 1'000;
  std::map<int, int> names_;  // blobs by subject
  std::set<int> there_;
  std::map<int, int64_t> unnamed_since_;  // of those, by the lowest time that the clock had since
  std::deque<View> views_;
  Sweep sweep_;
};

}  // namespace

void CheckSweep(const Reopen& reopen, uint64_t seed, int steps) {
  INFO("seed " << seed);
  Naming naming(reopen, seed);
  for (int i = 0; i < steps; ++i) naming.Step();
  CHECK(naming.Left() == naming.Named());
}

}  // namespace warpsmith::store
