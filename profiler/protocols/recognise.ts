/**
 * Recognises the protocol of a server: by signs over HTTP, which are harmless requests with telling
 * answers, and by methods over gRPC (protocol-module.ts).
 */
import { jsonFrom } from '../bounded-reader.ts'
import { ProtocolError } from '../profiler-errors.ts'
import {
  hrefOf,
  namesGrpc,
  pathBelow,
  type ServerAddress,
  serverAddress,
} from '../server-address.ts'
import { get } from './http.ts'
import { whyNoModel } from './model-list.ts'
import { otherScheme } from './other-scheme.ts'
import type { Protocol } from './protocol.ts'
import type { Heard, ProtocolModule, ProtocolOptions } from './protocol-module.ts'
import { type ProtocolName, protocolNames, protocolTable } from './protocol-table.ts'
import { madeUpPath, whyNever } from './unknown-path.ts'

const probeMs = 1000

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
  const address = serverAddress(url)
  if (address === undefined) return undefined
  const modules = await loadModules()
  const grpc = async () =>
    (await import('./grpc/recognise-grpc.ts')).recogniseGrpc(
      address.origin,
      grpcMethods(modules),
      options,
      signal,
    ) as Promise<ProtocolName | undefined>
  const saysGrpc = namesGrpc(url)
  const overGrpc = saysGrpc ? await grpc() : undefined
  if (overGrpc !== undefined) return overGrpc
  const { found, refused, answered } = await checkHttpSigns(
    modules,
    address,
    model,
    options,
    signal,
  )
  if (found !== undefined || refused) return found
  // A gRPC server answers over HTTP/2, even if with an error.
  return (answered && !options.http2) || saysGrpc ? undefined : grpc()
}

/** Why a gRPC server matches none of the protocols. */
export async function whyNotRecognised(
  url: string,
  options: ProtocolOptions,
  signal: AbortSignal,
): Promise<unknown> {
  const { whyNoGrpc } = await import('./grpc/recognise-grpc.ts')
  const { origin } = serverAddress(url)!
  return whyNoGrpc(origin, grpcMethods(await loadModules()), options, signal)
}

const grpcMethods = (modules: readonly (readonly [ProtocolName, ProtocolModule])[]) =>
  modules.flatMap(([name, { methods = [] }]) => methods.map((method) => [name, method] as const))

/**
 * Checks the signs of all protocols over HTTP, the first of each before any second.
 * @returns `refused`: nothing listens; `answered`: something answered over HTTP
 */
async function checkHttpSigns(
  modules: readonly (readonly [ProtocolName, ProtocolModule])[],
  address: ServerAddress,
  model: string,
  options: ProtocolOptions,
  signal: AbortSignal,
): Promise<{ found?: ProtocolName; refused: boolean; answered: boolean }> {
  let answered = false
  let refused = false
  const ask = async (own: string, callPath: string): Promise<Heard> => {
    try {
      const { status, text } = await get(
        hrefOf(address, pathBelow(address, callPath, own)),
        options,
        AbortSignal.any([signal, AbortSignal.timeout(probeMs)]),
      )
      answered = true
      return { status, text, json: text.startsWith('{') ? jsonFrom(text) : undefined }
    } catch (error) {
      signal.throwIfAborted()
      refused ||= ['ECONNREFUSED', 'ENOENT'].includes(String((error as { code?: unknown }).code))
      return { status: 0, text: '', json: undefined } // No HTTP or no JSON: no sign of this protocol.
    }
  }
  const madeUp = await ask(madeUpPath, madeUpPath)
  if (refused) return { refused, answered }
  // Servers that answer any path with 200 show nothing.
  const isAnswerToAll = ({ status, text }: Heard) =>
    status === 200 && madeUp.status === 200 && text === madeUp.text
  const rounds = Math.max(...modules.map(([, { signs = [] }]) => signs.length))
  for (let round = 0; round < rounds; round++) {
    for (const [name, { signs = [], callPath }] of modules) {
      const sign = signs[round]
      if (sign === undefined) continue
      const answer = await ask(sign.path(model), callPath?.(model) ?? sign.path(model))
      if (!isAnswerToAll(answer) && sign.shows(answer, madeUp))
        return { found: name, refused, answered }
      if (refused) return { refused, answered }
    }
  }
  return { refused, answered }
}

/** Wraps a protocol so that its errors report a server that speaks another one. */
export function withRecognition(
  protocol: Protocol,
  name: ProtocolName,
  options: ProtocolOptions,
): Protocol {
  const looksLike = async (
    url: string,
    model: string,
    signal: AbortSignal,
  ): Promise<string | undefined> => {
    const found = await recognise(url, model, options, signal)
    if (found === undefined || found === name) return undefined
    // Some servers speak several protocols; one that passes the protocol's own readiness check
    // speaks it.
    if (protocolTable[name].metadata && (await protocol.ready(url, model, signal))) return undefined
    return `this looks like ${protocolTable[found].title}; use --protocol ${found}`
  }
  return {
    ...protocol,
    looksLike,
    whyNever: async (url, model, signal) =>
      (await whyNever(name, url, model, options, signal)) ?? otherScheme(url, signal),
    whyNoModel: (url, model, signal) => whyNoModel(name, url, model, options, signal),
    async prepare(url, model, payload, signal) {
      try {
        return await protocol.prepare(url, model, payload, signal)
      } catch (error) {
        if (!(error instanceof ProtocolError)) throw error
        // The server understood the request, so it speaks the protocol.
        if (error.why === 'refused' || error.why === 'not-ready') throw error
        const other = await looksLike(url, model, signal)
        if (other !== undefined)
          throw new ProtocolError(name, error.message, other, 'other-protocol')
        // A broken connection does not show why.
        const isBroken = error.hint === undefined && /cannot be reached/.test(error.message)
        const scheme = isBroken ? await otherScheme(url, signal) : undefined
        throw scheme === undefined
          ? error
          : new ProtocolError(name, scheme.what, scheme.hint, 'other-protocol')
      }
    },
  }
}
