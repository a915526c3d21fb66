/**
 * What a server that runs tells of itself when it is asked: protocol, model, path and body of a
 * call, and one answer.
 */

import type { Target } from '../../../profiler/model/target.ts'
import type { PayloadSource } from '../../../profiler/payload-source.ts'
import { isRecord } from '../../../profiler/plain-record.ts'
import { ProtocolError } from '../../../profiler/profiler-errors.ts'
import { findTemplateFault } from '../../../profiler/protocols/body-template.ts'
import type { FormFields } from '../../../profiler/protocols/form-fields.ts'
import { acceptsPost, defaultFirstAnswerMs, get } from '../../../profiler/protocols/http.ts'
import { detectProtocol, protocolFor } from '../../../profiler/protocols/index.ts'
import { listModels } from '../../../profiler/protocols/model-list.ts'
import { nonexistentPath } from '../../../profiler/protocols/never-ready.ts'
import type { OnReason } from '../../../profiler/protocols/protocol.ts'
import type { ProtocolOptions } from '../../../profiler/protocols/protocol-module.ts'
import {
  fallbackProtocol,
  type ProtocolName,
  protocolTable,
} from '../../../profiler/protocols/protocol-table.ts'
import { createRefusalError, excerpt, isEosRefusal } from '../../../profiler/protocols/refusals.ts'
import {
  formatSeconds,
  NeverReadyError,
  prepareOnceAnswering,
  prepareOnceReady,
  ReasonLog,
} from '../../../profiler/protocols/until-serving.ts'
import {
  formatUrl,
  parseServerAddress,
  resolveServerPath,
} from '../../../profiler/server-address.ts'
import { promptsOf } from '../../config/settings/prompt-settings.ts'
import { notReadyYet } from '../../not-ready-yet.ts'
import {
  describedCalls,
  describedHealth,
  descriptionPaths,
  type JsonCall,
  usualHealthPaths,
  usualPaths,
  usualTemplates,
} from './json-calls.ts'

interface Asked {
  readonly url: string
  readonly protocol?: ProtocolName
  readonly model?: string
  /** Path, health path, body, headers, certificates: what the user said of them. */
  readonly options: ProtocolOptions
  readonly payload: PayloadSource
}

type HttpTarget = Extract<Target, { kind: 'http' }>
type Answered = Awaited<ReturnType<typeof get>>

export interface Discovered {
  readonly protocol: ProtocolName
  readonly model: string
  /** As in the experiment file. */
  readonly path?: string
  readonly healthPath?: string
  readonly body?: string
  readonly form?: FormFields
  /** Other calls that it describes. */
  readonly otherPaths: readonly string[]
  readonly target: HttpTarget
  /** One request and its answer, cut. */
  readonly request: string
  readonly answer: string
  /** It refuses `ignore_eos`. */
  readonly knowsNoEos?: true
  /** What it says it is, in the header `server`. */
  readonly server?: string
  /** How long that answer took. */
  readonly answerMs: number
}

const sayOnStderr = (reason: string) => process.stderr.write(`${notReadyYet(reason)}\n`)

/** What is being discovered: as asked, and how long it may still take. */
interface Discovering extends Asked {
  /** Until the server must have answered well, ms. */
  leftMs(): number
  /** What to say when it had not. */
  neverAnswered(hint?: string): ProtocolError
  readonly onReason: OnReason
}
/** Beyond that time, for questions why it did not. */
const whyNotMs = 5_000

/**
 * Within the time that the first answer may take, but for a few seconds to ask why it did not come.
 * @throws ProtocolError that says what is missing, or what the server said when the time was over;
 * PayloadError; the signal's reason
 */
export async function discover(asked: Asked, signal: AbortSignal): Promise<Discovered> {
  const timeoutMs = asked.options.firstAnswerMs ?? defaultFirstAnswerMs
  const endMs = performance.now() + timeoutMs
  const reasons = new ReasonLog(sayOnStderr)
  const late = AbortSignal.timeout(timeoutMs + whyNotMs)
  const either = AbortSignal.any([signal, late])
  const leftMs = () => endMs - performance.now()
  const never = (what: string, hint = notReadyHint) =>
    new ProtocolError(asked.protocol ?? fallbackProtocol, what, hint, 'not-ready')
  const neverAnswered = (hint?: string) =>
    never(
      `${asked.url} gave no valid answer within ${formatSeconds(timeoutMs)}${reasons.suffix()}`,
      hint,
    )
  try {
    const asking = { ...asked, leftMs, neverAnswered, onReason: reasons.add }
    const found = await discoverCall(asking, either)
    if (protocolTable[found.protocol].transport === 'grpc') return found
    const { server } = await get(asked.url, asked.options, either)
    return { ...found, server }
  } catch (error) {
    if (signal.aborted && reasons.last !== undefined) throw never(reasons.last)
    signal.throwIfAborted()
    if (late.aborted || error instanceof NeverReadyError) throw neverAnswered()
    const isBare = error instanceof ProtocolError && error.hint === undefined
    throw isBare && error.why === 'not-ready' ? never(error.message) : error
  }
}

const notReadyHint = 'if it only needs more time: --ready-timeout 5m'

async function discoverCall(asked: Discovering, signal: AbortSignal): Promise<Discovered> {
  const { url, options, onReason } = asked
  const protocol =
    asked.protocol ?? (await detectProtocol(url, asked.model ?? 'model', options, signal, onReason))
  const model = asked.model ?? (await modelAt(protocol, url, options, signal))
  if (protocolTable[protocol].needsPath) return jsonServer({ ...asked, model }, protocol, signal)
  const speaks = protocolFor(protocol, options)
  const { target, knowsNoEos } = await prepared(asked.payload, (payload) =>
    prepareOnceReady(
      { protocol: speaks, url, model, payload, runsAlready: true, onReason },
      asked.leftMs(),
      signal,
    ).catch((error: unknown) => {
      if (!(error instanceof NeverReadyError)) throw error
      throw asked.neverAnswered(
        `if '${model}' is not the name of the model, set --model NAME; ${notReadyHint}`,
      )
    }),
  )
  const { path, healthPath } = options
  const answer = await oneAnswer(protocol, options, target, signal)
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

/** As asked, or without `ignore_eos` where the server refuses it and nobody asked for it. */
async function prepared(
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
      : promptsOf({ ignoreEos: false })
    return { target: await prepare({ ...payload, prompts }), knowsNoEos: true }
  }
}

async function oneAnswer(
  protocol: ProtocolName,
  options: ProtocolOptions,
  target: HttpTarget,
  signal: AbortSignal,
): Promise<Pick<Discovered, 'request' | 'answer' | 'answerMs'>> {
  const { answers } = protocolFor(protocol, options)
  const startedMs = performance.now()
  const answer = await answers!.ask(target, 0, signal)
  const answerMs = performance.now() - startedMs
  const { document } = await answers!.read(answer)
  const body = Buffer.from(target.bodies[0]!.body)
  const request = /json/.test(target.bodies[0]!.contentType)
    ? body.toString()
    : `${body.length} bytes`
  return { request: shorter(request), answer: shorter(shownAnswer(document)), answerMs }
}

/** Of an answer that is neither JSON nor text nothing is shown. */
const shownAnswer = (document: unknown): string =>
  document === null ? '(binary)' : JSON.stringify(document)

const shorter = (text: string): string => {
  const line = excerpt(text)
  return line.length > 160 ? `${line.slice(0, 159)}…` : line
}

/**
 * The name that a model goes by, where its server tells. @throws ProtocolError where it does not
 */
async function modelAt(
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

/** A path of the server at a URL. */
const below = (url: string, path: string): string =>
  formatUrl(parseServerAddress(url)!, resolveServerPath(parseServerAddress(url)!, path, path))

async function jsonServer(
  asked: Discovering & { readonly model: string },
  protocol: ProtocolName,
  signal: AbortSignal,
): Promise<Discovered> {
  const { url, model, options, payload, onReason } = asked
  const described = await descriptionAt(url, options, signal)
  const toAny = await get(below(url, nonexistentPath), options, signal)
  const calls = await callsOf(asked, described, toAny, signal)
  const healthPath = options.healthPath ?? (await healthOf(asked, described, toAny, signal))
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
          asked.leftMs(),
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
          ...(await oneAnswer(protocol, called, target, signal)),
        }
      } catch (error) {
        signal.throwIfAborted()
        first ??= error
        // Nobody who asks for a token changes their mind by another body.
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

async function descriptionAt(
  url: string,
  options: ProtocolOptions,
  signal: AbortSignal,
): Promise<unknown> {
  for (const path of descriptionPaths)
    try {
      const { status, text } = await get(below(url, path), options, signal)
      const document: unknown = status === 200 ? JSON.parse(text) : undefined
      if (isRecord(document) && isRecord(document.paths)) return document
    } catch {
      signal.throwIfAborted() // Not described there.
    }
  return undefined
}

/**
 * @param toAny the answer to a path that nobody has
 * @throws ProtocolError where no path is to be found
 */
async function callsOf(
  { url, options }: Asked,
  described: unknown,
  toAny: Answered,
  signal: AbortSignal,
): Promise<JsonCall[]> {
  const known = describedCalls(described)
  const pathname = parseServerAddress(url)!.path
  const isCall = pathname !== '/' && known.length === 0 && (await knows(url, options, signal))
  const path = options.path ?? (isCall ? pathname : undefined)
  if (options.template !== undefined && findTemplateFault(options.template))
    return [{ path: path ?? '/predict', template: options.template }]
  const { template, form } = options
  const said = template === undefined && form === undefined ? undefined : { template, form }
  if (path !== undefined) return [{ ...(said ?? known.find((call) => call.path === path)), path }]
  if (known.length > 0) return known.map((call) => ({ ...(said ?? call), path: call.path }))
  const found: JsonCall[] = []
  let redirects: ProtocolError | undefined
  // Of a server that answers 200 to any GET the POST alone tells which paths it has.
  const saysNothing = toAny.status === 200 ? [200, 404] : [404]
  const takesAny =
    toAny.status === 200 && (await acceptsPost(below(url, nonexistentPath), options, signal))
  for (const usual of usualPaths) {
    const answer = await get(below(url, usual), options, signal)
    const { status, location } = answer
    // A gateway, whatever is asked of it.
    if (status >= 502 && status <= 504)
      throw createRefusalError('json', below(url, usual), answer, true)
    if (status >= 300 && status < 400) {
      // Starlette and Django send on to the path that they have.
      if (location !== undefined && pathOf(location, below(url, usual))?.endsWith(`${usual}/`))
        found.push({ ...said, path: `${usual}/` })
      else redirects ??= createRefusalError('json', below(url, usual), answer)
    }
    if (
      saysNothing.includes(status) &&
      !takesAny &&
      (await acceptsPost(below(url, usual), options, signal))
    )
      found.push({ ...said, path: usual })
    if (status === 401 || status === 403)
      throw new ProtocolError(
        'json',
        `${below(url, usual)} answers ${status}`,
        "add the required header: --header 'Name: value'",
        'denied',
      )
    // It knows the path, and wants another method.
    if (status === 405 || status === 400 || status === 422) found.push({ ...said, path: usual })
  }
  if (found.length > 0) return found
  if (redirects !== undefined) throw redirects
  throw new ProtocolError(
    'json',
    `${url} responds, but with no protocol that tune knows and at none of ${usualPaths.join(', ')}`,
    'describe its requests: --path /PATH and --body JSON',
  )
}

/**
 * Whether a URL with a path is that of a call: one that is known nowhere, or leads on to its
 * folder, is where the server's own paths begin.
 */
async function knows(url: string, options: ProtocolOptions, signal: AbortSignal): Promise<boolean> {
  const { status } = await get(url, options, signal)
  return status === 404 ? acceptsPost(url, options, signal) : status < 300 || status >= 400
}

/** One whose answer is another than that to a path that nobody has. */
async function healthOf(
  { url, options }: Asked,
  described: unknown,
  toAny: Answered,
  signal: AbortSignal,
): Promise<string | undefined> {
  const said = describedHealth(described)
  for (const path of [...(said === undefined ? [] : [said]), ...usualHealthPaths]) {
    const { status, text } = await get(below(url, path), options, signal)
    if (status === 200 && !(toAny.status === 200 && toAny.text === text)) return path
  }
  return undefined
}

/** Of a redirect to the same server; undefined for one that leads elsewhere. */
function pathOf(location: string, from: string): string | undefined {
  if (!URL.canParse(location, from)) return undefined
  const to = new URL(location, from)
  return to.origin === new URL(from).origin ? to.pathname : undefined
}
