#include "common/problem/canonical.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

namespace warpsmith::problem {

std::string CanonicalBytes(const google::protobuf::Message& message) {
  std::string bytes;
  bytes.reserve(message.ByteSizeLong());  // the stream would double it time and again
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream output(&stream);
    output.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&output);
  }
  return bytes;
}

}  // namespace warpsmith::problem
