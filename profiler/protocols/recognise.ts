/**
 * Recognises the protocol of a server: by probes over HTTP, which are harmless requests with
 * characteristic answers, and by methods over gRPC (protocol-module.ts).
 */
import { parseUntrustedJson } from '../bounded-reader.ts'
import { ProtocolError } from '../profiler-errors.ts'
import {
  formatUrl,
  isGrpcUrl,
  parseServerAddress,
  resolveServerPath,
  type ServerAddress,
} from '../server-address.ts'
import { get } from './http.ts'
import { explainMissingModel } from './model-list.ts'
import { explainNeverReady, nonexistentPath } from './never-ready.ts'
import type { Protocol } from './protocol.ts'
import type { ProbeAnswer, ProtocolModule, ProtocolOptions } from './protocol-module.ts'
import { type ProtocolName, protocolNames, protocolTable } from './protocol-table.ts'
import { diagnoseScheme } from './wrong-scheme.ts'

/** Deadline of a probe, ms. Assumed. */
const probeTimeoutMs = 1000

const loadModules = (): Promise<(readonly [ProtocolName, ProtocolModule])[]> =>
  Promise.all(protocolNames.map(async (name) => [name, await protocolTable[name].load()] as const))

/**
 * Recognises the protocol of a server by its answers to harmless requests; undefined when none is
 * recognised, or nothing listens. Rejects only when the signal aborts.
 */
export async function recognise(
  url: string,
  model: string,
  options: ProtocolOptions,
  signal: AbortSignal,
): Promise<ProtocolName | undefined> {
  const address = parseServerAddress(url)
  if (address === undefined) return undefined
  const modules = await loadModules()
  const recogniseOverGrpc = async () =>
    (await import('./grpc/recognise-grpc.ts')).recogniseGrpc(
      address.origin,
      listGrpcMethods(modules),
      options,
      signal,
    ) as Promise<ProtocolName | undefined>
  const isGrpc = isGrpcUrl(url)
  const grpcProtocol = isGrpc ? await recogniseOverGrpc() : undefined
  if (grpcProtocol !== undefined) return grpcProtocol
  const { recognised, isRefused, hasAnswered } = await probeHttp(
    modules,
    address,
    model,
    options,
    signal,
  )
  if (recognised !== undefined || isRefused) return recognised
  // A gRPC server answers over HTTP/2, even if with an error.
  return (hasAnswered && !options.http2) || isGrpc ? undefined : recogniseOverGrpc()
}

/** Explains why a gRPC server matches none of the protocols. */
export async function explainUnrecognised(
  url: string,
  options: ProtocolOptions,
  signal: AbortSignal,
): Promise<unknown> {
  const { createUnrecognisedError } = await import('./grpc/recognise-grpc.ts')
  const { origin } = parseServerAddress(url)!
  return createUnrecognisedError(origin, listGrpcMethods(await loadModules()), options, signal)
}

const listGrpcMethods = (modules: readonly (readonly [ProtocolName, ProtocolModule])[]) =>
  modules.flatMap(([name, { uniqueMethods = [] }]) =>
    uniqueMethods.map((method) => [name, method] as const),
  )

/**
 * Sends the probes of all protocols over HTTP, the first of each before any second.
 * @returns `isRefused`: nothing listens; `hasAnswered`: something answered over HTTP
 */
async function probeHttp(
  modules: readonly (readonly [ProtocolName, ProtocolModule])[],
  address: ServerAddress,
  model: string,
  options: ProtocolOptions,
  signal: AbortSignal,
): Promise<{ recognised?: ProtocolName; isRefused: boolean; hasAnswered: boolean }> {
  let hasAnswered = false
  let isRefused = false
  const fetchProbe = async (serverPath: string, callPath: string): Promise<ProbeAnswer> => {
    try {
      const { status, text } = await get(
        formatUrl(address, resolveServerPath(address, callPath, serverPath)),
        options,
        AbortSignal.any([signal, AbortSignal.timeout(probeTimeoutMs)]),
      )
      hasAnswered = true
      return { status, text, json: text.startsWith('{') ? parseUntrustedJson(text) : undefined }
    } catch (error) {
      signal.throwIfAborted()
      isRefused ||= ['ECONNREFUSED', 'ENOENT'].includes(String((error as { code?: unknown }).code))
      return { status: 0, text: '', json: undefined } // No HTTP or no JSON: not this protocol.
    }
  }
  const notFoundAnswer = await fetchProbe(nonexistentPath, nonexistentPath)
  if (isRefused) return { isRefused, hasAnswered }
  // A server that answers any path with 200 cannot be recognised by such an answer.
  const isAnswerToAll = ({ status, text }: ProbeAnswer) =>
    status === 200 && notFoundAnswer.status === 200 && text === notFoundAnswer.text
  const rounds = Math.max(...modules.map(([, { probes = [] }]) => probes.length))
  for (let round = 0; round < rounds; round++) {
    for (const [name, { probes = [], callPath }] of modules) {
      const probe = probes[round]
      if (probe === undefined) continue
      const answer = await fetchProbe(probe.path(model), callPath?.(model) ?? probe.path(model))
      if (!isAnswerToAll(answer) && probe.matches(answer, notFoundAnswer))
        return { recognised: name, isRefused, hasAnswered }
      if (isRefused) return { isRefused, hasAnswered }
    }
  }
  return { isRefused, hasAnswered }
}

/** Wraps a protocol so that its errors report a server that speaks another one. */
export function withRecognition(
  protocol: Protocol,
  name: ProtocolName,
  options: ProtocolOptions,
): Protocol {
  const describeOtherProtocol = async (
    url: string,
    model: string,
    signal: AbortSignal,
  ): Promise<string | undefined> => {
    const recognised = await recognise(url, model, options, signal)
    if (recognised === undefined || recognised === name) return undefined
    // Some servers speak several protocols; one that passes the protocol's own readiness check
    // speaks it.
    if (protocolTable[name].metadata && (await protocol.isReady(url, model, signal)))
      return undefined
    return `this looks like ${protocolTable[recognised].title}; use --protocol ${recognised}`
  }
  return {
    ...protocol,
    describeOtherProtocol,
    explainNeverReady: async (url, model, signal) =>
      (await explainNeverReady(name, url, model, options, signal)) ?? diagnoseScheme(url, signal),
    explainMissingModel: (url, model, signal) =>
      explainMissingModel(name, url, model, options, signal),
    async prepare(url, model, payload, signal) {
      try {
        return await protocol.prepare(url, model, payload, signal)
      } catch (error) {
        if (!(error instanceof ProtocolError)) throw error
        // The server understood the request, so it speaks the protocol.
        if (error.why === 'refused' || error.why === 'not-ready') throw error
        const other = await describeOtherProtocol(url, model, signal)
        if (other !== undefined)
          throw new ProtocolError(name, error.message, other, 'other-protocol')
        // A broken connection does not show why.
        const isBroken = error.hint === undefined && /cannot be reached/.test(error.message)
        const scheme = isBroken ? await diagnoseScheme(url, signal) : undefined
        throw scheme === undefined
          ? error
          : new ProtocolError(name, scheme.what, scheme.hint, 'other-protocol')
      }
    },
  }
}
