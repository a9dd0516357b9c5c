// RedisStore::SweepBlobs: blobs that nothing names go, and files that are mostly of such are
// written anew, in the walk after the one that found them so.
#include <sys/stat.h>

#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/sha256.h"
#include "common/store/redis/records.h"
#include "common/store/redis/redis_store.h"

namespace warpsmith::store {
namespace {

using redis::Arguments;
using redis::Reply;
using redis::TheScripts;

constexpr char kBegin[] = "0";  // of HSCAN, and its end
// Of what is moved in one step: a commit waits for it.
constexpr int64_t kMostMoved = int64_t{1} << 20;

std::optional<Mark> MarkOf(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits(':', 1));
  Mark mark;
  if (!absl::SimpleAtoi(parts.first, &mark.since_s) ||
      !absl::SimpleAtoi(parts.second, &mark.revision)) {
    return std::nullopt;
  }
  return mark;
}

// As the script is told; null: nothing.
const char* KindOf(Fate fate) {
  switch (fate) {
    case Fate::kNamed:
      return "n";
    case Fate::kMark:
      return "m";
    case Fate::kConfirm:
      return "c";
    case Fate::kRemove:
      return "r";
    case Fate::kKeep:
      return nullptr;
  }
  return nullptr;
}

}  // namespace

struct RedisStore::Step {
  struct Blob {
    std::string digest;  // bytes
    Place place;         // of one in a file
    int64_t bytes = 0;
    std::string mark;  // "": none

    Fate FateBy(const Sweep& sweep) const {
      const std::optional<Mark> parsed = MarkOf(mark);
      return FateOf(sweep, absl::BytesToHexString(digest), parsed ? &*parsed : nullptr);
    }
  };
  std::vector<Blob> blobs;
  std::string next;  // kBegin: there are no more
};

absl::StatusOr<RedisStore::Step> RedisStore::ReadStep(const Sweep& sweep) {
  const std::string most = absl::StrCat(sweep.most);
  absl::StatusOr<Reply> page = writer_.Do(
      {"HSCAN", keys_[redis::kBlobs], sweep.at.empty() ? kBegin : sweep.at, "COUNT", most});
  if (!page.ok()) return page.status();
  Step step;
  step.next = std::string(page->at(0).text());
  const Reply pairs = page->at(1);
  Arguments wanted = {"HMGET", keys_[redis::kUnnamed]};
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    const absl::string_view value = pairs.at(i + 1).text();
    Step::Blob& blob = step.blobs.emplace_back();
    blob.digest = std::string(pairs.at(i).text());
    blob.bytes = static_cast<int64_t>(value.size()) - 1;
    if (value.size() == 1 + redis::kPlaceBytes && value[0] == 'p') {
      blob.place = redis::PlaceOf(value.substr(1));
      blob.bytes = blob.place.size;
    }
    wanted.push_back(pairs.at(i).text());
  }
  if (step.blobs.empty()) return step;
  absl::StatusOr<Reply> marks = writer_.Do(wanted);
  if (!marks.ok()) return marks.status();
  for (size_t i = 0; i < step.blobs.size(); ++i) {
    step.blobs[i].mark = std::string(marks->at(i).text());
  }
  return step;
}

absl::StatusOr<Swept> RedisStore::SweepBlobs(int64_t epoch, Sweep& sweep) {
  absl::MutexLock lock(&write_mutex_);
  if (sweep.at.empty()) walk_ = {.before = blobs_end_.file};
  // Before anything is read: who is deposed moves nothing.
  if (absl::Status may = Change(epoch, sweep, {}); !may.ok()) return may;
  if (sweep.at.empty()) walk_.connects = writer_.connects();
  absl::StatusOr<Step> step = ReadStep(sweep);
  if (!step.ok()) return step.status();
  absl::StatusOr<bool> moved = MoveSome(epoch, sweep, *step);
  if (!moved.ok()) return moved.status();
  if (*moved) {  // the next step comes here again, and finds them where they are then
    if (sweep.at.empty()) sweep.at = std::string(kBegin);
    return Swept();
  }
  Swept swept;
  Arguments changes;
  for (const Step::Blob& blob : step->blobs) {
    const Fate fate = blob.FateBy(sweep);
    Count(fate, blob.bytes, swept);
    const char* const kind = KindOf(fate);
    if (kind != nullptr && !(fate == Fate::kNamed && blob.mark.empty())) {
      changes.insert(changes.end(), {kind, blob.digest, blob.mark});
    }
    if (fate != Fate::kRemove && blob.place.file > 0) walk_.bytes[blob.place.file] += blob.bytes;
  }
  if (!changes.empty()) {
    if (absl::Status done = Change(epoch, sweep, changes); !done.ok()) return done;
  }
  sweep.at = step->next == kBegin ? "" : step->next;
  if (sweep.at.empty()) TidyBlobFiles();
  return swept;
}

// Of what a step has found in files that are to be written anew. False: there is nothing to move.
absl::StatusOr<bool> RedisStore::MoveSome(int64_t epoch, const Sweep& sweep, const Step& step) {
  std::vector<std::string> places;
  places.reserve(step.blobs.size());
  Arguments changes;
  int64_t bytes = 0;
  for (const Step::Blob& blob : step.blobs) {
    if (bytes >= kMostMoved) break;
    if (sparse_.count(blob.place.file) == 0 || blob.FateBy(sweep) == Fate::kRemove) continue;
    const absl::StatusOr<std::string> to = MoveBlob(blob.digest, blob.place);
    if (!to.ok()) return to.status();
    if (to->empty()) continue;
    changes.insert(changes.end(), {"v", blob.digest, places.emplace_back(*to)});
    bytes += blob.bytes;
  }
  if (changes.empty()) return false;
  if (absl::Status synced = blobs_.Sync(); !synced.ok()) return synced;
  if (absl::Status done = Change(epoch, sweep, changes); !done.ok()) return done;
  return true;
}

absl::Status RedisStore::Change(int64_t epoch, const Sweep& sweep, const Arguments& changes) {
  const std::string numbers[] = {absl::StrCat(epoch), absl::StrCat(sweep.now_s),
                                 absl::StrCat(sweep.revision)};
  Arguments arguments(std::begin(numbers), std::end(numbers));
  arguments.insert(arguments.end(), changes.begin(), changes.end());
  const absl::Status done = Run(TheScripts().sweep, arguments, epoch).status();
  const auto [word, detail] = redis::Refused(done);
  int64_t last = 0;
  return word == "PLACE" && absl::SimpleAtoi(detail, &last) ? CheckKnown(sweep, last) : done;
}

// To the end of the newest file; its value there. "": it is damaged, and stays where it is.
absl::StatusOr<std::string> RedisStore::MoveBlob(const std::string& digest, const Place& from) {
  const absl::StatusOr<std::string> bytes = blobs_.Read(from);
  if (absl::IsDataLoss(bytes.status())) return "";
  if (!bytes.ok()) return bytes.status();
  if (base::Sha256Hex(*bytes) != absl::BytesToHexString(digest)) return "";
  const absl::StatusOr<Place> to = blobs_.Append(*bytes, blobs_end_);
  if (!to.ok()) return to.status();
  std::string value = "p";
  redis::AppendPlace(*to, value);
  return value;
}

// Files that nothing is in go, when two walks have found them so: a replica that is promoted may
// not have heard yet of what was moved. Those of which less than half is left are written anew by
// the next walk. Only such as were before this writer's own when the walk began: nothing comes to
// them any more. And only after walks on one connection: another server, or the same after a
// restart, hashes otherwise, and does not go on from where HSCAN was.
void RedisStore::TidyBlobFiles() {
  sparse_.clear();
  const std::set<int64_t> empty_before = std::exchange(empty_, {});
  const auto files = blobs_.List();
  if (!files.ok() || walk_.connects != writer_.connects()) return;
  for (const auto& [file, path] : *files) {
    if (file >= walk_.before) break;
    const auto found = walk_.bytes.find(file);
    if (found == walk_.bytes.end()) {
      empty_.insert(file);
      if (empty_before.count(file) > 0) blobs_.Remove(file).IgnoreError();  // or at the next end
      continue;
    }
    struct stat stats = {};
    if (stat(path.c_str(), &stats) == 0 && 2 * found->second < stats.st_size) sparse_.insert(file);
  }
}

}  // namespace warpsmith::store
