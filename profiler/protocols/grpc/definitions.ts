/**
 * Messages of both gRPC protocols, as far as they are used. Names, numbers and types are those of
 * the published definitions. Omitted fields are skipped by readers and absent for writers, as in
 * protocol buffers. Compared with the definitions field by field in November 2026.
 */
import protobuf from 'protobufjs'

/**
 * Open Inference Protocol v2, service inference.GRPCInferenceService:
 * https://github.com/kserve/open-inference-protocol/blob/main/specification/protocol/open_inference_grpc.proto
 * The repository index is Triton's extension:
 * https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_model_repository.md
 */
const openInference = `
syntax = "proto3";
package inference;
message ServerReadyRequest {}
message ServerReadyResponse { bool ready = 1; }
message ModelReadyRequest { string name = 1; string version = 2; }
message ModelReadyResponse { bool ready = 1; }
message ModelMetadataRequest { string name = 1; string version = 2; }
message TensorMetadata { string name = 1; string datatype = 2; repeated int64 shape = 3; }
message ModelMetadataResponse {
  string name = 1; repeated string versions = 2; string platform = 3;
  repeated TensorMetadata inputs = 4; repeated TensorMetadata outputs = 5;
}
message InferTensorContents {
  repeated bool bool_contents = 1; repeated int32 int_contents = 2; repeated int64 int64_contents = 3; repeated uint32 uint_contents = 4;
  repeated uint64 uint64_contents = 5; repeated float fp32_contents = 6; repeated double fp64_contents = 7; repeated bytes bytes_contents = 8;
}
message Tensor { string name = 1; string datatype = 2; repeated int64 shape = 3; InferTensorContents contents = 5; }
message ModelInferRequest { string model_name = 1; string model_version = 2; string id = 3; repeated Tensor inputs = 5; repeated bytes raw_input_contents = 7; }
message RepositoryIndexRequest { string repository_name = 1; bool ready = 2; }
message ModelIndex { string name = 1; string version = 2; string state = 3; string reason = 4; }
message RepositoryIndexResponse { repeated ModelIndex models = 1; }
message ModelInferResponse { string model_name = 1; string model_version = 2; string id = 3; repeated Tensor outputs = 5; repeated bytes raw_output_contents = 6; }
`

/**
 * TensorFlow Serving, services tensorflow.serving.PredictionService and ModelService:
 * https://github.com/tensorflow/serving/tree/master/tensorflow_serving/apis, tensors and signatures
 * of https://github.com/tensorflow/tensorflow/tree/master/tensorflow/core (framework/tensor.proto,
 * types.proto, protobuf/meta_graph.proto)
 */
const tensorflowServing = `
syntax = "proto3";
package tfserving;
enum DataType {
  DT_INVALID = 0; DT_FLOAT = 1; DT_DOUBLE = 2; DT_INT32 = 3; DT_UINT8 = 4; DT_INT16 = 5; DT_INT8 = 6; DT_STRING = 7; DT_INT64 = 9;
  DT_BOOL = 10; DT_BFLOAT16 = 14; DT_UINT16 = 17; DT_HALF = 19; DT_UINT32 = 22; DT_UINT64 = 23;
}
message Dim { int64 size = 1; string name = 2; }
message TensorShapeProto { repeated Dim dim = 2; bool unknown_rank = 3; }
message TensorProto {
  DataType dtype = 1; TensorShapeProto tensor_shape = 2; bytes tensor_content = 4; repeated float float_val = 5; repeated double double_val = 6;
  repeated int32 int_val = 7; repeated bytes string_val = 8; repeated int64 int64_val = 10; repeated bool bool_val = 11; repeated int32 half_val = 13;
  repeated uint32 uint32_val = 16; repeated uint64 uint64_val = 17;
}
message Int64Value { int64 value = 1; }
message ModelSpec { string name = 1; Int64Value version = 2; string signature_name = 3; }
message PredictRequest { ModelSpec model_spec = 1; map<string, TensorProto> inputs = 2; }
message PredictResponse { map<string, TensorProto> outputs = 1; ModelSpec model_spec = 2; }
message TensorInfo { string name = 1; DataType dtype = 2; TensorShapeProto tensor_shape = 3; }
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
message HealthCheckResponse { enum ServingStatus { UNKNOWN = 0; SERVING = 1; NOT_SERVING = 2; SERVICE_UNKNOWN = 3; } ServingStatus status = 1; }
`

const root = new protobuf.Root()
for (const text of [openInference, tensorflowServing, health])
  protobuf.parse(text, root, { keepCase: true })
root.resolveAll() // Without it lists are written unpacked.

/** `name`: with its package, 'inference.ModelInferRequest'. */
export const encodeMessage = (name: string, value: Record<string, unknown>): Buffer => {
  const type = root.lookupType(name)
  return Buffer.from(type.encode(type.fromObject(value)).finish())
}

/**
 * Decodes to plain objects: 64-bit integers as numbers, enumerations by name, bytes as Buffers;
 * absent fields with their defaults. Throws for bytes that are no such message.
 */
export const decodeMessage = <Message = Record<string, unknown>>(
  name: string,
  bytes: Uint8Array,
): Message => {
  const type = root.lookupType(name)
  return type.toObject(type.decode(bytes), {
    longs: Number,
    enums: String,
    bytes: Buffer,
    defaults: true,
  }) as Message
}
