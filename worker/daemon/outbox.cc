#include "worker/daemon/outbox.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/rpc/text.h"

namespace warpsmith::daemon {
namespace {

// Kinds of records. T and I hold a LeaseResult with one trial or an incumbent; S and R the number
// of the batch that was sealed or recorded; B a whole sealed batch, of a file written anew.
constexpr char kTrial = 'T', kIncumbent = 'I', kSealed = 'S', kRecorded = 'R', kWhole = 'B';

struct Header {
  uint32_t bytes;  // of the payload
  uint32_t check;  // of kind and payload
  char kind;
};
constexpr size_t kHeaderBytes = 9;

// FNV-1a: finds the torn tail of a log that only its writer writes.
uint32_t Check(char kind, const char* data, size_t size) {
  uint32_t hash = 2166136261u;
  auto mix = [&hash](char c) { hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u; };
  mix(kind);
  for (size_t i = 0; i < size; ++i) mix(data[i]);
  return hash;
}

std::string Encode(const Header& header, const std::string& payload) {
  std::string record(kHeaderBytes, '\0');
  std::memcpy(&record[0], &header.bytes, 4);
  std::memcpy(&record[4], &header.check, 4);
  record[8] = header.kind;
  return record + payload;
}

std::string EncodeNumber(int64_t number) {
  return std::string(reinterpret_cast<const char*>(&number), sizeof number);
}

absl::Status FileError(const char* what, const std::string& path) {
  return absl::InternalError(absl::StrCat(what, " ", path, ": ", std::strerror(errno)));
}

bool Names(const google::protobuf::RepeatedPtrField<std::string>& ids, const std::string& id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

// Whether `path` still names the file that is open.
bool IsAt(int file, const std::string& path) {
  struct stat open_one, named;
  return fstat(file, &open_one) == 0 && stat(path.c_str(), &named) == 0 &&
         open_one.st_dev == named.st_dev && open_one.st_ino == named.st_ino;
}

absl::Status Append(int file, const std::string& path, char kind, const std::string& payload) {
  Header header{static_cast<uint32_t>(payload.size()), Check(kind, payload.data(), payload.size()),
                kind};
  const std::string record = Encode(header, payload);
  const off_t end = lseek(file, 0, SEEK_END);
  for (size_t at = 0; at < record.size();) {
    ssize_t n = write(file, record.data() + at, record.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      absl::Status failed = FileError("cannot write", path);
      // A part of a record would hide what is written after it.
      if (ftruncate(file, end) != 0) return FileError("cannot write nor truncate", path);
      return failed;
    }
    at += n;
  }
  if (kind == kIncumbent && fdatasync(file) != 0) return FileError("cannot flush", path);
  return absl::OkStatus();
}

v1::LeaseResult Of(const v1::Lease& lease) {
  v1::LeaseResult one;
  one.set_lease_id(lease.id());
  one.set_task_id(lease.task_id());
  one.set_fence(lease.fence());
  return one;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Outbox>> Outbox::Open(const std::string& path) {
  int file = open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0) return FileError("cannot open", path);
  if (flock(file, LOCK_EX | LOCK_NB) != 0 || !IsAt(file, path)) {
    close(file);
    return absl::FailedPreconditionError(absl::StrCat(
        path, " is in use: a worker of this name runs already. Stop it or choose another --name"));
  }
  std::unique_ptr<Outbox> outbox(new Outbox(file, path));
  if (absl::Status replayed = outbox->Replay(); !replayed.ok()) return replayed;
  return outbox;
}

Outbox::~Outbox() { close(file_); }

absl::Status Outbox::Replay() {
  struct stat stat;
  if (fstat(file_, &stat) != 0) return FileError("cannot stat", path_);
  std::string log(stat.st_size, '\0');
  for (size_t at = 0; at < log.size();) {
    ssize_t n = pread(file_, &log[at], log.size() - at, at);
    if (n <= 0) return FileError("cannot read", path_);
    at += n;
  }
  size_t at = 0;
  while (log.size() - at >= kHeaderBytes) {
    Header header;
    std::memcpy(&header.bytes, &log[at], 4);
    std::memcpy(&header.check, &log[at + 4], 4);
    header.kind = log[at + 8];
    if (log.size() - at - kHeaderBytes < header.bytes) break;
    const char* payload = log.data() + at + kHeaderBytes;
    if (Check(header.kind, payload, header.bytes) != header.check) break;
    if (!ReplayRecord(header.kind, payload, header.bytes)) break;
    at += kHeaderBytes + header.bytes;
  }
  // What follows the last whole record was being written when the process died.
  if (at < log.size() && ftruncate(file_, at) != 0) return FileError("cannot truncate", path_);
  return absl::OkStatus();
}

bool Outbox::ReplayRecord(char kind, const char* payload, size_t bytes) {
  if (kind == kTrial || kind == kIncumbent || kind == kWhole) {
    v1::LeaseResult one;
    if (!one.ParseFromArray(payload, static_cast<int>(bytes))) return false;
    if (kind == kWhole) {
      PutWhole(std::move(one));
    } else {
      Put(kind, std::move(one));
    }
    return true;
  }
  int64_t number;
  if (bytes != sizeof number) return false;
  std::memcpy(&number, payload, sizeof number);
  if (kind == kRecorded) Erase(number);
  for (Batch& batch : batches_) {
    if (kind == kSealed && batch.number == number) batch.sealed = true;
  }
  return true;
}

void Outbox::Log(char kind, const std::string& payload) {
  if (behind_) return;
  absl::Status written = Append(file_, path_, kind, payload);
  if (written.ok()) return;
  behind_ = true;
  spdlog::warn("outbox: {}; results are kept in memory until it can be written",
               std::string(written.message()));
}

void Outbox::CatchUp() {
  if (!behind_ || !Rewrite().ok()) return;
  behind_ = false;
  spdlog::info("outbox: {} is written again", path_);
}

// The file with what memory has, in place of the old one. All batches are sealed by it.
absl::Status Outbox::Rewrite() {
  const std::string path = path_ + ".new";
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0) return FileError("cannot open", path);
  absl::Status status =
      flock(file, LOCK_EX | LOCK_NB) == 0 ? absl::OkStatus() : FileError("cannot lock", path);
  for (const Batch& batch : batches_) {
    if (status.ok()) status = Append(file, path, kWhole, batch.result.SerializeAsString());
  }
  if (status.ok() && fdatasync(file) != 0) status = FileError("cannot flush", path);
  if (status.ok() && rename(path.c_str(), path_.c_str()) != 0) {
    status = FileError("cannot rename", path);
  }
  if (!status.ok()) {
    close(file);
    unlink(path.c_str());
    return status;
  }
  close(std::exchange(file_, file));
  next_number_ = 0;
  for (Batch& batch : batches_) {
    batch.number = next_number_++;
    batch.sealed = true;
  }
  return absl::OkStatus();
}

// The newest batch of the lease that was not sent yet and has room, or a new one.
Outbox::Batch& Outbox::OpenBatch(const v1::LeaseResult& one) {
  if (!batches_.empty()) {
    Batch& last = batches_.back();
    if (!last.sealed && last.result.lease_id() == one.lease_id() &&
        last.result.fence() == one.fence() && last.bytes < kMaxBatchBytes &&
        last.result.trials().trials_size() < kMaxBatchTrials) {
      return last;
    }
  }
  Batch& batch = batches_.emplace_back();
  batch.number = next_number_++;
  batch.result.set_lease_id(one.lease_id());
  batch.result.set_task_id(one.task_id());
  batch.result.set_fence(one.fence());
  return batch;
}

void Outbox::Put(char kind, v1::LeaseResult&& one) {
  Batch* batch = nullptr;
  if (kind == kIncumbent) {
    // Only the last incumbent of a lease matters: it takes the place of one that still waits.
    for (Batch& waiting : batches_) {
      if (!waiting.sealed && waiting.result.has_incumbent() &&
          waiting.result.lease_id() == one.lease_id()) {
        batch = &waiting;
      }
    }
  }
  if (batch == nullptr) batch = &OpenBatch(one);
  const int64_t before = batch->bytes;
  if (kind == kIncumbent) {
    batch->bytes -= batch->result.incumbent().ByteSizeLong();
    batch->bytes += one.incumbent().ByteSizeLong();
    *batch->result.mutable_incumbent() = std::move(*one.mutable_incumbent());
  } else {
    batch->bytes += one.trials().ByteSizeLong();
    batch->result.mutable_trials()->MergeFrom(one.trials());
  }
  bytes_ += batch->bytes - before;
}

void Outbox::PutWhole(v1::LeaseResult&& result) {
  Batch& batch = batches_.emplace_back();
  batch.number = next_number_++;
  batch.sealed = true;
  batch.bytes = result.trials().ByteSizeLong() + result.incumbent().ByteSizeLong();
  bytes_ += batch.bytes;
  batch.result = std::move(result);
}

void Outbox::Add(char kind, v1::LeaseResult&& one) {
  // A string that is not UTF-8 could be read back neither from the file nor by the planner.
  rpc::RepairStrings(one);
  Log(kind, one.SerializeAsString());
  Put(kind, std::move(one));
}

void Outbox::AddTrial(const v1::Lease& lease, const v1::Trial& trial) {
  if (bytes_ >= kMaxOutboxBytes) {
    if (dropped_++ == 0) {
      spdlog::warn("outbox: {} bytes wait for the planner: no more trials are kept", bytes_);
    }
    return;
  }
  v1::LeaseResult one = Of(lease);
  *one.mutable_trials()->add_trials() = trial;
  Add(kTrial, std::move(one));
}

void Outbox::AddIncumbent(const v1::Lease& lease, const v1::Incumbent& incumbent) {
  v1::LeaseResult one = Of(lease);
  *one.mutable_incumbent() = incumbent;
  Add(kIncumbent, std::move(one));
  CatchUp();
}

std::vector<v1::LeaseResult> Outbox::Next(int64_t max_bytes) {
  CatchUp();
  std::vector<v1::LeaseResult> results;
  int64_t total = 0;
  more_ = false;
  for (Batch& batch : batches_) batch.in_flight = false;
  for (Batch& batch : batches_) {
    if (!results.empty() && total + batch.bytes > max_bytes) {
      more_ = true;
      break;
    }
    if (!batch.sealed) Log(kSealed, EncodeNumber(batch.number));
    batch.sealed = true;
    batch.in_flight = true;
    total += batch.bytes;
    results.push_back(batch.result);
  }
  return results;
}

void Outbox::Erase(int64_t number) {
  for (auto batch = batches_.begin(); batch != batches_.end(); ++batch) {
    if (batch->number != number) continue;
    bytes_ -= batch->bytes;
    batches_.erase(batch);
    return;
  }
}

void Outbox::Forget(const std::vector<int64_t>& numbers) {
  if (numbers.empty()) return;
  for (int64_t number : numbers) Erase(number);
  if (!batches_.empty()) {
    for (int64_t number : numbers) Log(kRecorded, EncodeNumber(number));
    return;
  }
  next_number_ = 0;
  behind_ = ftruncate(file_, 0) != 0;
}

void Outbox::Recorded(const v1::SynchronizeReply& reply) {
  std::vector<int64_t> gone;
  for (const Batch& batch : batches_) {
    const v1::LeaseResult& result = batch.result;
    const bool recorded =
        Names(reply.recorded(), result.lease_id()) &&
        (!result.has_incumbent() || Names(reply.recorded(), result.incumbent().trial().id()));
    const bool refused = Names(reply.drop(), result.lease_id());
    if (batch.in_flight && (recorded || refused)) gone.push_back(batch.number);
  }
  Forget(gone);
}

int Outbox::Discard() {
  std::vector<int64_t> gone;
  for (const Batch& batch : batches_) {
    if (batch.in_flight) gone.push_back(batch.number);
  }
  Forget(gone);
  return static_cast<int>(gone.size());
}

bool Outbox::HasUnsent(const std::string& lease_id) const {
  for (const Batch& batch : batches_) {
    if (!batch.in_flight && batch.result.lease_id() == lease_id) return true;
  }
  return false;
}

}  // namespace warpsmith::daemon
