// What is told of who is let in, and of the files that say so; docs/reference/log.md lists it.
#pragma once

#include "absl/types/span.h"
#include "common/telemetry/log.h"

namespace warpsmith::security {

namespace told {

using telemetry::LogEvent;
using enum spdlog::level::level_enum;

inline constexpr LogEvent kRefused = {"refused", warn, "refused {call}: {reason}"};
inline constexpr LogEvent kRefusedMore = {"refused_more", warn,
                                          "{refusals} more refusals were not told"};
inline constexpr LogEvent kTlsChanged = {"tls_changed", info,
                                         "files of TLS have changed: {name} until {until}"};
inline constexpr LogEvent kTokensChanged = {"tokens_changed", info, "tokens have changed"};
inline constexpr LogEvent kNotTaken = {"files_not_taken", err, "{reason}"};
inline constexpr LogEvent kTlsNotTaken = {"tls_not_taken", warn,
                                          "changed files of TLS are not taken: {reason}"};
inline constexpr LogEvent kEnds = {
    "certificate_ends", warn,
    "the certificate of {uri}, its authority or the list of what is revoked ends on {until}: "
    "`warpsmith certs list` tells, `certs rotate {name}` makes a new certificate, which is taken "
    "without a restart"};

inline constexpr LogEvent kTable[] = {kRefused,  kRefusedMore, kTlsChanged, kTokensChanged,
                                      kNotTaken, kTlsNotTaken, kEnds};

}  // namespace told

inline absl::Span<const telemetry::LogEvent> SecurityLogTable() { return told::kTable; }

}  // namespace warpsmith::security
