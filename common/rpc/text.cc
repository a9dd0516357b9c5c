#include "common/rpc/text.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "common/base/text.h"

namespace warpsmith::rpc {
namespace {

using base::CharacterBytes;
using base::kReplacement;
using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Reflection;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    // Most of it is ASCII.
    uint64_t eight = 0x80;
    if (text.size() >= sizeof eight) std::memcpy(&eight, text.data(), sizeof eight);
    if ((eight & 0x8080808080808080u) == 0) {
      text.remove_prefix(sizeof eight);
      continue;
    }
    const size_t size = CharacterBytes(text);
    if (size == 0) return false;
    text.remove_prefix(size);
  }
  return true;
}

// Reads a message of that type up to the stream's limit.
bool IsRepaired(const Descriptor* type, CodedInputStream& in) {
  while (const uint32_t tag = in.ReadTag()) {
    if (WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      if (!WireFormatLite::SkipField(&in, tag)) return false;
      continue;
    }
    uint32_t size = 0;
    if (!in.ReadVarint32(&size)) return false;
    const FieldDescriptor* field = type->FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
    if (field != nullptr && field->message_type() != nullptr) {
      const CodedInputStream::Limit limit = in.PushLimit(static_cast<int>(size));
      if (!IsRepaired(field->message_type(), in)) return false;
      in.PopLimit(limit);
      continue;
    }
    const void* data = nullptr;
    int there = 0;
    if (size > 0) in.GetDirectBufferPointer(&data, &there);
    const std::string_view text(static_cast<const char*>(data), static_cast<size_t>(there));
    if (!in.Skip(static_cast<int>(size))) return false;
    if (field != nullptr && field->type() == FieldDescriptor::TYPE_STRING &&
        !IsUtf8(text.substr(0, size))) {
      return false;
    }
  }
  return true;
}

void RepairField(google::protobuf::Message& message, const FieldDescriptor* field) {
  const Reflection& reflection = *message.GetReflection();
  const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
  for (int i = 0; i < count; ++i) {
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      RepairStrings(field->is_repeated() ? *reflection.MutableRepeatedMessage(&message, field, i)
                                         : *reflection.MutableMessage(&message, field));
      continue;
    }
    const std::string text = field->is_repeated() ? reflection.GetRepeatedString(message, field, i)
                                                  : reflection.GetString(message, field);
    if (IsUtf8(text)) continue;
    if (field->is_repeated()) {
      reflection.SetRepeatedString(&message, field, i, ToUtf8(text));
    } else {
      reflection.SetString(&message, field, ToUtf8(text));
    }
  }
}

}  // namespace

std::string ToUtf8(std::string_view text) {
  std::string valid;
  while (!text.empty()) {
    const size_t size = CharacterBytes(text);
    valid += size == 0 ? kReplacement : text.substr(0, size);
    text.remove_prefix(size == 0 ? 1 : size);
  }
  return valid;
}

bool IsRepaired(const google::protobuf::Message& type, std::string_view bytes) {
  CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()),
                      static_cast<int>(bytes.size()));
  return IsRepaired(type.GetDescriptor(), in);
}

void RepairStrings(google::protobuf::Message& message) {
  std::vector<const FieldDescriptor*> present;
  message.GetReflection()->ListFields(message, &present);
  for (const FieldDescriptor* field : present) {
    if (field->type() == FieldDescriptor::TYPE_STRING ||
        field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      RepairField(message, field);
    }
  }
}

}  // namespace warpsmith::rpc
