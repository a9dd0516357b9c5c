// What gRPC says of itself goes to the log, in place of lines of its own on stderr.
#pragma once

#include "absl/types/span.h"
#include "common/telemetry/log_line.h"

namespace warpsmith::rpc {

// After StartLog, before gRPC is used.
void LogWhatGrpcSays();

absl::Span<const telemetry::LogEvent> GrpcLogTable();

}  // namespace warpsmith::rpc
