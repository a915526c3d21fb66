import { answersHeld, BoundError, jsonFrom } from '../bounded-reader.ts'
import type { RequestBody, Target } from '../model/target.ts'
import type { ItemSource, PayloadSource } from '../payload-source.ts'
import { ProtocolError } from '../profiler-errors.ts'
import {
  hrefOf,
  namesGrpc,
  namesSocket,
  pathBelow,
  type ServerAddress,
  serverAddress,
  socketHint,
} from '../server-address.ts'
import { valuesOf } from './golden-answers.ts'
import { deniesReadiness, firstAnswer, postOnce, readinessAt } from './http.ts'
import type { DeclaredTensor } from './meaning.ts'
import { differentOnes, mixedHint, mixedUp } from './mixed-answers.ts'
import { notReadyReason } from './not-ready.ts'
import { bodiesFromFile } from './payload-pool.ts'
import type { Answered, Protocol } from './protocol.ts'
import type { ProtocolModule, ProtocolOptions } from './protocol-module.ts'
import { excerpt, noJsonHint } from './refusals.ts'

/** What one protocol adds to the HTTP that all share. */
export interface Dialect {
  readonly name: string
  /** All must answer 200, with a body that does not say otherwise. */
  readyPaths(model: string): readonly string[]
  /** Those that not every server has: only one that says "not ready" is believed. */
  readyPathsOfSome?(model: string): readonly string[]
  /**
   * Another sign that it is ready, where no health path was given. @param call URL of the inference
   * call
   */
  readyToo?(call: string, signal: AbortSignal): Promise<boolean>
  inferPath(model: string): string
  /** Its answers may be several documents, one a line. */
  readonly lines?: true
  /** Its answers may be of another type than JSON: texts, audio, pictures. */
  readonly anyType?: true
  /** A path in the server's URL is that of the inference call. */
  readonly pathOfUrl?: true
  /** Bodies made of the source's items, from what the server says of the model. */
  generate(at: OwnPath, model: string, source: ItemSource, signal: AbortSignal): Promise<Generated>
  /** Undefined when the answer is one to what was asked, else what is wrong with it. */
  fault(answer: unknown, asked: Asked): string | undefined
  /**
   * What of a good answer is the model's, by name; absent: all of it may be, and its server may
   * tell of itself in it.
   */
  result?(answer: unknown): unknown
  /**
   * A string that every good answer contains. @param requests the documents that are sent; those of
   * a generated payload are alike
   */
  expect(requests: readonly unknown[]): string | undefined
}

/** The URL of a path of the server's own. */
type OwnPath = (path: string) => string

interface Generated {
  readonly bodies: readonly RequestBody[]
  /** The model's outputs, where it names them. */
  readonly outputs?: readonly DeclaredTensor[]
}

/** What an answer is held against. */
interface Asked {
  readonly model: string
  /** The request's own document; undefined where it is none. */
  readonly request: unknown
  readonly outputs?: readonly DeclaredTensor[]
  /** Of the server's first answer, where it may be another one than JSON. */
  readonly answerType?: AnswerType
}

interface AnswerType {
  readonly contentType: string
  /** Its bytes are no text. */
  readonly isBinary: boolean
}

/** A Protocol from a dialect: readiness, payload pool, one good answer. */
export function httpProtocol(
  dialect: Dialect,
  options: Parameters<ProtocolModule['create']>[0],
): Protocol {
  const { name } = dialect
  return {
    name,
    async ready(url, model, signal, onReason) {
      const { at, call } = placed(dialect, options, url, model)
      const look = (path: string) => readinessAt(name, at(path), options, signal, onReason)
      if (options.healthPath !== undefined) return (await look(options.healthPath)).ok
      for (const path of dialect.readyPaths(model)) {
        const { ok, status, loading } = await look(path)
        if (ok) continue
        // One that says that it is not ready yet has the path. Where nobody listened yet it is
        // asked again once the call has answered.
        if (loading || dialect.readyToo === undefined) return false
        if (!(await dialect.readyToo(at(call), signal))) return false
        if (status !== undefined) continue
        const again = await look(path)
        if (again.loading || (again.status === undefined && (await look(path)).loading))
          return false
      }
      for (const path of dialect.readyPathsOfSome?.(model) ?? [])
        if (await deniesReadiness(at(path), options, signal, onReason)) return false
      return true
    },
    answers: {
      tensors: dialect.result !== undefined,
      ask: async (target, body, signal) =>
        Buffer.from(await postOnce(name, target, target.bodies[body]!, signal)),
      read: async (answer) =>
        answeredOf(dialect, readDocument(dialect, Buffer.from(answer).toString())),
      of: async (document) => answeredOf(dialect, document),
    },
    async prepare(
      url: string,
      model: string,
      payload: PayloadSource,
      signal: AbortSignal,
    ): Promise<Extract<Target, { kind: 'http' }>> {
      const { origin, path, at } = placed(dialect, options, url, model)
      const made =
        payload.kind === 'file'
          ? { bodies: await bodiesFromFile(payload) }
          : await dialect.generate(at, model, payload, signal)
      const { bodies, outputs } = made as Generated
      const expect =
        options.expect ??
        dialect.expect((payload.kind === 'file' ? bodies : bodies.slice(0, 1)).map(documentOf))
      // Known with the first answer: until then it is JSON.
      let answerType: AnswerType | undefined
      const wrongWith = (asked: RequestBody, text: string) =>
        faultOf(dialect, text, { model, request: documentOf(asked), outputs, answerType }, expect)
      const target: Extract<Target, { kind: 'http' }> = {
        kind: 'http',
        url: origin,
        path,
        headers: options.headers ?? {},
        bodies,
        timeoutMs: options.timeoutMs,
        expect,
        meaning: (asked, answer) => wrongWith(asked, Buffer.from(answer).toString()),
        connections: options.connections,
        http2: options.http2,
        tls: options.tls,
      }
      const first = await firstAnswer(name, target, bodies[0]!, options.firstAnswerMs, signal)
      const { text } = first
      if (dialect.anyType && first.contentType !== undefined)
        answerType = { contentType: first.contentType, isBinary: isBinary(text) }
      const wrong = wrongWith(bodies[0]!, text)
      if (wrong !== undefined)
        throw new ProtocolError(
          name,
          `${hrefOf(parseUrl(name, url), target.path)} answered 200, but ${wrong}${text.trim() === '' ? '' : `: ${excerpt(text)}`}`,
          noJsonHint(text),
          notReadyReason(text) === undefined ? undefined : 'not-ready',
        )
      await checkTogether(
        dialect,
        target,
        differentOnes(bodies).slice(0, answersHeld(text.length)),
        signal,
      )
      return target
    },
  }
}

const answeredOf = (dialect: Dialect, document: unknown): Answered => ({
  document,
  result: dialect.result ? dialect.result(document) : document,
})

async function checkTogether(
  dialect: Dialect,
  target: Extract<Target, { kind: 'http' }>,
  bodies: readonly RequestBody[],
  signal: AbortSignal,
): Promise<void> {
  const { result } = dialect
  if (result === undefined) return
  const wrong = await mixedUp(bodies.length, async (i) => {
    try {
      return valuesOf({
        result: result(jsonFrom(await postOnce(dialect.name, target, bodies[i]!, signal))),
      })
    } catch {
      signal.throwIfAborted()
      return undefined // Full, say: load tells how often it is.
    }
  })
  if (wrong !== undefined)
    throw new ProtocolError(
      dialect.name,
      `${hrefOf(parseUrl(dialect.name, target.url), target.path)} answers, but ${wrong}`,
      mixedHint,
      'answers-differ',
    )
}

/** Where the server of a URL is asked. Throws a ProtocolError that says what a URL lacks. */
function placed(
  { name, pathOfUrl, inferPath }: Dialect,
  options: ProtocolOptions,
  url: string,
  model: string,
) {
  const address = parseUrl(name, url)
  const ofUrl = pathOfUrl && options.path === undefined && address.path !== '/'
  const call = ofUrl ? address.path : (options.path ?? inferPath(model))
  const at: OwnPath = (own) => hrefOf(address, pathBelow(address, call, own))
  return { origin: address.origin, call, path: pathBelow(address, call, call), at }
}

/** Throws a ProtocolError that says what a URL lacks. */
export function parseUrl(name: string, url: string): ServerAddress {
  if (namesGrpc(url))
    throw new ProtocolError(
      name,
      `'${url}' is the URL of a gRPC server, and ${name} is spoken over HTTP`,
      'write http://, or name a protocol of gRPC: --protocol grpc-v2 or tfserving-grpc',
    )
  const address = serverAddress(url)
  if (address !== undefined) return address
  if (namesSocket(url)) throw new ProtocolError(name, `'${url}' names no socket`, socketHint)
  if (!URL.canParse(url))
    throw new ProtocolError(name, `'${url}' is not a URL`, 'for example http://127.0.0.1:8000')
  throw new ProtocolError(name, `'${url}' is not an http or https URL`)
}

/**
 * A document, or where the dialect has them several, one a line, as a list. @throws what JSON.parse
 * and the bounded reader throw
 */
function answerFrom({ lines }: Dialect, text: string): unknown {
  try {
    return jsonFrom(text)
  } catch (error) {
    const each = text.split(/\r?\n/).filter((line) => line.trim() !== '')
    if (!lines || each.length < 2) throw error
    return each.map((line) => jsonFrom(line))
  }
}

/**
 * An answer as it is compared: a document, a text, or null for what is neither. @throws what
 * JSON.parse and the bounded reader throw, where answers are JSON
 */
function readDocument(dialect: Dialect, text: string): unknown {
  try {
    return answerFrom(dialect, text)
  } catch (error) {
    if (!dialect.anyType || error instanceof BoundError) throw error
    return isBinary(text) ? null : text
  }
}

/** Whether bytes that were read as UTF-8 were none. */
const isBinary = (text: string): boolean => /[\0\uFFFD]/.test(text)

/** Whether an answer that is no JSON is a good one by its content type; a page never is. */
const isOtherType = (type: AnswerType | undefined, text: string): boolean =>
  type !== undefined && !/json/i.test(type.contentType) && !isPage(type, text)

const isPage = ({ contentType }: AnswerType, text: string): boolean =>
  /html/i.test(contentType) && noJsonHint(text) !== undefined

function documentOf({ body }: RequestBody): unknown {
  try {
    return JSON.parse(Buffer.from(body as Uint8Array).toString())
  } catch {
    return undefined // A body of a file may be anything.
  }
}

function faultOf(
  dialect: Dialect,
  text: string,
  asked: Asked,
  expect: string | undefined,
): string | undefined {
  if (text.trim() === '') return 'with an empty body'
  const { answerType } = asked
  if (answerType?.isBinary && !isBinary(text))
    return `with a text, and with ${answerType.contentType} at first`
  const lacksExpected = expect !== undefined && !text.includes(expect)
  let answer: unknown
  try {
    answer = answerFrom(dialect, text)
  } catch (error) {
    if (error instanceof BoundError) return error.message
    if (isOtherType(answerType, text)) return lacksExpected ? `without '${expect}'` : undefined
    return /[[,:]\s*-?(NaN|Infinity)\b/.test(text)
      ? 'with a number that is none, which JSON has not'
      : 'not with JSON'
  }
  const wrong = dialect.fault(answer, asked)
  if (wrong !== undefined) return excerpt(wrong)
  return lacksExpected ? `without '${expect}'` : undefined
}
