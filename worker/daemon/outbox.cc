#include "worker/daemon/outbox.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace warpsmith::daemon {
namespace {

// Kinds of records. T and I hold a LeaseResult with one trial or an incumbent; S and R the number
// of the batch that was sealed or recorded.
constexpr char kTrial = 'T', kIncumbent = 'I', kSealed = 'S', kRecorded = 'R';

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
  if (flock(file, LOCK_EX | LOCK_NB) != 0) {
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
    if (header.kind == kTrial || header.kind == kIncumbent) {
      v1::LeaseResult one;
      if (!one.ParseFromArray(payload, static_cast<int>(header.bytes))) break;
      Put(header.kind, std::move(one));
    } else {
      if (header.bytes != sizeof(int64_t)) break;
      int64_t number;
      std::memcpy(&number, payload, sizeof number);
      if (header.kind == kRecorded) Erase(number);
      for (Batch& batch : batches_) {
        if (header.kind == kSealed && batch.number == number) batch.sealed = true;
      }
    }
    at += kHeaderBytes + header.bytes;
  }
  // What follows the last whole record was being written when the process died.
  if (at < log.size() && ftruncate(file_, at) != 0) return FileError("cannot truncate", path_);
  return absl::OkStatus();
}

absl::Status Outbox::Append(char kind, const std::string& payload) {
  Header header{static_cast<uint32_t>(payload.size()), Check(kind, payload.data(), payload.size()),
                kind};
  std::string record = Encode(header, payload);
  const off_t end = lseek(file_, 0, SEEK_END);
  for (size_t at = 0; at < record.size();) {
    ssize_t n = write(file_, record.data() + at, record.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      // A part of a record would hide what is written after it.
      absl::Status failed = FileError("cannot write", path_);
      if (ftruncate(file_, end) != 0) return FileError("cannot write nor truncate", path_);
      return failed;
    }
    at += n;
  }
  if (kind == kIncumbent && fdatasync(file_) != 0) return FileError("cannot flush", path_);
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

absl::Status Outbox::AddTrial(const v1::Lease& lease, const v1::Trial& trial) {
  if (bytes_ >= kMaxOutboxBytes) {
    ++dropped_;
    return absl::OkStatus();
  }
  v1::LeaseResult one = Of(lease);
  *one.mutable_trials()->add_trials() = trial;
  absl::Status written = Append(kTrial, one.SerializeAsString());
  Put(kTrial, std::move(one));  // also if the disk is full: then memory alone keeps it
  return written;
}

absl::Status Outbox::AddIncumbent(const v1::Lease& lease, const v1::Incumbent& incumbent) {
  v1::LeaseResult one = Of(lease);
  *one.mutable_incumbent() = incumbent;
  absl::Status written = Append(kIncumbent, one.SerializeAsString());
  Put(kIncumbent, std::move(one));
  return written;
}

absl::StatusOr<std::vector<v1::LeaseResult>> Outbox::Next(int64_t max_bytes) {
  std::vector<v1::LeaseResult> results;
  int64_t total = 0;
  more_ = false;
  for (Batch& batch : batches_) batch.in_flight = false;
  for (Batch& batch : batches_) {
    if (!results.empty() && total + batch.bytes > max_bytes) {
      more_ = true;
      break;
    }
    if (!batch.sealed) {
      absl::Status written = Append(kSealed, EncodeNumber(batch.number));
      if (!written.ok()) return written;
      batch.sealed = true;
    }
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

absl::Status Outbox::Recorded(const v1::SynchronizeReply& reply) {
  std::vector<int64_t> gone;
  for (const Batch& batch : batches_) {
    const v1::LeaseResult& result = batch.result;
    const bool recorded =
        Names(reply.recorded(), result.lease_id()) &&
        (!result.has_incumbent() || Names(reply.recorded(), result.incumbent().trial().id()));
    const bool refused = Names(reply.drop(), result.lease_id());
    if (batch.in_flight && (recorded || refused)) gone.push_back(batch.number);
  }
  for (int64_t number : gone) Erase(number);
  if (gone.empty()) return absl::OkStatus();
  if (batches_.empty()) {
    next_number_ = 0;
    return ftruncate(file_, 0) == 0 ? absl::OkStatus() : FileError("cannot truncate", path_);
  }
  for (int64_t number : gone) {
    if (absl::Status written = Append(kRecorded, EncodeNumber(number)); !written.ok()) {
      return written;
    }
  }
  return absl::OkStatus();
}

bool Outbox::HasUnsent(const std::string& lease_id) const {
  for (const Batch& batch : batches_) {
    if (!batch.in_flight && batch.result.lease_id() == lease_id) return true;
  }
  return false;
}

}  // namespace warpsmith::daemon
