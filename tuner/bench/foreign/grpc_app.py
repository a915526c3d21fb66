"""The Open Inference Protocol over gRPC as grpcio serves it, its few messages written by hand: FP32 [-1, 4] in, FP32 [-1, 1] out."""

import struct
import sys
from concurrent.futures import ThreadPoolExecutor

import grpc


def varint(value):
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def field(number, payload):
    if isinstance(payload, int):
        return varint(number << 3) + varint(payload)
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def read_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return value, at


def fields(data):
    at = 0
    while at < len(data):
        key, at = read_varint(data, at)
        if key & 7 == 0:
            value, at = read_varint(data, at)
        elif key & 7 == 2:
            length, at = read_varint(data, at)
            value, at = data[at : at + length], at + length
        else:
            raise ValueError("a wire type that is not in these messages")
        yield key >> 3, value


def tensor(name, shape):
    packed = b"".join(varint(size & (1 << 64) - 1) for size in shape)
    return field(1, name) + field(2, b"FP32") + field(3, packed)


def infer(request, context):
    given = list(fields(request))
    raw = [value for number, value in given if number == 7]
    if dict(given).get(1) != b"iris":
        context.abort(grpc.StatusCode.NOT_FOUND, "no such model")
    if len(raw) != 1 or len(raw[0]) % 16:
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, "raw contents of FP32 [-1, 4] are asked for")
    values = struct.unpack(f"<{len(raw[0]) // 4}f", raw[0])
    rows = [sum(values[at : at + 4]) for at in range(0, len(values), 4)]
    return field(1, b"iris") + field(5, tensor(b"y", [len(rows), 1])) + field(6, struct.pack(f"<{len(rows)}f", *rows))


metadata = field(1, b"iris") + field(4, tensor(b"x", [-1, 4])) + field(5, tensor(b"y", [-1, 1]))
ready = field(1, 1)
answers = {
    "ServerLive": lambda request, context: ready,
    "ServerReady": lambda request, context: ready,
    "ModelReady": lambda request, context: ready,
    "ModelMetadata": lambda request, context: metadata,
    "ModelInfer": infer,
}
server = grpc.server(ThreadPoolExecutor(4))
server.add_generic_rpc_handlers(
    [grpc.method_handlers_generic_handler("inference.GRPCInferenceService", {n: grpc.unary_unary_rpc_method_handler(f) for n, f in answers.items()})]
)
server.add_insecure_port(f"127.0.0.1:{sys.argv[sys.argv.index('--port') + 1]}")
server.start()
server.wait_for_termination()
