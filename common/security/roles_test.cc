#include "common/security/roles.h"

#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "warpsmith/v1/planner.pb.h"

namespace warpsmith::security {
namespace {

using Catch::Matchers::Contains;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST_CASE("every method of our services stands in the table, and nothing that there is not") {
  std::set<std::string> methods;
  const auto* file = v1::SynchronizeRequest::descriptor()->file();
  for (int s = 0; s < file->service_count(); ++s) {
    for (int m = 0; m < file->service(s)->method_count(); ++m) {
      methods.insert(absl::StrCat("/", file->service(s)->full_name(), "/",
                                  file->service(s)->method(m)->name()));
    }
  }
  CHECK(methods.size() >= 9);
  for (const std::string& method : methods) {
    INFO(method);
    CHECK(FindRule(method) != nullptr);
  }
  for (const Rule& rule : Rules()) {
    INFO(std::string(rule.method));
    if (rule.method.substr(0, 11) == "/warpsmith.") CHECK(methods.count(std::string(rule.method)));
    CHECK((rule.own & ~rule.roles) == 0);
    CHECK((rule.roles & Bit(Role::kLocal)) != 0);
  }
}

// Said once more, as the issue of it was: a table that is changed by mistake shows here.
TEST_CASE("roles may what they are for") {
  const std::map<Role, std::set<std::string>> may = {
      {Role::kNobody, {}},
      {Role::kWorker, {"Synchronize"}},
      {Role::kSubmitter,
       {"Submit", "List", "GetTask", "GetBoard", "SetTask", "CancelRun", "SetPriority"}},
      {Role::kOperator,
       {"Submit", "List", "GetTask", "GetBoard", "SetTask", "CancelRun", "SetPriority",
        "HoldWorker", "ReleaseWorker", "ServerReflectionInfo"}},
      {Role::kReader, {"List", "GetTask", "GetBoard"}},
      {Role::kPlanner, {}},
  };
  for (const auto& [role, methods] : may) {
    for (const Rule& rule : Rules()) {
      const std::string method(rule.method.substr(rule.method.rfind('/') + 1));
      if ((rule.listeners & Bit(Listener::kAll)) == 0) continue;  // by HTTP, below
      const bool health = method == "Check" || method == "Watch";
      INFO(std::string(NameOf(role)) << " " << method);
      CHECK(Check({role, "x"}, rule.method, Listener::kAll).ok() ==
            (health || methods.count(method) > 0));
    }
  }
  const Caller submitter{Role::kSubmitter, "ci"}, op{Role::kOperator, "ada"};
  for (const char* name : {"SetTask", "CancelRun", "SetPriority"}) {
    CHECK(IsOwnOnly(submitter, std::string("/warpsmith.v1.PlannerService/") + name));
    CHECK_FALSE(IsOwnOnly(op, std::string("/warpsmith.v1.PlannerService/") + name));
  }
  CHECK(IsOwnOnly({Role::kWorker, "w"}, "/warpsmith.v1.WorkerService/Synchronize"));
}

TEST_CASE("who may ask for what by HTTP") {
  for (const Role role : kRoles) {
    INFO(std::string(NameOf(role)));
    const bool looks = role == Role::kLocal || role == Role::kSubmitter ||
                       role == Role::kOperator || role == Role::kReader;
    for (const char* method : {"/http/metrics", "/http/workers"}) {
      CHECK(Check({role, "x"}, method, Listener::kHttp).ok() == looks);
      CHECK_FALSE(Check({role, "x"}, method, Listener::kAll).ok());
    }
    for (const char* method : {"/http/healthz", "/http/readyz"}) {
      CHECK(Check({role, "x"}, method, Listener::kHttp).ok());
    }
    CHECK_FALSE(Check({role, "x"}, "/grpc.health.v1.Health/Check", Listener::kHttp).ok());
  }
}

TEST_CASE("who may ask for what by the page") {
  const std::string service = "/warpsmith.v1.PlannerService/";
  for (const Role role : kRoles) {
    INFO(std::string(NameOf(role)));
    const auto may = [&](const std::string& method) {
      return Check({role, "x"}, method, Listener::kPage).ok();
    };
    const bool submits =
        role == Role::kLocal || role == Role::kSubmitter || role == Role::kOperator;
    const bool operates = role == Role::kLocal || role == Role::kOperator;
    CHECK(may("/page/files"));
    for (const char* name : {"you", "state", "events", "task", "board"}) {
      CHECK(may(std::string("/page/") + name) == (submits || role == Role::kReader));
    }
    for (const char* name : {"SetTask", "CancelRun", "SetPriority"}) {
      CHECK(may(service + name) == submits);
    }
    for (const char* name : {"HoldWorker", "ReleaseWorker"}) CHECK(may(service + name) == operates);
    // What the page does not do goes by gRPC alone.
    for (const char* name : {"Submit", "List", "GetTask", "GetBoard"})
      CHECK_FALSE(may(service + name));
    CHECK_FALSE(may("/http/metrics"));
    CHECK_FALSE(Check({role, "x"}, "/page/state", Listener::kHttp).ok());
  }
}

TEST_CASE("the guide has the table as it is") {
  const auto guide = base::ReadFile(std::string(WARPSMITH_SOURCE) + "/docs/guide/secure.md");
  REQUIRE(guide.status() == absl::OkStatus());
  CHECK_THAT(*guide, Contains("\n\n" + TableMarkdown() + "\n"));
}

TEST_CASE("a refusal says who, what and why") {
  const char* submit = "/warpsmith.v1.PlannerService/Submit";
  const absl::Status reader = Check({Role::kReader, "ada"}, submit, Listener::kClients);
  CHECK(absl::IsPermissionDenied(reader));
  CHECK_THAT(Message(reader), Contains("reader 'ada' (certificate) may not call Submit, which is "
                                       "for submitter and operator"));
  const absl::Status nobody = Check({}, submit, Listener::kClients);
  CHECK(absl::IsUnauthenticated(nobody));
  CHECK_THAT(Message(nobody), Contains("--token-file"));
  const absl::Status there = Check({Role::kOperator, "ada"}, submit, Listener::kWorkers);
  CHECK(absl::IsPermissionDenied(there));
  CHECK_THAT(Message(there), Contains("--listen-clients"));
  CHECK(absl::IsUnimplemented(Check({Role::kOperator, "ada"}, "/x.Y/Z", Listener::kAll)));
  CHECK(absl::IsUnimplemented(Check({Role::kLocal, ""}, "", Listener::kAll)));
}

TEST_CASE("what a caller wrote is shown in one short line") {
  const std::string endless = "/x/y\n\x1b[2J" + std::string(10'000, 'z');
  for (const absl::Status& refused :
       {Check({Role::kOperator, "ada"}, endless, Listener::kAll), ParseUri(endless).status(),
        CheckName(endless), ParseRole(endless).status()}) {
    CHECK(refused.message().size() < 600);
    CHECK(Message(refused).find_first_of("\n\x1b") == std::string::npos);
  }
}

TEST_CASE("names are told apart") {
  CHECK(ParseUri("warpsmith://worker/gpu-07")->name == "gpu-07");
  CHECK(UriOf(*ParseUri("warpsmith://operator/ada")) == "warpsmith://operator/ada");
  for (const char* bad : {"", "warpsmith://", "warpsmith://worker", "warpsmith://worker/",
                          "warpsmith://nobody/x", "warpsmith://local/x", "https://worker/x",
                          "warpsmith://worker/a/b", "warpsmith://worker/a b"}) {
    INFO(bad);
    CHECK_FALSE(ParseUri(bad).ok());
  }
  for (const char* bad : {"", ".x", "-x", "a/b", "../x", "a b", "a\n"}) {
    INFO(bad);
    CHECK_FALSE(CheckName(bad).ok());
  }
  CHECK_FALSE(CheckName(std::string(kMaxName + 1, 'a')).ok());
  for (const char* id : {"gpu-07", "gpu-07-host", "gpu-07-host0", "gpu-07-host12", "gpu-07-cuda0",
                         "gpu-07-cuda12"}) {
    CHECK(IsWorkerOf("gpu-07", id));
  }
  for (const char* id : {"", "gpu-0", "gpu-070", "gpu-07-", "gpu-07-cuda", "gpu-07-cudax",
                         "gpu-07-b-cuda0", "gpu-07-hostx", "gpu-07-host1x", "x-gpu-07"}) {
    INFO(id);
    CHECK_FALSE(IsWorkerOf("gpu-07", id));
  }
  for (const char* id : {"gpu-07-task0", "gpu-07-task1234.56"}) CHECK(IsWorkerOf("gpu-07", id));
  for (const char* id : {"gpu-07-task", "gpu-07-taskx", "gpu-07-task1-2", "gpu-07-cuda1.2"}) {
    INFO(id);
    CHECK_FALSE(IsWorkerOf("gpu-07", id));
  }
  CHECK_FALSE(IsWorkerOf("", "-host"));
}

}  // namespace
}  // namespace warpsmith::security
