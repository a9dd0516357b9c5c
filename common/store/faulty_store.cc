#include "common/store/faulty_store.h"

#include "absl/strings/str_cat.h"

namespace warpsmith::store {

template <typename Result, typename Call>
Result FaultyStore::Inject(absl::string_view name, Call call) {
  switch (plan_(name)) {
    case Fault::kNone:
      return call();
    case Fault::kUnavailable:
      return absl::UnavailableError(absl::StrCat(name, ": injected"));
    case Fault::kTimeout:
      return absl::DeadlineExceededError(absl::StrCat(name, ": injected, not executed"));
    case Fault::kExecutedTimeout: {
      Result result = call();
      (void)result;
      return absl::DeadlineExceededError(absl::StrCat(name, ": injected, executed"));
    }
  }
  return absl::InternalError("an unknown fault");
}

absl::StatusOr<Identity> FaultyStore::Identify() {
  return Inject<absl::StatusOr<Identity>>("Identify", [&] { return inner_->Identify(); });
}
absl::Status FaultyStore::Adopt(const Identity& identity, int64_t revision) {
  return Inject<absl::Status>("Adopt", [&] { return inner_->Adopt(identity, revision); });
}

absl::StatusOr<int64_t> FaultyStore::Lead() {
  return Inject<absl::StatusOr<int64_t>>("Lead", [&] { return inner_->Lead(); });
}
absl::Status FaultyStore::Commit(const Batch& batch) {
  return Inject<absl::Status>("Commit", [&] { return inner_->Commit(batch); });
}
absl::StatusOr<int64_t> FaultyStore::LastRevision() {
  return Inject<absl::StatusOr<int64_t>>("LastRevision", [&] { return inner_->LastRevision(); });
}
absl::StatusOr<std::vector<Record>> FaultyStore::Read(int64_t after, size_t limit) {
  return Inject<absl::StatusOr<std::vector<Record>>>("Read",
                                                     [&] { return inner_->Read(after, limit); });
}
absl::Status FaultyStore::SaveCheckpoint(int64_t epoch, const Checkpoint& checkpoint) {
  return Inject<absl::Status>("SaveCheckpoint",
                              [&] { return inner_->SaveCheckpoint(epoch, checkpoint); });
}
absl::StatusOr<int64_t> FaultyStore::LoadCheckpoint(const std::function<void(Entry)>& take) {
  return Inject<absl::StatusOr<int64_t>>("LoadCheckpoint",
                                         [&] { return inner_->LoadCheckpoint(take); });
}
absl::Status FaultyStore::ReadArchive(const std::string& prefix,
                                      const std::function<bool(Entry)>& take) {
  return Inject<absl::Status>("ReadArchive", [&] { return inner_->ReadArchive(prefix, take); });
}
absl::Status FaultyStore::ReadFacts(const std::string& subject, bool bodies,
                                    const std::function<bool(Facts)>& take) {
  return Inject<absl::Status>("ReadFacts",
                              [&] { return inner_->ReadFacts(subject, bodies, take); });
}
absl::StatusOr<FactsKept> FaultyStore::CountFacts() {
  return Inject<absl::StatusOr<FactsKept>>("CountFacts", [&] { return inner_->CountFacts(); });
}
absl::StatusOr<std::string> FaultyStore::Put(absl::string_view bytes) {
  return Inject<absl::StatusOr<std::string>>("Put", [&] { return inner_->Put(bytes); });
}
absl::StatusOr<std::string> FaultyStore::Get(const std::string& digest) {
  return Inject<absl::StatusOr<std::string>>("Get", [&] { return inner_->Get(digest); });
}
absl::StatusOr<Swept> FaultyStore::SweepBlobs(int64_t epoch, Sweep& sweep) {
  return Inject<absl::StatusOr<Swept>>("SweepBlobs",
                                       [&] { return inner_->SweepBlobs(epoch, sweep); });
}
absl::StatusOr<Standing> FaultyStore::Look() {
  return Inject<absl::StatusOr<Standing>>("Look", [&] { return leadership_->Look(); });
}
absl::StatusOr<int64_t> FaultyStore::LeadAfter(const Standing& seen, const std::string& address) {
  return Inject<absl::StatusOr<int64_t>>("LeadAfter",
                                         [&] { return leadership_->LeadAfter(seen, address); });
}
absl::Status FaultyStore::Beat(int64_t epoch, const std::string& address) {
  return Inject<absl::Status>("Beat", [&] { return leadership_->Beat(epoch, address); });
}
absl::Status FaultyStore::Resign(int64_t epoch) {
  return Inject<absl::Status>("Resign", [&] { return leadership_->Resign(epoch); });
}

}  // namespace warpsmith::store
