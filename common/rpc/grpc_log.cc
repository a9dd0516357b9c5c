#include "common/rpc/grpc_log.h"

#include <grpc/support/log.h>

#include "absl/strings/str_cat.h"
#include "common/telemetry/log.h"

namespace warpsmith::rpc {
namespace {

using telemetry::LogEvent;

// By gRPC's severity: debug, info, error. It counts as an error what is not one of this program.
constexpr LogEvent kTable[] = {
    {"grpc", spdlog::level::trace, "gRPC: {text}", "at"},
    {"grpc", spdlog::level::debug, "gRPC: {text}", "at"},
    {"grpc", spdlog::level::warn, "gRPC: {text}", "at"},
};

void Tell(gpr_log_func_args* args) {
  telemetry::Log(kTable[args->severity],
                 {{"text", args->message}, {"at", absl::StrCat(args->file, ":", args->line)}});
}

}  // namespace

void LogWhatGrpcSays() { gpr_set_log_function(Tell); }

absl::Span<const LogEvent> GrpcLogTable() { return kTable; }

}  // namespace warpsmith::rpc
