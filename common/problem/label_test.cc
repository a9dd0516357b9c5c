#include "common/problem/label.h"

#include <catch2/catch.hpp>

namespace warpsmith::problem {

TEST_CASE("labels are key=value") {
  for (const char* label : {"a=b", "rack=r3/u12", "gpu.kind=H200-SXM", "x=1:2+3_4"}) {
    CHECK(IsLabel(label));
  }
  for (const char* text : {"", "a", "=", "a=", "=b", "a=b=c", "a b=c", "a=b,c", "a=\n"}) {
    INFO(text);
    CHECK_FALSE(IsLabel(text));
    CHECK_THAT(std::string(CheckLabels("worker w", {"a=b", text}).message()),
               Catch::Contains("worker w") && Catch::Contains(text));
  }
  CHECK_FALSE(IsLabel("a=" + std::string(kMaxLabelBytes, 'b')));
  CHECK(CheckLabels("w", {}).ok());
  CHECK_FALSE(CheckLabels("w", std::vector<std::string>(kMaxLabels + 1, "a=b")).ok());
}

}  // namespace warpsmith::problem
