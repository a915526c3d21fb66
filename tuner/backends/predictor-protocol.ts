/** The client side of what an experiment's predictor speaks. */
import { type Protocol, type ProtocolName, type ProtocolOptions, protocolFor } from '../../profiler/index.ts'
import { builtinProtocol } from '../../trials/launchers/builtin.ts'
import type { Experiment } from '../experiment/types.ts'

interface ProtocolChoice {
  readonly name: ProtocolName
  /** What the protocol was made from: JSON-safe, for a process elsewhere. */
  readonly options: ProtocolOptions
  readonly protocol: Protocol
}

export function protocolOf({ predictor, load: { timeoutMs } }: Experiment): ProtocolChoice {
  if (predictor.kind === 'builtin') return choice(builtinProtocol(predictor), { timeoutMs })
  const { path, healthPath, body } = predictor
  const server = predictor.kind === 'url' ? { headers: predictor.headers, http2: predictor.http2, tls: predictor.tls } : {}
  return choice(predictor.protocol, { ...server, timeoutMs, path, healthPath, template: body })
}

const choice = (name: ProtocolName, options: ProtocolOptions): ProtocolChoice => ({ name, options, protocol: protocolFor(name, options) })
