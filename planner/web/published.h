// The published copy of the state: what viewers of the page are shown, so that none of them asks
// the core.
//
//   Published published("x7", &absl::Now);
//   published.Take(view);                               // on the board's thread
//   published.Since("")->json;                          // all of it; its key is "x7-1"
//   if (published.Await("x7-1", absl::Seconds(1))) ...  // there is more
//   published.Since("x7-1")->json;                      // what changed
//
// An update is what changed since the key that its reader has; or all of it, where the reader has
// none, one of another process, or one of so long ago that what went since then is forgotten. It
// costs what changed, and is made once for all who have the same key. What happened, the news, is
// told from records as they follow one another, so that it says nothing that is not durable; what
// came and went between two views is not in it.
//
// Take is called from one thread at a time, all else from any.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "planner/service/service.h"
#include "planner/web/ledger.h"
#include "planner/web/news.h"

namespace warpsmith::web {

// Tasks, workers or runs that went: readers of before get all of it.
inline constexpr size_t kMaxGone = 20'000;
// Updates that are kept for others with the same key.
inline constexpr size_t kMaxMade = 16;

class Published {
 public:
  using DateSource = std::function<absl::Time()>;
  struct Made {
    std::string key;
    std::string json;
  };
  using Update = std::shared_ptr<const Made>;

  // `process`: of this one alone; letters and digits.
  Published(std::string process, DateSource date);

  void Take(const planner::View& view);

  // JSON: {"key": "x7-3", "full": false, "revision": 12, "tasks": [row, ...], "gone": {...}, ...}.
  Update Since(std::string_view key) const;
  // Whether something came after that key within that time; true where the key is another
  // process's.
  bool Await(std::string_view key, absl::Duration limit) const;
  // Nobody waits any more, and there is nothing more.
  void Close();
  // Whether that was called, or is within that time.
  bool AwaitClose(absl::Duration limit) const;
  bool closed() const { return AwaitClose(absl::ZeroDuration()); }

 private:
  // -1: all of it is wanted.
  int64_t AtOf(std::string_view key) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  Update Make(int64_t at) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // Whether anything changed.
  bool TakeRecords(const planner::Changes& changes, int64_t at)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool TakeProgress(const std::map<std::string, planner::Progress>& progress, int64_t at)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string process_;
  const DateSource date_;
  mutable absl::Mutex mutex_;
  int64_t at_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t revision_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t archived_runs_ ABSL_GUARDED_BY(mutex_) = 0;
  Ledger runs_ ABSL_GUARDED_BY(mutex_){kMaxGone};
  Ledger tasks_ ABSL_GUARDED_BY(mutex_){kMaxGone};
  Ledger workers_ ABSL_GUARDED_BY(mutex_){kMaxGone};
  Ledger progress_ ABSL_GUARDED_BY(mutex_){0};  // by task; that it is over its row says
  News news_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  mutable std::map<int64_t, Update> made_ ABSL_GUARDED_BY(mutex_);  // at at_, by the reader's
};

}  // namespace warpsmith::web
