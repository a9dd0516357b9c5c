#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>

#include "common/rpc/address.h"
#include "common/rpc/channel.h"
#include "common/rpc/status.h"
#include "common/rpc/text.h"
#include "tests/support/temporary_folder.h"
#include "warpsmith/v1/trial.pb.h"

namespace warpsmith::rpc {

TEST_CASE("the default folder follows XDG, then home") {
  CHECK(DefaultDir("/x", "/home/a") == "/x/warpsmith");
  CHECK(DefaultDir("x/y", "/home/a") == "/home/a/.local/share/warpsmith");
  CHECK(DefaultDir("", "/home/a") == "/home/a/.local/share/warpsmith");
  CHECK(DefaultDir(nullptr, "/home/a") == "/home/a/.local/share/warpsmith");
  CHECK(DefaultDir(nullptr, nullptr).empty());
}

TEST_CASE("an address written is the address read; a missing one says what to do") {
  const support::TemporaryFolder folder;
  const std::string& dir = folder.path();
  const auto none = ReadAddress(dir);
  CHECK(none.status().code() == absl::StatusCode::kNotFound);
  CHECK(std::string(none.status().message()).find("warpsmith up") != std::string::npos);
  REQUIRE(WriteAddress(dir, "127.0.0.1:4012").ok());
  REQUIRE(WriteAddress(dir, "127.0.0.1:4013").ok());
  CHECK(*ReadAddress(dir) == "127.0.0.1:4013");
  RemoveAddress(dir);
  CHECK_FALSE(ReadAddress(dir).ok());
}

TEST_CASE("only loopback and unix sockets may be listened on") {
  const auto [address, good] = GENERATE(table<const char*, bool>({
      {"127.0.0.1:0", true},
      {"localhost:4000", true},
      {"[::1]:4000", true},
      {"unix:/tmp/x", true},
      {"unix:", false},
      {"0.0.0.0:4000", false},
      {"10.0.0.1:4000", false},
      {"127.0.0.1", false},
      {"127.0.0.1:70000", false},
      {"", false},
  }));
  INFO(address);
  CHECK(ValidateListenAddress(address).ok() == good);
}

TEST_CASE("text that is not UTF-8 is made so, and only that") {
  const char* whole[] = {"", "plain", "gr\u00f6\u00dfe \u2588 \U0001F600"};
  for (const char* text : whole) CHECK(ToUtf8(text) == text);
  const std::string bad = "\uFFFD";
  CHECK(ToUtf8("a\xe2\x80") == "a" + bad + bad);
  CHECK(ToUtf8("\xff!") == bad + "!");
  CHECK(ToUtf8("\xc0\xaf") == bad + bad);                      // overlong
  CHECK(ToUtf8("\xed\xa0\x80") == bad + bad + bad);            // a surrogate
  CHECK(ToUtf8("\xf5\x80\x80\x80") == bad + bad + bad + bad);  // beyond Unicode

  v1::TrialBatch batch;
  batch.add_trials()->set_reason("a\xe2");
  (*batch.add_trials()->mutable_state())["k\xff"] = 2;
  RepairStrings(batch);
  v1::TrialBatch back;
  REQUIRE(back.ParseFromString(batch.SerializeAsString()));
  CHECK(back.trials(0).reason() == "a" + bad);
  CHECK(back.trials(1).state().at("k" + bad) == 2);
}

TEST_CASE("a status survives the wire") {
  const absl::Status sent = absl::FailedPreconditionError("fence 3 is old");
  CHECK(FromGrpc(ToGrpc(sent)) == sent);
  CHECK(FromGrpc(ToGrpc(absl::OkStatus())).ok());
}

}  // namespace warpsmith::rpc
