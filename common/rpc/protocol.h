// What a side of Synchronize may know beside the first version of it: names for `features` of
// requests and replies. Whoever does not name one is spoken to as before there was that feature;
// what it has not heard of, it ignores.
#pragma once

namespace warpsmith::rpc {

// LeaseResult.sealed, SynchronizeReply.heard.
inline constexpr char kSealedTrials[] = "sealed-trials";

}  // namespace warpsmith::rpc
