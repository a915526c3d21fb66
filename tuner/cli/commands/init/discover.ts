/** Discovers how to call a running server: protocol, model, path, body, and one answer. */

import type { Target } from '../../../../profiler/model/target.ts'
import type { PayloadSource } from '../../../../profiler/payload-source.ts'
import { isRecord } from '../../../../profiler/plain-record.ts'
import { ProtocolError } from '../../../../profiler/profiler-errors.ts'
import { findTemplateFault } from '../../../../profiler/protocols/body-template.ts'
import type { FormFields } from '../../../../profiler/protocols/form-fields.ts'
import { acceptsPost, defaultFirstAnswerMs, get } from '../../../../profiler/protocols/http.ts'
import { detectProtocol, protocolFor } from '../../../../profiler/protocols/index.ts'
import { listModels } from '../../../../profiler/protocols/model-list.ts'
import { nonexistentPath } from '../../../../profiler/protocols/never-ready.ts'
import type { OnReason } from '../../../../profiler/protocols/protocol.ts'
import type { ProtocolOptions } from '../../../../profiler/protocols/protocol-module.ts'
import {
  fallbackProtocol,
  type ProtocolName,
  protocolTable,
} from '../../../../profiler/protocols/protocol-table.ts'
import {
  createRefusalError,
  isEosRefusal,
  quoteExcerpt,
} from '../../../../profiler/protocols/refusals.ts'
import {
  formatSeconds,
  NeverReadyError,
  prepareOnceAnswering,
  prepareOnceReady,
  ReasonLog,
} from '../../../../profiler/protocols/until-serving.ts'
import {
  formatUrl,
  parseServerAddress,
  resolveServerPath,
} from '../../../../profiler/server-address.ts'
import { resolvePrompts } from '../../../config/values/prompts.ts'
import { describeNotReady } from '../../../waiting-text.ts'
import {
  descriptionPaths,
  findDescribedHealth,
  type JsonCall,
  listDescribedCalls,
  usualHealthPaths,
  usualPaths,
  usualTemplates,
} from './json-calls.ts'

interface DiscoveryRequest {
  readonly url: string
  readonly protocol?: ProtocolName
  readonly model?: string
  /** Path, health path, body, headers and certificates that the user set. */
  readonly options: ProtocolOptions
  readonly payload: PayloadSource
}

type HttpTarget = Extract<Target, { kind: 'http' }>
type HttpAnswer = Awaited<ReturnType<typeof get>>

export interface DiscoveredServer {
  readonly protocol: ProtocolName
  readonly model: string
  /** Path of the inference call; this and the following keys are as in the experiment file. */
  readonly path?: string
  readonly healthPath?: string
  readonly body?: string
  readonly form?: FormFields
  /** Paths of other calls in its description. */
  readonly otherPaths: readonly string[]
  readonly target: HttpTarget
  /** One request and its answer, truncated. */
  readonly request: string
  readonly answer: string
  /** It rejects `ignore_eos`. */
  readonly knowsNoEos?: true
  /** Value of the header `server`. */
  readonly server?: string
  /** How long that answer took. */
  readonly answerMs: number
}

const printReason = (reason: string) => process.stderr.write(`${describeNotReady(reason)}\n`)

/** A discovery in progress, with its deadline. */
interface DiscoveryState extends DiscoveryRequest {
  /** Time until the server must have given a valid answer, ms. */
  leftMs(): number
  /** The error if it has not. */
  neverAnswered(hint?: string): ProtocolError
  readonly onReason: OnReason
}
/** Extra time to find out why there was no valid answer, ms. */
const reasonTimeoutMs = 5_000

/**
 * Discovers a server within the time that its first answer may take, plus a few seconds to find out
 * why there was none.
 * @throws ProtocolError, PayloadError; the signal's reason
 */
export async function discover(
  request: DiscoveryRequest,
  signal: AbortSignal,
): Promise<DiscoveredServer> {
  const timeoutMs = request.options.firstAnswerMs ?? defaultFirstAnswerMs
  const endMs = performance.now() + timeoutMs
  const reasons = new ReasonLog(printReason)
  const discoveryTimeout = AbortSignal.timeout(timeoutMs + reasonTimeoutMs)
  const stopSignal = AbortSignal.any([signal, discoveryTimeout])
  const leftMs = () => endMs - performance.now()
  const never = (what: string, hint = notReadyHint) =>
    new ProtocolError(request.protocol ?? fallbackProtocol, what, hint, 'not-ready')
  const neverAnswered = (hint?: string) =>
    never(
      `${request.url} gave no valid answer within ${formatSeconds(timeoutMs)}${reasons.suffix()}`,
      hint,
    )
  try {
    const asking = { ...request, leftMs, neverAnswered, onReason: reasons.add }
    const discovered = await discoverCall(asking, stopSignal)
    if (protocolTable[discovered.protocol].transport === 'grpc') return discovered
    const { server } = await get(request.url, request.options, stopSignal)
    return { ...discovered, server }
  } catch (error) {
    if (signal.aborted && reasons.last !== undefined) throw never(reasons.last)
    signal.throwIfAborted()
    if (discoveryTimeout.aborted || error instanceof NeverReadyError) throw neverAnswered()
    const isBare = error instanceof ProtocolError && error.hint === undefined
    throw isBare && error.why === 'not-ready' ? never(error.message) : error
  }
}

const notReadyHint = 'if it only needs more time: --ready-timeout 5m'

async function discoverCall(
  request: DiscoveryState,
  signal: AbortSignal,
): Promise<DiscoveredServer> {
  const { url, options, onReason } = request
  const protocol =
    request.protocol ??
    (await detectProtocol(url, request.model ?? 'model', options, signal, onReason))
  const model = request.model ?? (await findModelName(protocol, url, options, signal))
  if (protocolTable[protocol].needsPath)
    return discoverJsonCall({ ...request, model }, protocol, signal)
  const speaks = protocolFor(protocol, options)
  const { target, knowsNoEos } = await prepareWithoutEos(request.payload, (payload) =>
    prepareOnceReady(
      { protocol: speaks, url, model, payload, runsAlready: true, onReason },
      request.leftMs(),
      signal,
    ).catch((error: unknown) => {
      if (!(error instanceof NeverReadyError)) throw error
      throw request.neverAnswered(
        `if '${model}' is not the name of the model, set --model NAME; ${notReadyHint}`,
      )
    }),
  )
  const { path, healthPath } = options
  const answer = await askOnce(protocol, options, target, signal)
  return {
    protocol,
    model,
    path,
    healthPath,
    otherPaths: [],
    target,
    ...(knowsNoEos && { knowsNoEos }),
    ...answer,
  }
}

/** Retries without `ignore_eos` if the server rejects it and the user did not request it. */
async function prepareWithoutEos(
  payload: PayloadSource,
  prepare: (payload: PayloadSource) => Promise<HttpTarget>,
): Promise<{ readonly target: HttpTarget; readonly knowsNoEos?: true }> {
  try {
    return { target: await prepare(payload) }
  } catch (error) {
    if (!isEosRefusal(error) || payload.kind !== 'generated' || payload.prompts?.ignoreEos)
      throw error
    const prompts = payload.prompts
      ? { ...payload.prompts, ignoreEos: false }
      : resolvePrompts({ ignoreEos: false })
    return { target: await prepare({ ...payload, prompts }), knowsNoEos: true }
  }
}

async function askOnce(
  protocol: ProtocolName,
  options: ProtocolOptions,
  target: HttpTarget,
  signal: AbortSignal,
): Promise<Pick<DiscoveredServer, 'request' | 'answer' | 'answerMs'>> {
  const { answerClient } = protocolFor(protocol, options)
  const startedMs = performance.now()
  const answer = await answerClient!.fetch(target, 0, signal)
  const answerMs = performance.now() - startedMs
  const { document } = await answerClient!.parse(answer)
  const body = Buffer.from(target.bodies[0]!.body)
  const request = /json/.test(target.bodies[0]!.contentType)
    ? body.toString()
    : `${body.length} bytes`
  return { request: shorten(request), answer: shorten(formatAnswer(document)), answerMs }
}

/** An answer that is neither JSON nor text is not shown. */
const formatAnswer = (document: unknown): string =>
  document === null ? '(binary)' : JSON.stringify(document)

const shorten = (text: string): string => {
  const line = quoteExcerpt(text)
  return line.length > 160 ? `${line.slice(0, 159)}…` : line
}

/**
 * Finds the name of the only model that the server lists.
 * @throws ProtocolError otherwise
 */
async function findModelName(
  protocol: ProtocolName,
  url: string,
  options: ProtocolOptions,
  signal: AbortSignal,
): Promise<string> {
  if (protocolTable[protocol].needsPath) return 'model'
  const names = await listModels(protocol, url, options, signal)
  if (names.length === 1) return names[0]!
  const hint =
    names.length > 1
      ? `it serves ${names.join(', ')}: choose one, as in --model ${names[0]}`
      : 'set --model NAME'
  throw new ProtocolError(
    protocol,
    `${url} speaks ${protocolTable[protocol].title}, but serves more than one model or does not name it`,
    hint,
  )
}

/** URL of a path on the server. */
const joinPath = (url: string, path: string): string =>
  formatUrl(parseServerAddress(url)!, resolveServerPath(parseServerAddress(url)!, path, path))

async function discoverJsonCall(
  discovery: DiscoveryState & { readonly model: string },
  protocol: ProtocolName,
  signal: AbortSignal,
): Promise<DiscoveredServer> {
  const { url, model, options, payload, onReason } = discovery
  const described = await readOpenApi(url, options, signal)
  const toAny = await get(joinPath(url, nonexistentPath), options, signal)
  const calls = await listCalls(discovery, described, toAny, signal)
  const healthPath =
    options.healthPath ?? (await findHealthPath(discovery, described, toAny, signal))
  let first: unknown
  for (const { path, template, form } of calls)
    for (const body of template !== undefined || form !== undefined || payload.kind === 'file'
      ? [template]
      : usualTemplates) {
      const called = { ...options, path, healthPath, template: body, form }
      try {
        const target = await prepareOnceAnswering(
          {
            protocol: protocolFor(protocol, called),
            url,
            model,
            payload,
            runsAlready: true,
            onReason,
          },
          discovery.leftMs(),
          signal,
        )
        const otherPaths = calls.map((call) => call.path).filter((other) => other !== path)
        return {
          protocol,
          model,
          path,
          healthPath,
          body,
          form,
          otherPaths,
          target,
          ...(await askOnce(protocol, called, target, signal)),
        }
      } catch (error) {
        signal.throwIfAborted()
        first ??= error
        // Another body does not help if a token is missing.
        if (!(error instanceof ProtocolError) || error.why === 'denied') throw error
      }
    }
  const { message, hint } = first as ProtocolError
  const say =
    calls[0]!.template === undefined
      ? `set the request body: --body '{"...": "{{text}}"}'`
      : (hint ?? 'set another body with --body')
  throw new ProtocolError(protocol, message, say)
}

async function readOpenApi(
  url: string,
  options: ProtocolOptions,
  signal: AbortSignal,
): Promise<unknown> {
  for (const path of descriptionPaths)
    try {
      const { status, text } = await get(joinPath(url, path), options, signal)
      const document: unknown = status === 200 ? JSON.parse(text) : undefined
      if (isRecord(document) && isRecord(document.paths)) return document
    } catch {
      signal.throwIfAborted() // Not described there.
    }
  return undefined
}

/**
 * @param toAny the answer to a made-up path
 * @throws ProtocolError if no path is found
 */
async function listCalls(
  { url, options }: DiscoveryRequest,
  described: unknown,
  toAny: HttpAnswer,
  signal: AbortSignal,
): Promise<JsonCall[]> {
  const describedCalls = listDescribedCalls(described)
  const pathname = parseServerAddress(url)!.path
  const isCall =
    pathname !== '/' && describedCalls.length === 0 && (await isCallUrl(url, options, signal))
  const path = options.path ?? (isCall ? pathname : undefined)
  if (options.template !== undefined && findTemplateFault(options.template))
    return [{ path: path ?? '/predict', template: options.template }]
  const { template, form } = options
  const request = template === undefined && form === undefined ? undefined : { template, form }
  if (path !== undefined)
    return [{ ...(request ?? describedCalls.find((call) => call.path === path)), path }]
  if (describedCalls.length > 0)
    return describedCalls.map((call) => ({ ...(request ?? call), path: call.path }))
  const calls: JsonCall[] = []
  let redirects: ProtocolError | undefined
  // If any GET returns 200, only POST reveals which paths exist.
  const saysNothing = toAny.status === 200 ? [200, 404] : [404]
  const takesAny =
    toAny.status === 200 && (await acceptsPost(joinPath(url, nonexistentPath), options, signal))
  for (const usual of usualPaths) {
    const answer = await get(joinPath(url, usual), options, signal)
    const { status, location } = answer
    // A gateway error, whatever the path.
    if (status >= 502 && status <= 504)
      throw createRefusalError('json', joinPath(url, usual), answer, true)
    if (status >= 300 && status < 400) {
      // Starlette and Django redirect to the path with a slash.
      if (
        location !== undefined &&
        resolveRedirect(location, joinPath(url, usual))?.endsWith(`${usual}/`)
      )
        calls.push({ ...request, path: `${usual}/` })
      else redirects ??= createRefusalError('json', joinPath(url, usual), answer)
    }
    if (
      saysNothing.includes(status) &&
      !takesAny &&
      (await acceptsPost(joinPath(url, usual), options, signal))
    )
      calls.push({ ...request, path: usual })
    if (status === 401 || status === 403)
      throw new ProtocolError(
        'json',
        `${joinPath(url, usual)} answers ${status}`,
        "add the required header: --header 'Name: value'",
        'denied',
      )
    // The path exists, but expects another method or body.
    if (status === 405 || status === 400 || status === 422) calls.push({ ...request, path: usual })
  }
  if (calls.length > 0) return calls
  if (redirects !== undefined) throw redirects
  throw new ProtocolError(
    'json',
    `${url} responds, but with no protocol that tune knows and at none of ${usualPaths.join(', ')}`,
    'describe its requests: --path /PATH and --body JSON',
  )
}

/**
 * Whether a URL with a path is a call. If it is unknown or redirects, it is the base of the
 * server's paths.
 */
async function isCallUrl(
  url: string,
  options: ProtocolOptions,
  signal: AbortSignal,
): Promise<boolean> {
  const { status } = await get(url, options, signal)
  return status === 404 ? acceptsPost(url, options, signal) : status < 300 || status >= 400
}

/** Finds a health path whose answer differs from that of a made-up path. */
async function findHealthPath(
  { url, options }: DiscoveryRequest,
  described: unknown,
  toAny: HttpAnswer,
  signal: AbortSignal,
): Promise<string | undefined> {
  const describedPath = findDescribedHealth(described)
  for (const path of [
    ...(describedPath === undefined ? [] : [describedPath]),
    ...usualHealthPaths,
  ]) {
    const { status, text } = await get(joinPath(url, path), options, signal)
    if (status === 200 && !(toAny.status === 200 && toAny.text === text)) return path
  }
  return undefined
}

/** Path of a redirect to the same server; undefined for other servers. */
function resolveRedirect(location: string, from: string): string | undefined {
  if (!URL.canParse(location, from)) return undefined
  const to = new URL(location, from)
  return to.origin === new URL(from).origin ? to.pathname : undefined
}
