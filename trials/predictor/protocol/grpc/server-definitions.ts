/**
 * The messages that the predictor speaks over gRPC; names, numbers and types are those of the
 * published definitions. The profiler has its own: a wrong number on either side shows against the
 * other.
 */
import protobuf from 'protobufjs'

/**
 * ModelSelector is not part of the protocol: it reads the model's name on the server's thread, and
 * leaves tensors to CPU workers.
 * https://github.com/kserve/open-inference-protocol/blob/main/specification/protocol/open_inference_grpc.proto
 */
const openInference = `
syntax = "proto3";
package inference;
message ServerLiveRequest {}
message ServerLiveResponse { bool live = 1; }
message ServerReadyRequest {}
message ServerReadyResponse { bool ready = 1; }
message ModelReadyRequest { string name = 1; string version = 2; }
message ModelReadyResponse { bool ready = 1; }
message ServerMetadataRequest {}
message ServerMetadataResponse { string name = 1; string version = 2; repeated string extensions = 3; }
message ModelMetadataRequest { string name = 1; string version = 2; }
message ModelMetadataResponse {
  message TensorMetadata { string name = 1; string datatype = 2; repeated int64 shape = 3; }
  string name = 1;
  repeated string versions = 2;
  string platform = 3;
  repeated TensorMetadata inputs = 4;
  repeated TensorMetadata outputs = 5;
}
message InferParameter { oneof parameter_choice { bool bool_param = 1; int64 int64_param = 2; string string_param = 3; } }
message InferTensorContents {
  repeated bool bool_contents = 1;
  repeated int32 int_contents = 2;
  repeated int64 int64_contents = 3;
  repeated uint32 uint_contents = 4;
  repeated uint64 uint64_contents = 5;
  repeated float fp32_contents = 6;
  repeated double fp64_contents = 7;
  repeated bytes bytes_contents = 8;
}
message ModelInferRequest {
  message InferInputTensor { string name = 1; string datatype = 2; repeated int64 shape = 3; InferTensorContents contents = 5; }
  message InferRequestedOutputTensor { string name = 1; }
  string model_name = 1;
  string model_version = 2;
  string id = 3;
  repeated InferInputTensor inputs = 5;
  repeated InferRequestedOutputTensor outputs = 6;
  repeated bytes raw_input_contents = 7;
}
message ModelSelector { string model_name = 1; string model_version = 2; }
message ModelInferResponse {
  message InferOutputTensor { string name = 1; string datatype = 2; repeated int64 shape = 3; InferTensorContents contents = 5; }
  string model_name = 1;
  string model_version = 2;
  string id = 3;
  map<string, InferParameter> parameters = 4;
  repeated InferOutputTensor outputs = 5;
  repeated bytes raw_output_contents = 6;
}
`

/**
 * https://github.com/tensorflow/serving/tree/master/tensorflow_serving/apis; tensors, shapes and
 * signatures: https://github.com/tensorflow/tensorflow/tree/master/tensorflow/core
 */
const tensorflowServing = `
syntax = "proto3";
package tensorflow.serving;
message TensorShapeProto { message Dim { int64 size = 1; string name = 2; } repeated Dim dim = 2; bool unknown_rank = 3; }
message TensorProto {
  int32 dtype = 1;
  TensorShapeProto tensor_shape = 2;
  bytes tensor_content = 4;
  repeated float float_val = 5;
  repeated double double_val = 6;
  repeated int32 int_val = 7;
  repeated bytes string_val = 8;
  repeated int64 int64_val = 10;
  repeated bool bool_val = 11;
  repeated uint32 uint32_val = 16;
  repeated uint64 uint64_val = 17;
}
message Int64Value { int64 value = 1; }
message ModelSpec { string name = 1; Int64Value version = 2; string signature_name = 3; }
message PredictRequest { ModelSpec model_spec = 1; map<string, TensorProto> inputs = 2; repeated string output_filter = 3; }
message ModelSelector { ModelSpec model_spec = 1; }
message PredictResponse { map<string, TensorProto> outputs = 1; ModelSpec model_spec = 2; }
message TensorInfo { string name = 1; int32 dtype = 2; TensorShapeProto tensor_shape = 3; }
message SignatureDef { map<string, TensorInfo> inputs = 1; map<string, TensorInfo> outputs = 2; string method_name = 3; }
message SignatureDefMap { map<string, SignatureDef> signature_def = 1; }
message Any { string type_url = 1; bytes value = 2; }
message GetModelMetadataRequest { ModelSpec model_spec = 1; repeated string metadata_field = 2; }
message GetModelMetadataResponse { ModelSpec model_spec = 1; map<string, Any> metadata = 2; }
message GetModelStatusRequest { ModelSpec model_spec = 1; }
message StatusProto { int32 error_code = 1; string error_message = 2; }
message ModelVersionStatus { int64 version = 1; int32 state = 2; StatusProto status = 3; }
message GetModelStatusResponse { repeated ModelVersionStatus model_version_status = 1; }
`

/** https://github.com/grpc/grpc/blob/master/doc/health-checking.md */
const health = `
syntax = "proto3";
package grpc.health.v1;
message HealthCheckRequest { string service = 1; }
message HealthCheckResponse { int32 status = 1; }
`

const root = new protobuf.Root()
for (const text of [openInference, tensorflowServing, health])
  protobuf.parse(text, root, { keepCase: true })
root.resolveAll() // Else lists are written unpacked.

/** Encodes a message of the given type with its package, e.g. 'inference.ModelInferRequest'. */
export const encodeMessage = (name: string, value: object): Buffer => {
  const type = root.lookupType(name)
  return Buffer.from(type.encode(type.fromObject(value)).finish())
}

/**
 * 64-bit numbers as numbers, absent fields with their defaults.
 * @throws for bytes that are no such message
 */
export const decodeMessage = <T>(name: string, bytes: Uint8Array): T => {
  const type = root.lookupType(name)
  return type.toObject(type.decode(bytes), { longs: Number, bytes: Buffer, defaults: true }) as T
}
