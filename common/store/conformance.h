// What every backend of Store must pass. A backend's test calls it from a TEST_CASE with a way to
// open the same store again, as a second process would after the first one closed it or died:
//
//   TEST_CASE("sqlite: conformance") {
//     TemporaryFolder folder;
//     store::CheckConformance([&] { return *SqliteStore::Open(folder.path()); });
//   }
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "common/store/leadership.h"
#include "common/store/store.h"

namespace warpsmith::store {

// The first call opens an empty store; later ones find what the earlier one left.
using Reopen = std::function<std::unique_ptr<Store>()>;

void CheckConformance(const Reopen& reopen);

// Walks that remove what nothing names, amid names that come and go, crashes and a walker who is
// late, of a store that is empty when it is first opened.
void CheckSweep(const Reopen& reopen, uint64_t seed, int steps);
// Of a backend that planners share, too: each call is another planner's way to the same store.
struct SharedStore {
  template <typename Backend>
  explicit SharedStore(std::unique_ptr<Backend> backend)
      : leadership(backend.get()), store(std::move(backend)) {}

  Leadership* leadership;
  std::unique_ptr<Store> store;
};
void CheckLeadership(const std::function<SharedStore()>& open);

}  // namespace warpsmith::store
