#include "planner/web/published.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "planner/web/rows.h"

namespace warpsmith::web {
namespace {

// What came since, oldest first, and the names of what went.
void AddRows(const char* name, const Ledger& ledger, int64_t at, std::string& json,
             nlohmann::json& gone) {
  std::vector<const std::string*> rows;
  ledger.ForEachSince(at, [&](const Row& row) {
    if (!row.json.empty()) {
      rows.push_back(&row.json);
    } else if (at >= 0) {
      gone[name].push_back(row.id);
    }
  });
  absl::StrAppend(&json, ",\"", name, "\":[");
  for (auto row = rows.rbegin(); row != rows.rend(); ++row) {
    absl::StrAppend(&json, row == rows.rbegin() ? "" : ",", **row);
  }
  json += ']';
}

}  // namespace

Published::Published(std::string process, DateSource date)
    : process_(std::move(process)), date_(std::move(date)) {}

bool Published::TakeProgress(const std::map<std::string, planner::Progress>& progress, int64_t at) {
  std::vector<std::string> over;
  progress_.ForEachSince(-1, [&](const Row& row) {
    if (progress.count(row.id) == 0) over.push_back(row.id);
  });
  // That it is over the task's row says.
  for (const std::string& id : over) progress_.Erase(id, at);
  bool changed = false;
  for (const auto& [id, of_task] : progress) {
    std::string row = RowOf(of_task);
    row.insert(1, Text(id) + ",");
    changed |= progress_.Set(id, std::move(row), at);
  }
  return changed;
}

bool Published::TakeRecords(const planner::Changes& changes, int64_t at) {
  bool changed = false;
  for (const v1::RunRecord& record : changes.records.runs()) {
    changed |= runs_.Set(record.run().id(), RowOf(record), at);
  }
  for (const v1::TaskRecord& record : changes.records.tasks()) {
    changed |= tasks_.Set(record.task().id(), RowOf(record), at);
  }
  for (const v1::WorkerRecord& record : changes.records.workers()) {
    changed |= workers_.Set(record.worker().id(), RowOf(record), at);
  }
  for (const std::string& id : changes.forgotten) changed |= workers_.Erase(id, at);
  for (const v1::RunRecord& record : changes.archived.runs()) {
    changed |= runs_.Erase(record.run().id(), at);
  }
  for (const v1::TaskRecord& record : changes.archived.tasks()) {
    changed |= tasks_.Erase(record.task().id(), at);
  }
  return changed;
}

void Published::Take(const planner::View& view) {
  const planner::Changes& changes = *view.changes;
  absl::MutexLock lock(&mutex_);
  const int64_t at = at_ + 1;
  bool changed = revision_ != changes.records.revision();
  changed |= TakeRecords(changes, at);
  if (view.progress.has_value()) changed |= TakeProgress(*view.progress, at);
  news_.Take(changes, at, date_());
  revision_ = changes.records.revision();
  archived_runs_ = changes.records.archived_runs();
  if (!changed) return;
  at_ = at;
  made_.clear();
}

int64_t Published::AtOf(std::string_view key) const {
  const std::string mark = process_ + "-";
  int64_t at = -1;
  if (key.substr(0, mark.size()) != mark) return -1;
  const std::string number(key.substr(mark.size()));
  if (!absl::SimpleAtoi(number, &at) || at < 0 || at > at_) return -1;
  const bool known = runs_.Knows(at) && tasks_.Knows(at) && workers_.Knows(at);
  return known ? at : -1;
}

Published::Update Published::Make(int64_t at) const {
  auto made = std::make_shared<Made>();
  made->key = absl::StrCat(process_, "-", at_);
  std::string& json = made->json;
  json = absl::StrCat("{\"key\":\"", made->key, "\",\"full\":", at < 0 ? "true" : "false",
                      ",\"revision\":", revision_, ",\"archived_runs\":", archived_runs_);
  nlohmann::json gone = nlohmann::json::object();
  if (at < 0) absl::StrAppend(&json, ",\"columns\":", Text(Columns()));
  AddRows("runs", runs_, at, json, gone);
  AddRows("workers", workers_, at, json, gone);
  AddRows("tasks", tasks_, at, json, gone);
  AddRows("progress", progress_, at, json, gone);
  gone.erase("progress");
  json += ",\"news\":[";
  bool first = true;
  for (const News::Item& item : news_.items()) {
    if (item.at > at) absl::StrAppend(&json, std::exchange(first, false) ? "" : ",", item.json);
  }
  absl::StrAppend(&json, "],\"gone\":", Text(gone), "}");
  return made;
}

Published::Update Published::Since(std::string_view key) const {
  absl::MutexLock lock(&mutex_);
  const int64_t at = AtOf(key);
  const auto found = made_.find(at);
  if (found != made_.end()) return found->second;
  if (made_.size() >= kMaxMade) made_.clear();
  return made_[at] = Make(at);
}

bool Published::Await(std::string_view key, absl::Duration limit) const {
  absl::MutexLock lock(&mutex_);
  const auto news = [&]()
                        ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return closed_ || AtOf(key) != at_; };
  mutex_.AwaitWithTimeout(absl::Condition(&news), limit);
  return !closed_ && AtOf(key) != at_;
}

void Published::Close() {
  absl::MutexLock lock(&mutex_);
  closed_ = true;
}

bool Published::AwaitClose(absl::Duration limit) const {
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(absl::Condition(&closed_), limit);
  return closed_;
}

}  // namespace warpsmith::web
