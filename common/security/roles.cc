#include "common/security/roles.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace warpsmith::security {
namespace {

constexpr std::string_view kScheme = "warpsmith://";

// Debian's absl::string_view is not std's.
absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

template <typename... Values>
constexpr unsigned Bits(Values... values) {
  return (Bit(values) | ...);
}

using enum Role;
constexpr unsigned kEverybody =
    Bits(kNobody, kLocal, kWorker, kSubmitter, kOperator, kReader, kPlanner);
constexpr unsigned kLookers = Bits(kLocal, kSubmitter, kOperator, kReader);
constexpr unsigned kSubmitters = Bits(kLocal, kSubmitter, kOperator);
constexpr unsigned kOperators = Bits(kLocal, kOperator);

constexpr unsigned kByGrpc = Bits(Listener::kAll, Listener::kWorkers, Listener::kClients);
constexpr unsigned kByHttp = Bits(Listener::kHttp);
constexpr unsigned kByPage = Bits(Listener::kPage);
constexpr unsigned kForWorkers = Bits(Listener::kAll, Listener::kWorkers);
constexpr unsigned kForClients = Bits(Listener::kAll, Listener::kClients);
constexpr unsigned kForPeople = Bits(Listener::kAll, Listener::kClients, Listener::kPage);

// THE table. Whatever is not in it is refused.
constexpr Rule kRules[] = {
    {"/warpsmith.v1.WorkerService/Synchronize", kForWorkers, Bits(kLocal, kWorker), Bits(kWorker)},
    {"/warpsmith.v1.PlannerService/Submit", kForClients, kSubmitters, Bits(kSubmitter)},
    {"/warpsmith.v1.PlannerService/List", kForClients, kLookers},
    {"/warpsmith.v1.PlannerService/GetTask", kForClients, kLookers},
    {"/warpsmith.v1.PlannerService/GetBoard", kForClients, kLookers},
    {"/warpsmith.v1.PlannerService/SetTask", kForPeople, kSubmitters, Bits(kSubmitter)},
    {"/warpsmith.v1.PlannerService/CancelRun", kForPeople, kSubmitters, Bits(kSubmitter)},
    {"/warpsmith.v1.PlannerService/SetPriority", kForPeople, kSubmitters, Bits(kSubmitter)},
    {"/warpsmith.v1.PlannerService/HoldWorker", kForPeople, kOperators},
    {"/warpsmith.v1.PlannerService/ReleaseWorker", kForPeople, kOperators},
    {"/grpc.health.v1.Health/Check", kByGrpc, kEverybody},
    {"/grpc.health.v1.Health/Watch", kByGrpc, kEverybody},
    {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", kForClients, kOperators},
    {"/http/healthz", kByHttp, kEverybody},
    {"/http/readyz", kByHttp, kEverybody},
    {"/http/metrics", kByHttp, kLookers},
    {"/http/workers", kByHttp, kLookers},
    {"/page/files", kByPage, kEverybody},
    {"/page/you", kByPage, kLookers},
    {"/page/state", kByPage, kLookers},
    {"/page/events", kByPage, kLookers},
    {"/page/task", kByPage, kLookers},
    {"/page/board", kByPage, kLookers},
};

// Of what a caller wrote, for messages.
std::string Shown(std::string_view text) {
  constexpr size_t kMax = 100;
  return absl::CHexEscape(View(text.substr(0, kMax)));
}

std::string_view MethodOf(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// "submitter and operator"
std::string RolesOf(const Rule& rule) {
  std::vector<std::string> names;
  for (const Role role : kRoles) {
    if (role != kLocal && (rule.roles & Bit(role)) != 0) names.emplace_back(NameOf(role));
  }
  return absl::StrJoin(names, names.size() == 2 ? " and " : ", ");
}

// "workers' listener (--listen)"
std::string ListenersOf(const Rule& rule) {
  if (rule.listeners == kByHttp) return "that for HTTP (--listen-http)";
  if (rule.listeners == kByPage) return "that of the page (--listen-page)";
  return (rule.listeners & Bit(Listener::kClients)) != 0 ? "that for clients (--listen-clients)"
                                                         : "that for workers (--listen)";
}

}  // namespace

std::string_view NameOf(Role role) {
  switch (role) {
    case kNobody:
      return "nobody";
    case kLocal:
      return "local";
    case kWorker:
      return "worker";
    case kSubmitter:
      return "submitter";
    case kOperator:
      return "operator";
    case kReader:
      return "reader";
    case kPlanner:
      return "planner";
  }
  return "";
}

std::string_view NameOf(Listener listener) {
  switch (listener) {
    case Listener::kAll:
      return "workers and clients";
    case Listener::kWorkers:
      return "workers";
    case Listener::kClients:
      return "clients";
    case Listener::kHttp:
      return "HTTP";
    case Listener::kPage:
      return "page";
  }
  return "";
}

std::string UriOf(const Name& name) {
  return absl::StrCat(View(kScheme), View(NameOf(name.role)), "/", name.name);
}

absl::StatusOr<Role> ParseRole(std::string_view text) {
  for (const Role role : {kWorker, kSubmitter, kOperator, kReader, kPlanner}) {
    if (text == NameOf(role)) return role;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "'", Shown(text), "' is no role: there are worker, submitter, operator, reader and planner"));
}

absl::Status CheckName(std::string_view name) {
  const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
  });
  if (plain && !name.empty() && name.size() <= kMaxName && absl::ascii_isalnum(name.front())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("'", Shown(name), "' is no name: it has 1 to ",
                                                 kMaxName,
                                                 " letters, digits, '.', '_' and '-', and begins "
                                                 "with a letter or digit"));
}

absl::StatusOr<Name> ParseUri(std::string_view uri) {
  const auto wrong = [&] {
    return absl::InvalidArgumentError(
        absl::StrCat("'", Shown(uri), "' is not of the form ", View(kScheme), "ROLE/NAME"));
  };
  if (uri.substr(0, kScheme.size()) != kScheme) return wrong();
  const std::string_view rest = uri.substr(kScheme.size());
  const size_t slash = rest.find('/');
  if (slash == rest.npos) return wrong();
  const absl::StatusOr<Role> role = ParseRole(rest.substr(0, slash));
  const std::string_view name = rest.substr(slash + 1);
  if (!role.ok() || !CheckName(name).ok()) return wrong();
  return Name{*role, std::string(name)};
}

bool IsWorkerOf(std::string_view name, std::string_view id) {
  if (name.empty() || id.substr(0, name.size()) != name) return false;
  const std::string_view device = id.substr(name.size());
  constexpr std::string_view kHost = "-host", kCard = "-cuda", kTask = "-task";
  if (device.empty() || device == kHost) return true;
  for (const std::string_view kind : {kHost, kCard, kTask}) {
    if (device.substr(0, kind.size()) != kind) continue;
    const std::string_view number = device.substr(kind.size());
    return !number.empty() && std::all_of(number.begin(), number.end(), [&](char c) {
      return absl::ascii_isdigit(c) || (kind == kTask && c == '.');
    });
  }
  return false;
}

const std::vector<Rule>& Rules() {
  static const auto* const rules = new std::vector<Rule>(std::begin(kRules), std::end(kRules));
  return *rules;
}

const Rule* FindRule(std::string_view method) {
  const auto found = std::find_if(std::begin(kRules), std::end(kRules),
                                  [&](const Rule& rule) { return rule.method == method; });
  return found == std::end(kRules) ? nullptr : found;
}

std::string Describe(const Caller& caller) {
  if (caller.role == kNobody) return "a caller without certificate and token";
  if (caller.role == kLocal) return "a local caller";
  return absl::StrCat(View(NameOf(caller.role)), " '", caller.name, "' (",
                      caller.by_token ? "token" : "certificate", ")");
}

absl::Status Check(const Caller& caller, std::string_view method, Listener listener) {
  const Rule* const rule = FindRule(method);
  if (rule == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat("this planner has no method ", Shown(method), ": is it an older version?"));
  }
  if ((rule->listeners & Bit(listener)) == 0) {
    return absl::PermissionDeniedError(
        absl::StrCat(View(MethodOf(method)), " is not answered at this listener, which is for ",
                     View(NameOf(listener)), ": call ", ListenersOf(*rule)));
  }
  if ((rule->roles & Bit(caller.role)) != 0) return absl::OkStatus();
  if (caller.role == kNobody) {
    return absl::UnauthenticatedError(
        absl::StrCat(View(MethodOf(method)), " is for ", RolesOf(*rule),
                     ", and this call says not who makes it: give a certificate (--tls-cert, "
                     "--tls-key)",
                     rule->roles == Bits(kLocal, kWorker) ? "" : " or a token (--token-file)"));
  }
  return absl::PermissionDeniedError(
      absl::StrCat(Describe(caller), " may not call ", View(MethodOf(method)), ", which is for ",
                   RolesOf(*rule), ": ask whoever runs the planner for such a role"));
}

bool IsOwnOnly(const Caller& caller, std::string_view method) {
  const Rule* const rule = FindRule(method);
  return rule != nullptr && (rule->own & Bit(caller.role)) != 0;
}

bool Serves(Listener listener, std::string_view service) {
  return std::any_of(std::begin(kRules), std::end(kRules), [&](const Rule& rule) {
    return (rule.listeners & Bit(listener)) != 0 &&
           rule.method.substr(1, rule.method.rfind('/') - 1) == service;
  });
}

std::string TableMarkdown() {
  constexpr Listener kSeparate[] = {Listener::kWorkers, Listener::kClients, Listener::kHttp,
                                    Listener::kPage};
  std::string text = "| method | at the listener for |";
  std::string line = "|---|---|";
  for (const Role role : kRoles) {
    absl::StrAppend(&text, " ", View(NameOf(role)), " |");
    absl::StrAppend(&line, "---|");
  }
  absl::StrAppend(&text, "\n", line, "\n");
  for (const Rule& rule : kRules) {
    std::vector<std::string> listeners;
    for (const Listener listener : kSeparate) {
      if ((rule.listeners & Bit(listener)) != 0) listeners.emplace_back(NameOf(listener));
    }
    absl::StrAppend(&text, "| `", View(rule.method.substr(1)), "` | ",
                    absl::StrJoin(listeners, ", "), " |");
    for (const Role role : kRoles) {
      const bool may = (rule.roles & Bit(role)) != 0;
      absl::StrAppend(&text, !may ? " |" : (rule.own & Bit(role)) != 0 ? " own |" : " yes |");
    }
    absl::StrAppend(&text, "\n");
  }
  return text;
}

}  // namespace warpsmith::security
