export { decodeOipGrpc, encodeOipGrpc } from './oip-grpc.ts'
export { decodeTfServingGrpc, encodeTfServingGrpc } from './tfserving-grpc.ts'
