#include "common/problem/canonical.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

namespace warpsmith::problem {

std::string CanonicalBytes(const google::protobuf::Message& message) {
  std::string bytes(message.ByteSizeLong(), '\0');
  {
    google::protobuf::io::ArrayOutputStream stream(bytes.data(), static_cast<int>(bytes.size()));
    google::protobuf::io::CodedOutputStream output(&stream);
    output.SetSerializationDeterministic(true);
    message.SerializeWithCachedSizes(&output);
  }
  return bytes;
}

}  // namespace warpsmith::problem
