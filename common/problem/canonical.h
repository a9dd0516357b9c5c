// Messages as bytes of which digests are made.
#pragma once

#include <google/protobuf/message.h>

#include <string>

namespace warpsmith::problem {

// Equal messages give equal bytes, whatever the order of their maps was.
std::string CanonicalBytes(const google::protobuf::Message& message);

}  // namespace warpsmith::problem
