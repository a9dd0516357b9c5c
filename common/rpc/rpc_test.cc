#include <arpa/inet.h>
#include <fcntl.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server_posix.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "common/rpc/address.h"
#include "common/rpc/channel.h"
#include "common/rpc/health.h"
#include "common/rpc/route.h"
#include "common/rpc/status.h"
#include "common/rpc/text.h"
#include "tests/support/temporary_folder.h"
#include "warpsmith/v1/planner.grpc.pb.h"
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
  REQUIRE(WriteAddresses(dir, {"127.0.0.1:4012", "127.0.0.1:4012"}).ok());
  REQUIRE(WriteAddresses(dir, {"127.0.0.1:4013", "127.0.0.1:4014"}).ok());
  CHECK(ReadAddresses(dir)->clients == "127.0.0.1:4014");
  for (const Addresses& both : {Addresses{"unix:/a b", "unix:/a b"}, {"unix:/a b", "h:1"}}) {
    CHECK(ParseAddresses(Text(both)).workers == both.workers);
    CHECK(ParseAddresses(Text(both)).clients == both.clients);
  }
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

TEST_CASE("with TLS any address of the machine may be listened on") {
  for (const char* address : {"127.0.0.1:0", "0.0.0.0:4000", "[::]:4000", "10.0.0.1:4000",
                              "planner.example:4000", "unix:/tmp/x"}) {
    INFO(address);
    CHECK(ValidateListenAddress(address, /*secured=*/true).ok());
  }
  for (const char* address : {"10.0.0.1", ":4000", "10.0.0.1:70000", "unix:"}) {
    INFO(address);
    CHECK_FALSE(ValidateListenAddress(address, /*secured=*/true).ok());
  }
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
  CHECK_FALSE(IsRepaired(batch, batch.SerializeAsString()));
  RepairStrings(batch);
  CHECK(IsRepaired(batch, batch.SerializeAsString()));
  (*batch.add_trials()->mutable_state())["k\xff"] = 2;
  CHECK_FALSE(IsRepaired(batch, batch.SerializeAsString()));
  RepairStrings(batch);
  CHECK(IsRepaired(batch, batch.SerializeAsString()));
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

TEST_CASE("a refusal says when to come again, over the wire") {
  const absl::Status plain = absl::ResourceExhaustedError("too much to do");
  CHECK_FALSE(RetryAfter(plain).has_value());
  CHECK_FALSE(RetryAfter(FromGrpc(ToGrpc(plain))).has_value());
  for (const absl::Duration after :
       {absl::Milliseconds(1), absl::Seconds(20), absl::Milliseconds(61'500)}) {
    const absl::Status there = FromGrpc(ToGrpc(WithRetryAfter(plain, after)));
    CHECK(there.code() == plain.code());
    CHECK(there.message() == plain.message());
    CHECK(RetryAfter(there) == after);
  }
  // Details of others, who know nothing of it.
  CHECK_FALSE(
      RetryAfter(FromGrpc({grpc::StatusCode::UNAVAILABLE, "gone", "\xff\xff"})).has_value());
}

TEST_CASE("a server that is slow to greet a connection is waited for") {
  // The kernel accepts; the server hears of it later, as one does that is busy or was stopped.
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{AF_INET, 0, {htonl(INADDR_LOOPBACK)}, {}};
  socklen_t size = sizeof at;
  REQUIRE(bind(listener, reinterpret_cast<sockaddr*>(&at), size) == 0);
  REQUIRE(listen(listener, 1) == 0);
  REQUIRE(getsockname(listener, reinterpret_cast<sockaddr*>(&at), &size) == 0);
  grpc::EnableDefaultHealthCheckService(true);
  v1::PlannerService::Service service;  // a server has one at least
  grpc::ServerBuilder builder;
  ApplyServerSettings(builder);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  REQUIRE(server != nullptr);
  server->GetHealthCheckService()->SetServingStatus(true);

  absl::Status checked = absl::UnknownError("not called");
  std::thread client([&] {
    checked = CheckHealth("127.0.0.1:" + std::to_string(ntohs(at.sin_port)), kCallTimeoutMs);
  });
  absl::SleepFor(absl::Seconds(1));
  const int connection = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  CHECK(connection >= 0);
  grpc::AddInsecureChannelFromFd(server.get(), connection);
  client.join();
  CHECK(checked == absl::OkStatus());
  server->Shutdown(In(0));
  close(listener);
}

TEST_CASE("who leads is told with a refusal, over the wire") {
  const absl::Status refusal = WithLeader(absl::UnavailableError("follows"), "10.0.0.7:4000");
  CHECK(LeaderOf(FromGrpc(ToGrpc(refusal))) == "10.0.0.7:4000");
  CHECK_FALSE(RetryAfter(FromGrpc(ToGrpc(refusal))).has_value());
  const absl::Status later = WithRetryAfter(absl::UnavailableError("later"), absl::Seconds(108));
  CHECK(LeaderOf(FromGrpc(ToGrpc(later))).empty());
  CHECK(RetryAfter(FromGrpc(ToGrpc(later))) == absl::Seconds(108));
}

TEST_CASE("a route leads to the planner that leads") {
  const absl::Status away = absl::UnavailableError("nobody there");
  const auto leads = [](const std::string& address) {
    return WithLeader(absl::UnavailableError("follows"), address);
  };
  Route route("a:1, b:1,c:1");
  route.Begin();
  CHECK(route.address() == "a:1");
  CHECK(route.Next(away));
  CHECK(route.address() == "b:1");
  CHECK(route.Next(leads("x:1")));
  CHECK(route.address() == "x:1");
  CHECK_FALSE(route.Next(absl::OkStatus()));
  // The next call begins where the last one was answered.
  route.Begin();
  CHECK(route.address() == "x:1");
  CHECK_FALSE(route.Next(absl::InvalidArgumentError("wrong everywhere")));
  // It is gone: the list is tried once, and then the caller waits.
  CHECK(route.Next(away));
  CHECK(route.address() == "c:1");
  CHECK(route.Next(away));
  CHECK(route.address() == "a:1");
  CHECK_FALSE(route.Next(away));
  route.Begin();
  CHECK(route.address() == "b:1");
  // One that knows no better than to name one that is gone is left for the next.
  CHECK(route.Next(leads("a:1")));
  CHECK(route.Next(away));
  CHECK(route.address() == "c:1");
  // Nor is the same one asked again at once, where it is the next of the list.
  route.Begin();
  CHECK(route.Next(leads("a:1")));
  CHECK(route.Next(away));
  CHECK(route.address() == "b:1");
  CHECK(route.Next(away));
  CHECK_FALSE(route.Next(away));
  route.Begin();
  CHECK(route.address() == "a:1");
  // No answer took the call's time: the next call goes elsewhere.
  CHECK_FALSE(route.Next(absl::DeadlineExceededError("late")));
  CHECK(route.address() == "b:1");
  // Two that name each other are not followed for ever.
  route.Begin();
  CHECK(route.Next(leads("x:1")));
  CHECK(route.Next(leads("y:1")));
  CHECK(route.Next(leads("x:1")));
  int more = 0;
  while (route.Next(leads(route.address() == "x:1" ? "y:1" : "x:1"))) REQUIRE(++more < 5);
}

}  // namespace warpsmith::rpc
