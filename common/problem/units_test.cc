#include "common/problem/units.h"

#include <catch2/catch.hpp>

namespace warpsmith::problem {
namespace {

using Units = std::vector<std::string>;

TEST_CASE("a source without marks is one unit") {
  CHECK(UnitsOf("a\nb") == Units{"a\nb"});
  CHECK(UnitsOf("") == Units{""});
  CHECK(UnitsOf("  //: unit\n//: units\n") == Units{"  //: unit\n//: units\n"});
}

TEST_CASE("a unit has what is everyone's, its group's before it, and nothing of other groups") {
  const std::string source =
      "all\n//: group\none\n//: unit\nfirst\n//: shared\nmore\n//: unit\nsecond\n"
      "//: group\ntwo\n//: unit\nthird";
  CHECK(UnitsOf(source) ==
        Units{"all\none\nfirst\n", "all\none\nmore\nsecond\n", "all\ntwo\nthird"});
}

TEST_CASE("images are found again; broken ones are said to be") {
  const Units images = {"", "one", std::string("\0two", 4)};
  const std::string joined = JoinImages(images);
  CHECK(*ImagesOf(joined) == images);
  CHECK(JoinImages({"alone"}) == "alone");
  CHECK(*ImagesOf("\x7f"
                  "ELF") == Units{"\x7f"
                                  "ELF"});
  const int cut = GENERATE(1, 3, 5, 12);
  CHECK(absl::IsDataLoss(ImagesOf(joined.substr(0, joined.size() - cut)).status()));
}

}  // namespace
}  // namespace warpsmith::problem
