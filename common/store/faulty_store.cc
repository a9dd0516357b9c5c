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
absl::Status FaultyStore::SaveSnapshot(int64_t epoch, const Record& snapshot) {
  return Inject<absl::Status>("SaveSnapshot",
                              [&] { return inner_->SaveSnapshot(epoch, snapshot); });
}
absl::StatusOr<std::optional<Record>> FaultyStore::LoadSnapshot() {
  return Inject<absl::StatusOr<std::optional<Record>>>("LoadSnapshot",
                                                       [&] { return inner_->LoadSnapshot(); });
}
absl::StatusOr<std::string> FaultyStore::Put(absl::string_view bytes) {
  return Inject<absl::StatusOr<std::string>>("Put", [&] { return inner_->Put(bytes); });
}
absl::StatusOr<std::string> FaultyStore::Get(const std::string& digest) {
  return Inject<absl::StatusOr<std::string>>("Get", [&] { return inner_->Get(digest); });
}

}  // namespace warpsmith::store
