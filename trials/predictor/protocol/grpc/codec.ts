export { decodeOipGrpc, encodeOipGrpc } from './oip.ts'
export { decodeTfServingGrpc, encodeTfServingGrpc } from './tfserving.ts'
