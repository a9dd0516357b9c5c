#include "common/store/memory_store.h"

#include <catch2/catch.hpp>
#include <memory>

#include "common/store/conformance.h"

namespace warpsmith::store {

TEST_CASE("memory: conformance") {
  const auto disk = std::make_shared<MemoryStore::Disk>();
  CheckConformance([&] { return std::make_unique<MemoryStore>(disk); });
}

}  // namespace warpsmith::store
