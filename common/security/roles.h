// Who may call what: roles, listeners, and the one table that says which role may call which method
// at which listener. The planner's check and the table in docs/guide/secure.md both come from it.
//
//   Caller caller{Role::kReader, "ada"};
//   absl::Status allowed = Check(caller, "/warpsmith.v1.PlannerService/Submit",
//   Listener::kClients);
//   // PermissionDenied: reader 'ada' may not call Submit, which is for submitter and operator ...
//
// Pure; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace warpsmith::security {

enum class Role {
  kNobody,     // over TLS, without certificate and token
  kLocal,      // over loopback or a unix socket without TLS, where whoever reaches it may do all
  kWorker,     // works
  kSubmitter,  // submits, and changes its own runs
  kOperator,   // may do what people may do
  kReader,     // looks
  kPlanner,    // serves
};
inline constexpr Role kRoles[] = {Role::kNobody,   Role::kLocal,  Role::kWorker, Role::kSubmitter,
                                  Role::kOperator, Role::kReader, Role::kPlanner};

// What a listener is for.
enum class Listener {
  kAll,      // workers and clients together
  kWorkers,  // workers alone
  kClients,  // people and their tools
  kHttp,     // whoever watches over the process, by HTTP
  kPage,     // people with a browser, by HTTP
};
inline constexpr Listener kListeners[] = {Listener::kAll, Listener::kWorkers, Listener::kClients,
                                          Listener::kHttp, Listener::kPage};

std::string_view NameOf(Role role);  // "worker"
std::string_view NameOf(Listener listener);

// ---- names -------------------------------------------------------------------------------------

inline constexpr size_t kMaxName = 100;

// What a certificate or a token says of who has it. As a URI: warpsmith://worker/gpu-07.
struct Name {
  Role role = Role::kNobody;
  std::string name;
};
std::string UriOf(const Name& name);
// InvalidArgument: it is no such URI.
absl::StatusOr<Name> ParseUri(std::string_view uri);
// Of those that are given to certificates and tokens. InvalidArgument lists them.
absl::StatusOr<Role> ParseRole(std::string_view text);
// InvalidArgument: a name is 1 to kMaxName letters, digits, '.', '_' and '-', and begins with a
// letter or digit, since it names files too.
absl::Status CheckName(std::string_view name);

// Whether a worker's certificate of that name is one for the worker `id`: its name is the id, or
// the id is its name with one of the machine's devices, as workers are called that are given no
// name: "gpu-07" with "-host", "-host0" or "-cuda0"; or with one of a scheduler's tasks, as workers
// are called that it places on any machine: "lab" with "-task3", or "-task1234.3" of job 1234.
bool IsWorkerOf(std::string_view name, std::string_view id);

// ---- the table ---------------------------------------------------------------------------------

struct Rule {
  std::string_view method;  // "/package.Service/Method"; "/http/path" and "/page/path" of GET /path
  unsigned listeners = 0;   // bits by Listener
  unsigned roles = 0;       // bits by Role
  unsigned own = 0;         // roles that may do so with what is their own alone
};
const std::vector<Rule>& Rules();
// Null: there is no such method.
const Rule* FindRule(std::string_view method);

constexpr unsigned Bit(Role role) { return 1u << static_cast<unsigned>(role); }
constexpr unsigned Bit(Listener listener) { return 1u << static_cast<unsigned>(listener); }

struct Caller {
  Role role = Role::kNobody;
  std::string name;
  bool by_token = false;
};
std::string Describe(const Caller& caller);  // "submitter 'ci' (token)"

// Whether the caller may make such calls to a listener of that kind; that a call is limited to what
// is its own is for who knows whose it is (IsOwnOnly). Unimplemented: nobody has heard of such a
// method. Unauthenticated: it says not who it is. PermissionDenied: it may not. All say who, what,
// why, and what to do.
absl::Status Check(const Caller& caller, std::string_view method, Listener listener);
bool IsOwnOnly(const Caller& caller, std::string_view method);
// Whether such a listener serves any method of the service, "warpsmith.v1.PlannerService".
bool Serves(Listener listener, std::string_view service);

// The table as markdown: methods by roles.
std::string TableMarkdown();

}  // namespace warpsmith::security
