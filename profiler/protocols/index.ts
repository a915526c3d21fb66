/**
 * Entry to the protocols: the client of a protocol by name, and the detection of a server's
 * protocol.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { PayloadSource } from '../payload-source.ts'
import { PayloadError, ProtocolError } from '../profiler-errors.ts'
import { formatUrl, isGrpcUrl, resolveServerPath } from '../server-address.ts'
import { checkReachable, checkReadiness, defaultFirstAnswerMs } from './http.ts'
import { parseHttpUrl } from './http-protocol.ts'
import { orderByNumber } from './items.ts'
import type { AnswerClient, OnReason, Protocol } from './protocol.ts'
import type { ProtocolOptions } from './protocol-module.ts'
import {
  fallbackProtocol,
  type ProtocolName,
  protocolNames,
  protocolTable,
} from './protocol-table.ts'
import { explainUnrecognised, recognise, withRecognition } from './recognise.ts'
import { formatSeconds, ReasonLog } from './until-serving.ts'
import { diagnoseScheme } from './wrong-scheme.ts'

/** Creates the client of a protocol. */
export function protocolFor(name: ProtocolName, options: ProtocolOptions = {}): Protocol {
  return withRecognition(orderByTrace(loadLazily(name, options), name), name, options)
}

/** Creates a protocol whose module is loaded on first use. */
function loadLazily(name: ProtocolName, options: ProtocolOptions): Protocol {
  const { load, timeoutMs } = protocolTable[name]
  const resolved = { ...options, timeoutMs: options.timeoutMs ?? timeoutMs }
  const loadClient = async (): Promise<AnswerClient> =>
    (await load()).create(resolved).answerClient!
  return {
    name,
    isReady: async (...args) => (await load()).create(resolved).isReady(...args),
    prepare: async (...args) => (await load()).create(resolved).prepare(...args),
    answerClient: {
      // Servers that report the inputs of their model answer with tensors alone.
      isResultFromModelOnly: protocolTable[name].metadata,
      fetch: async (...args) => (await loadClient()).fetch(...args),
      parse: async (...args) => (await loadClient()).parse(...args),
      interpret: async (document) => (await loadClient()).interpret(document),
    },
  }
}

/** Wraps a protocol so that its bodies have the order of the payload's trace. */
function orderByTrace(protocol: Protocol, name: ProtocolName): Protocol {
  return {
    ...protocol,
    async prepare(url, model, payload, signal) {
      checkSource(name, payload)
      const target = await protocol.prepare(url, model, payload, signal)
      return payload.order === undefined
        ? target
        : { ...target, bodies: orderByNumber(target.bodies, payload.order) }
    },
  }
}

/** @throws PayloadError for a source from which the protocol cannot build requests */
function checkSource(protocol: ProtocolName, payload: PayloadSource): void {
  const hasItems =
    payload.order?.items !== undefined || (payload.kind !== 'file' && payload.items !== undefined)
  if (
    payload.kind === 'file' &&
    payload.contentType !== undefined &&
    !protocolTable[protocol].needsPath
  )
    throw new PayloadError(
      `${payload.path} is a complete request for a custom server, but the protocol is ${protocolTable[protocol].title}`,
      'give a folder of images, a text file (.txt) or JSON Lines',
    )
  if (payload.kind === 'file' && hasItems)
    throw new PayloadError(
      `${payload.path} holds complete requests, so their number of items is fixed`,
    )
  if (!protocolTable[protocol].streams) return
  if (hasItems)
    throw new PayloadError('a request to a language model is one prompt', 'leave out items')
  if (payload.kind === 'texts' || payload.kind === 'images')
    throw new PayloadError(
      `${payload.path} holds no requests to a language model`,
      'give them as JSON Lines',
    )
}

/** Pause between queries of a server that is loading. Assumed. */
const pollMs = 500

/**
 * Detects the protocol of a server; plain JSON where none is recognised. A server that is still
 * loading is queried again, for as long as its first answer may take. Throws a ProtocolError where
 * nothing listens, where the server is still loading then, and for a gRPC URL where none is
 * recognised.
 */
export async function detectProtocol(
  url: string,
  model: string,
  options: ProtocolOptions,
  signal: AbortSignal,
  onReason?: OnReason,
): Promise<ProtocolName> {
  const isGrpc = isGrpcUrl(url)
  if (!isGrpc) parseHttpUrl(fallbackProtocol, url)
  const timeoutMs = options.firstAnswerMs ?? defaultFirstAnswerMs
  const startedMs = performance.now()
  const reasons = new ReasonLog(onReason)
  const detect = () => recognise(url, model, options, signal)
  let recognised = await detect()
  if (recognised === undefined && !isGrpc) await checkScheme(url, options, signal)
  let wasLoading = false
  while (recognised === undefined && !isGrpc) {
    const isLoading = await reportsLoading(url, model, options, signal, reasons)
    // It may have become ready in between.
    if (!isLoading && wasLoading) recognised = await detect()
    if (!isLoading) break
    wasLoading = true
    if (performance.now() - startedMs > timeoutMs)
      throw new ProtocolError(
        fallbackProtocol,
        `${url} is still loading after ${formatSeconds(timeoutMs)}${reasons.suffix()}`,
        undefined,
        'not-ready',
      )
    await sleep(pollMs, undefined, { signal })
    recognised = await detect()
  }
  if (recognised === undefined && isGrpc) throw await explainUnrecognised(url, options, signal)
  return recognised ?? fallbackProtocol
}

/** @throws ProtocolError that names the right scheme, where no GET is answered */
async function checkScheme(
  url: string,
  options: ProtocolOptions,
  signal: AbortSignal,
): Promise<void> {
  try {
    await checkReachable(fallbackProtocol, url, options, signal)
  } catch (error) {
    signal.throwIfAborted()
    const other = await diagnoseScheme(url, signal)
    throw other === undefined
      ? error
      : new ProtocolError(fallbackProtocol, other.what, other.hint, 'other-protocol')
  }
}

/** Whether the readiness path of any protocol reports that it is not ready. */
async function reportsLoading(
  url: string,
  model: string,
  options: ProtocolOptions,
  signal: AbortSignal,
  reasons: ReasonLog,
): Promise<boolean> {
  const address = parseHttpUrl(fallbackProtocol, url)
  const paths = [
    options.healthPath,
    ...protocolNames.map((name) => protocolTable[name].readyPath(model)),
  ].filter((path) => path !== undefined)
  // The path of the URL may be that of the call, or a prefix of the server's paths.
  const candidates = paths.flatMap((path) => [
    resolveServerPath(address, path, path),
    resolveServerPath(address, address.path, path),
  ])
  for (const candidate of new Set(candidates)) {
    let lastReason = ''
    const { loading } = await checkReadiness(
      fallbackProtocol,
      formatUrl(address, candidate),
      options,
      signal,
      (reason) => {
        lastReason = reason
      },
    )
    if (!loading) continue
    reasons.add(lastReason)
    return true
  }
  return false
}
