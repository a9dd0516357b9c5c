// A planner with TLS on real sockets: who is admitted where, and to what of whose.
#include <grpcpp/generic/generic_stub.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <array>
#include <catch2/catch.hpp>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/file.h"
#include "common/base/private_file.h"
#include "common/rpc/channel.h"
#include "common/rpc/status.h"
#include "common/security/authority.h"
#include "common/security/dialer.h"
#include "common/security/guard.h"
#include "common/security/tls.h"
#include "common/security/tokens.h"
#include "common/store/memory_store.h"
#include "planner/service/planner.h"
#include "planner/service/server.h"
#include "planner/service/testing.h"

namespace warpsmith::planner {
namespace {

using security::Authority;
using security::Role;
using testing::Folder;
using testing::SyncOf;

// The time of day of everybody here.
std::atomic<int64_t> ahead_s = 0;
absl::Time Date() { return absl::Now() + absl::Seconds(ahead_s.load()); }

// Of the planner's first certificate: whoever shakes hands with it later must have a new one.
constexpr absl::Duration kPlannerLife = absl::Hours(1);

// An authority, and files for whoever is wanted.
class Certificates {
 public:
  Certificates() : authority_(folder_.path()) {
    ahead_s = 0;
    REQUIRE(authority_.Init("fleet", security::kAuthorityLife, absl::Now()).ok());
    Issue(Role::kPlanner, "planner", {"127.0.0.1", "localhost"}, kPlannerLife);
  }
  security::Files Issue(Role role, const std::string& name, std::vector<std::string> hosts = {},
                        absl::Duration life = security::kDefaultLife) {
    auto issued = authority_.Issue({.name = {role, name}, .hosts = std::move(hosts), .life = life},
                                   absl::Now());
    INFO(issued.status().ToString());
    REQUIRE(issued.ok());
    return FilesOf(*issued);
  }
  security::Files FilesOf(const security::Issued& issued) const {
    return {.ca = Path("ca.crt"), .cert = issued.certificate, .key = issued.key};
  }
  security::Files Planner() {
    auto all = authority_.List();
    REQUIRE(all.ok());
    for (const security::Issued& issued : *all) {
      if (issued.name.name != "planner") continue;
      security::Files files = FilesOf(issued);
      files.crl = Path("crl.pem");
      return files;
    }
    return {};
  }
  std::string Path(const std::string& file) const { return authority_.Path(file); }
  Authority& authority() { return authority_; }

 private:
  Folder folder_;
  Authority authority_;
};

// A planner with certificates; `listeners`: workers and clients have their own.
class Secured {
 public:
  Secured(Certificates& certificates, bool listeners, bool tls = true,
          const std::string& listen = "127.0.0.1:0")
      : tokens_(tokens_folder_.path() + "/tokens") {
    spdlog::set_level(spdlog::level::off);
    if (tls) {
      auto identity = security::WatchedIdentity::Open(certificates.Planner(),
                                                      security::Needs::kPlanner, Date());
      INFO(identity.status().ToString());
      REQUIRE(identity.ok());
      identity_ = *std::move(identity);
    }
    for (const auto& [role, name] :
         {std::pair(Role::kSubmitter, "ada"), {Role::kOperator, "ops"}, {Role::kReader, "eye"}}) {
      auto token = tokens_.Issue({role, name}, absl::Hours(24), Date());
      REQUIRE(token.ok());
      tokens[role] = *token;
    }
    REQUIRE(tokens_.Refresh().ok());
    guard_ = std::make_shared<security::Guard>(identity_.get(), tls ? &tokens_ : nullptr, &Date);
    planner_ = *Planner::Start(
        &store_, {},
        [] {
          return Now{absl::ToUnixMillis(absl::Now()), 0};
        },
        [](const absl::Status&) {});
    ServerOptions options{.listen = listen, .guard = guard_};
    options.refresh = absl::Milliseconds(50);
    if (listeners) options.listen_clients = "127.0.0.1:0";
    auto server = Server::Start(planner_.get(), options, [](const absl::Status&) {});
    INFO(server.status().ToString());
    REQUIRE(server.ok());
    server_ = *std::move(server);
  }
  ~Secured() {
    server_->Shutdown();
    planner_->Stop();
  }
  Server& server() { return *server_; }
  const std::string& workers() { return server_->addresses().workers; }
  const std::string& clients() { return server_->addresses().clients; }

  std::map<Role, std::string> tokens;

 private:
  store::MemoryStore store_;
  Folder tokens_folder_;
  std::unique_ptr<security::WatchedIdentity> identity_;
  security::Tokens tokens_;
  std::shared_ptr<security::Guard> guard_;
  std::unique_ptr<Planner> planner_;
  std::unique_ptr<Server> server_;
};

std::shared_ptr<grpc::Channel> Dial(const std::string& address, const security::Files& files,
                                    const std::string& token = "") {
  if (files.ca.empty()) return rpc::DialFresh(address);
  auto identity = security::ReadIdentity(files, security::Needs::kNothing, Date());
  INFO(identity.status().ToString());
  REQUIRE(identity.ok());
  return rpc::DialFresh(address, security::ChannelCredentials(*identity, token, &Date));
}

// Of any method, by its bytes; OK: somebody answered.
absl::Status CallRaw(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                     const std::string& request) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  rpc::SetDeadline(context, 10'000);
  grpc::CompletionQueue queue;
  const auto wait = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    return ok;
  };
  auto call = stub.PrepareCall(&context, method, &queue);
  call->StartCall(nullptr);
  grpc::Status status;
  bool answered = false;
  if (wait()) {
    const grpc::Slice bytes(request);
    call->WriteLast(grpc::ByteBuffer(&bytes, 1), grpc::WriteOptions(), nullptr);
    wait();
    grpc::ByteBuffer reply;
    call->Read(&reply, nullptr);
    answered = wait();
    if (answered) context.TryCancel();  // a stream would go on
  }
  call->Finish(&status, nullptr);
  wait();
  queue.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue.Next(&tag, &ok)) {
  }
  return answered ? absl::OkStatus() : rpc::FromGrpc(status);
}

enum Who { kNobody, kWorker, kSubmitter, kOperator, kReader, kPlannerToo, kCallers };
enum Where { kAll, kForWorkers, kForClients, kWheres };

// What is promised, written down once more and by hand: callers and listeners of each method.
struct Promise {
  const char* method;
  std::string request;
  std::array<bool, kCallers> who;
  std::array<bool, kWheres> where;
};

std::vector<Promise> Promises() {
  v1::SubmitRequest submit;
  *submit.mutable_problems() = testing::SetOf(1);
  submit.set_arch("host");
  v1::SetTaskRequest set_task;
  set_task.set_task_id("r999/none@host");
  set_task.set_state(v1::HELD);
  v1::CancelRunRequest cancel;
  cancel.set_run_id("r999");
  v1::SetPriorityRequest prioritize;
  prioritize.set_run_id("r999");
  v1::HoldWorkerRequest hold;
  hold.set_worker_id("none");
  v1::ReleaseWorkerRequest release;
  release.set_worker_id("none");
  v1::GetTaskRequest get;
  get.set_task_id("none");
  const std::string service = "/warpsmith.v1.PlannerService/";
  static std::vector<std::string> names;
  names.clear();
  for (const char* name : {"Submit", "List", "GetTask", "GetBoard", "SetTask", "CancelRun",
                           "SetPriority", "HoldWorker", "ReleaseWorker"}) {
    names.push_back(service + name);
  }
  constexpr std::array<bool, kWheres> kClientsOnly = {1, 0, 1};
  constexpr std::array<bool, kWheres> kAnywhere = {1, 1, 1};
  return {
      //                                    nobody worker submitter operator reader planner
      {"/warpsmith.v1.WorkerService/Synchronize",
       SyncOf("w", "", 0).SerializeAsString(),
       {0, 1, 0, 0, 0, 0},
       {1, 1, 0}},
      {names[0].c_str(), submit.SerializeAsString(), {0, 0, 1, 1, 0, 0}, kClientsOnly},
      {names[1].c_str(), "", {0, 0, 1, 1, 1, 0}, kClientsOnly},
      {names[2].c_str(), get.SerializeAsString(), {0, 0, 1, 1, 1, 0}, kClientsOnly},
      {names[3].c_str(), "", {0, 0, 1, 1, 1, 0}, kClientsOnly},
      {names[4].c_str(), set_task.SerializeAsString(), {0, 0, 1, 1, 0, 0}, kClientsOnly},
      {names[5].c_str(), cancel.SerializeAsString(), {0, 0, 1, 1, 0, 0}, kClientsOnly},
      {names[6].c_str(), prioritize.SerializeAsString(), {0, 0, 1, 1, 0, 0}, kClientsOnly},
      {names[7].c_str(), hold.SerializeAsString(), {0, 0, 0, 1, 0, 0}, kClientsOnly},
      {names[8].c_str(), release.SerializeAsString(), {0, 0, 0, 1, 0, 0}, kClientsOnly},
      {"/grpc.health.v1.Health/Check", "", {1, 1, 1, 1, 1, 1}, kAnywhere},
      {"/grpc.health.v1.Health/Watch", "", {1, 1, 1, 1, 1, 1}, kAnywhere},
      // ListServices: field 7 of the request.
      {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
       std::string("\x3a\x01*"),
       {0, 0, 0, 1, 0, 0},
       kClientsOnly},
      {"/warpsmith.v1.PlannerService/NoSuchMethod", "", {0, 0, 0, 0, 0, 0}, kAnywhere},
  };
}

bool IsRefusal(const absl::Status& status) {
  return absl::IsPermissionDenied(status) || absl::IsUnauthenticated(status) ||
         absl::IsUnimplemented(status);
}

TEST_CASE("each role, method and listener is allowed or refused as promised") {
  Certificates certificates;
  std::array<security::Files, kCallers> files;
  files[kNobody] = {.ca = certificates.Path("ca.crt")};
  files[kWorker] = certificates.Issue(Role::kWorker, "w");
  files[kSubmitter] = certificates.Issue(Role::kSubmitter, "ada");
  files[kOperator] = certificates.Issue(Role::kOperator, "ops");
  files[kReader] = certificates.Issue(Role::kReader, "eye");
  files[kPlannerToo] = certificates.Planner();
  const std::map<int, Role> people = {
      {kSubmitter, Role::kSubmitter}, {kOperator, Role::kOperator}, {kReader, Role::kReader}};
  Secured one(certificates, /*listeners=*/false), three(certificates, /*listeners=*/true);
  const std::array<std::string, kWheres> address = {one.workers(), three.workers(),
                                                    three.clients()};
  // Every method that a server has is in the table; those by HTTP alone are tried in common/http
  // and planner/web.
  const auto by_http = [](const security::Rule& rule) {
    return (rule.listeners & security::Bit(security::Listener::kAll)) == 0;
  };
  const std::vector<security::Rule>& rules = security::Rules();
  CHECK(rules.size() - std::count_if(rules.begin(), rules.end(), by_http) + 1 == Promises().size());
  int cells = 0;
  for (int where = 0; where < kWheres; ++where) {
    for (int who = 0; who < kCallers; ++who) {
      for (const bool by_token : {false, true}) {
        if (by_token && people.count(who) == 0) continue;
        const std::map<Role, std::string>& tokens = where == kAll ? one.tokens : three.tokens;
        const auto channel = by_token
                                 ? Dial(address[where], files[kNobody], tokens.at(people.at(who)))
                                 : Dial(address[where], files[who]);
        for (const Promise& promise : Promises()) {
          INFO(promise.method << " at " << where << " by " << who << (by_token ? ", token" : ""));
          const absl::Status status = CallRaw(channel, promise.method, promise.request);
          INFO(status.ToString());
          CHECK_FALSE(absl::IsUnavailable(status));
          CHECK(IsRefusal(status) == !(promise.who[who] && promise.where[where]));
          ++cells;
        }
      }
    }
  }
  CHECK(cells == 3 * 9 * 14);
}

TEST_CASE("without TLS everybody may do all, each at its listener") {
  Certificates certificates;
  Secured one(certificates, false, /*tls=*/false), three(certificates, true, /*tls=*/false);
  const std::array<std::string, kWheres> address = {one.workers(), three.workers(),
                                                    three.clients()};
  for (int where = 0; where < kWheres; ++where) {
    const auto channel = rpc::DialFresh(address[where]);
    for (const Promise& promise : Promises()) {
      INFO(promise.method << " at " << where);
      const absl::Status status = CallRaw(channel, promise.method, promise.request);
      INFO(status.ToString());
      const bool known = !absl::StrContains(promise.method, "NoSuch");
      CHECK(IsRefusal(status) == !(known && promise.where[where]));
    }
  }
}

TEST_CASE("plain calls to a planner with TLS, and TLS to a plain one, end with an error") {
  Certificates certificates;
  Secured secured(certificates, false), plain(certificates, false, /*tls=*/false);
  const security::Files files = certificates.Issue(Role::kOperator, "ops");
  const char* list = "/warpsmith.v1.PlannerService/List";
  CHECK(absl::IsUnavailable(CallRaw(rpc::DialFresh(secured.workers()), list, "")));
  CHECK(absl::IsUnavailable(CallRaw(Dial(plain.workers(), files), list, "")));
}

absl::StatusOr<v1::SynchronizeReply> Sync(const std::shared_ptr<grpc::Channel>& channel,
                                          const v1::SynchronizeRequest& request,
                                          int64_t limit_ms = 40'000) {
  grpc::ClientContext context;
  rpc::SetDeadline(context, limit_ms);
  v1::SynchronizeReply reply;
  const grpc::Status status =
      v1::WorkerService::NewStub(channel)->Synchronize(&context, request, &reply);
  if (!status.ok()) return rpc::FromGrpc(status);
  return reply;
}

TEST_CASE("a worker speaks for itself, and nobody else for its leases") {
  Certificates certificates;
  Secured secured(certificates, false);
  const auto ops = Dial(secured.clients(), certificates.Issue(Role::kOperator, "ops"));
  const auto w = Dial(secured.workers(), certificates.Issue(Role::kWorker, "w"));
  const auto v = Dial(secured.workers(), certificates.Issue(Role::kWorker, "v"));
  REQUIRE(CallRaw(ops, Promises()[1].method, Promises()[1].request).ok());
  for (const char* id : {"v", "w1", "w-tpu0", "", "w-cuda", "W"}) {
    INFO(id);
    CHECK(absl::IsPermissionDenied(Sync(w, SyncOf(id, "")).status()));
  }
  CHECK(Sync(w, SyncOf("w-cuda0", "", 0)).ok());
  CHECK(Sync(w, SyncOf("w-host", "", 0)).ok());
  const auto joined = Sync(w, SyncOf("w", ""));
  REQUIRE(joined.ok());
  const auto taken = Sync(w, SyncOf("w", joined->session_id()));
  REQUIRE(taken.ok());
  REQUIRE(taken->start_size() == 1);
  const v1::Lease lease = taken->start(0);
  const auto theirs = Sync(v, SyncOf("v", "", 0));
  REQUIRE(theirs.ok());
  v1::SynchronizeRequest thief = SyncOf("v", theirs->session_id(), 0);
  testing::AddStatus(lease, 1, true, thief);
  testing::AddResult(lease, "t", 5, thief);
  const auto refused = Sync(v, thief);
  REQUIRE(refused.ok());
  CHECK(refused->recorded_size() == 0);
  CHECK(refused->drop_size() == 1);
  v1::SynchronizeRequest mine = SyncOf("w", taken->session_id(), 0);
  testing::AddResult(lease, "u", 2, mine);
  const auto recorded = Sync(w, mine);
  REQUIRE(recorded.ok());
  CHECK(recorded->recorded_size() == 2);
  CHECK(recorded->drop_size() == 0);
}

TEST_CASE("a submitter's runs are its own") {
  Certificates certificates;
  Secured secured(certificates, false);
  const auto stub = [&](Role role, const std::string& name) {
    return v1::PlannerService::NewStub(Dial(secured.clients(), certificates.Issue(role, name)));
  };
  const auto ada = stub(Role::kSubmitter, "ada"), bob = stub(Role::kSubmitter, "bob"),
             ops = stub(Role::kOperator, "ops");
  v1::SubmitRequest submit;
  *submit.mutable_problems() = testing::SetOf(1);
  submit.set_arch("host");
  const auto send = [&](v1::PlannerService::Stub& who, v1::SubmitReply* reply) {
    grpc::ClientContext context;
    return who.Submit(&context, submit, reply).error_code();
  };
  v1::SubmitReply reply;
  REQUIRE(send(*ada, &reply) == grpc::StatusCode::OK);
  CHECK(reply.run().submitter() == "ada");
  submit.set_submitter("bob");
  CHECK(send(*ada, &reply) == grpc::StatusCode::PERMISSION_DENIED);
  submit.set_submitter("ada");
  submit.set_weight(5);
  CHECK(send(*ada, &reply) == grpc::StatusCode::PERMISSION_DENIED);
  CHECK(send(*ops, &reply) == grpc::StatusCode::OK);
  submit.set_weight(0);
  CHECK(send(*ada, &reply) == grpc::StatusCode::OK);

  v1::SetTaskRequest hold;
  hold.set_task_id("r1/p0@host");
  hold.set_state(v1::HELD);
  v1::CancelRunRequest cancel;
  cancel.set_run_id("r1");
  const auto set = [&](v1::PlannerService::Stub& who) {
    grpc::ClientContext context;
    v1::SetTaskReply set_reply;
    return who.SetTask(&context, hold, &set_reply).error_code();
  };
  const auto end = [&](v1::PlannerService::Stub& who) {
    grpc::ClientContext context;
    v1::CancelRunReply cancel_reply;
    return who.CancelRun(&context, cancel, &cancel_reply).error_code();
  };
  v1::SetPriorityRequest prioritize;
  prioritize.set_run_id("r1");
  const auto put = [&](v1::PlannerService::Stub& who, int priority) {
    grpc::ClientContext context;
    v1::SetPriorityReply put_reply;
    prioritize.set_priority(priority);
    const grpc::StatusCode code = who.SetPriority(&context, prioritize, &put_reply).error_code();
    if (code == grpc::StatusCode::OK) CHECK(put_reply.run().priority() == priority);
    return code;
  };
  CHECK(put(*bob, 1) == grpc::StatusCode::PERMISSION_DENIED);
  CHECK(put(*ada, 2) == grpc::StatusCode::OK);
  CHECK(put(*ops, 3) == grpc::StatusCode::OK);
  CHECK(put(*ops, 1'001) == grpc::StatusCode::INVALID_ARGUMENT);
  CHECK(set(*bob) == grpc::StatusCode::PERMISSION_DENIED);
  CHECK(end(*bob) == grpc::StatusCode::PERMISSION_DENIED);
  CHECK(set(*ada) == grpc::StatusCode::OK);
  CHECK(set(*ops) == grpc::StatusCode::OK);
  CHECK(end(*ada) == grpc::StatusCode::OK);
}

TEST_CASE("certificates change without a restart, and who is revoked is told so") {
  Certificates certificates;
  Secured secured(certificates, false);
  const security::Files files = certificates.Issue(Role::kWorker, "w");
  const auto w = Dial(secured.workers(), files);
  const auto joined = Sync(w, SyncOf("w", ""));
  REQUIRE(joined.ok());

  SECTION("the planner's own") {
    REQUIRE(certificates.authority().Rotate("planner", security::kDefaultLife, absl::Now()).ok());
    absl::SleepFor(absl::Milliseconds(200));
    ahead_s = 2 * absl::ToInt64Seconds(kPlannerLife);
    CHECK(Sync(w, SyncOf("w", joined->session_id(), 0)).ok());  // the connection goes on
    CHECK(Sync(Dial(secured.workers(), files), SyncOf("w", joined->session_id(), 0)).ok());
    ahead_s = 0;
  }
  SECTION("the planner's own is not changed, and ends") {
    ahead_s = 2 * absl::ToInt64Seconds(kPlannerLife);
    const absl::Status late =
        Sync(Dial(secured.workers(), files), SyncOf("w", joined->session_id(), 0)).status();
    CHECK(absl::IsUnavailable(late));
    CHECK_THAT(std::string(late.message()), Catch::Contains("expired"));
    ahead_s = 0;
  }
  SECTION("the worker's own") {
    REQUIRE(certificates.authority().Rotate("w", security::kDefaultLife, absl::Now()).ok());
    CHECK(Sync(Dial(secured.workers(), files), SyncOf("w", joined->session_id(), 0)).ok());
    CHECK(Sync(w, SyncOf("w", joined->session_id(), 0)).ok());
  }
  SECTION("revoked while its call is parked") {
    auto parked = std::async(std::launch::async,
                             [&] { return Sync(w, SyncOf("w", joined->session_id(), 1)); });
    absl::SleepFor(absl::Milliseconds(200));
    REQUIRE(certificates.authority().Revoke("w", absl::Now()).ok());
    REQUIRE(parked.wait_for(std::chrono::seconds(10)) == std::future_status::ready);
    const auto reply = parked.get();
    REQUIRE(reply.ok());
    CHECK(reply->start_size() == 0);
    CHECK(reply->next_sync_after_ms() > 0);
    CHECK(reply->next_sync_after_ms() <= CoreOptions().busy_sync_ms);
    const auto refused = Sync(w, SyncOf("w", joined->session_id(), 1));
    CHECK(absl::IsUnauthenticated(refused.status()));
    CHECK_THAT(std::string(refused.status().message()), Catch::Contains("revoked"));
  }
  SECTION("expired") {
    ahead_s = absl::ToInt64Seconds(security::kDefaultLife) + 1;
    const auto refused = Sync(w, SyncOf("w", joined->session_id(), 0));
    CHECK(absl::IsUnauthenticated(refused.status()));
    CHECK_THAT(std::string(refused.status().message()), Catch::Contains("expired"));
    ahead_s = 0;
  }
}

TEST_CASE("a client takes no planner but its own fleet's, by the name that it called") {
  Certificates certificates, others;
  const char* list = "/warpsmith.v1.PlannerService/List";
  Secured secured(certificates, false);
  SECTION("another authority's client") {
    const auto status =
        CallRaw(Dial(secured.clients(), others.Issue(Role::kOperator, "ops")), list, "");
    CHECK(absl::IsUnavailable(status));
  }
  SECTION("another authority's certificate, with the right authority believed") {
    security::Files files = others.Issue(Role::kOperator, "ops");
    const auto identity = security::ReadIdentity(files, security::Needs::kNothing, Date());
    REQUIRE(identity.ok());
    security::Identity mixed = **identity;
    const auto trusting = security::ReadIdentity({.ca = certificates.Path("ca.crt")},
                                                 security::Needs::kNothing, Date());
    mixed.ca_pem = (*trusting)->ca_pem;
    mixed.trust = (*trusting)->trust;
    const auto channel = rpc::DialFresh(
        secured.clients(),
        security::ChannelCredentials(std::make_shared<security::Identity>(mixed), "", &Date));
    CHECK(absl::IsUnauthenticated(CallRaw(channel, list, "")));
  }
  SECTION("a host that its certificate does not name") {
    Secured everywhere(certificates, false, /*tls=*/true, "0.0.0.0:0");
    const std::string port = everywhere.clients().substr(everywhere.clients().rfind(':'));
    const security::Files files = certificates.Issue(Role::kOperator, "ops");
    CHECK(CallRaw(Dial("127.0.0.1" + port, files), list, "").ok());
    const absl::Status status = CallRaw(Dial("127.0.0.2" + port, files), list, "");
    CHECK(absl::IsUnavailable(status));
    CHECK_THAT(std::string(status.message()), Catch::Contains("and not for '127.0.0.2'"));
  }
  SECTION("the right one") {
    CHECK(CallRaw(Dial(secured.clients(), certificates.Issue(Role::kOperator, "ops")), list, "")
              .ok());
  }
}

TEST_CASE("only with certificates may a planner listen where others reach it") {
  Certificates certificates;
  store::MemoryStore store;
  auto planner = *Planner::Start(
      &store, {},
      [] {
        return Now{1, 1};
      },
      [](const absl::Status&) {});
  const auto server =
      Server::Start(planner.get(), {.listen = "0.0.0.0:0"}, [](const absl::Status&) {});
  CHECK(absl::IsInvalidArgument(server.status()));
  const auto clients =
      Server::Start(planner.get(), {.listen = "127.0.0.1:0", .listen_clients = "0.0.0.0:0"},
                    [](const absl::Status&) {});
  CHECK(absl::IsInvalidArgument(clients.status()));
  planner->Stop();
}

}  // namespace
}  // namespace warpsmith::planner
