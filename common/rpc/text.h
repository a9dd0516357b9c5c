// Text of the world (a compiler's words, cut somewhere) in messages: a receiver cannot parse a
// message with a `string` field that is not UTF-8, so the sender makes it so.
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <string_view>

namespace warpsmith::rpc {

// `text` with U+FFFD in place of each byte that belongs to no UTF-8 character.
std::string ToUtf8(std::string_view text);

// Does so with every `string` field of the message and of those within it.
void RepairStrings(google::protobuf::Message& message);

// Whether that would change nothing of a message like `type`, of which `bytes` are the encoding:
// quick, since it looks at nothing that is not there.
bool IsRepaired(const google::protobuf::Message& type, std::string_view bytes);

}  // namespace warpsmith::rpc
