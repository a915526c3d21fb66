/**
 * Builds a Protocol from a dialect. All HTTP protocols share readiness checks, the payload pool and
 * the check of the first answer; a dialect adds paths, bodies and the meaning of answers.
 */
import { BoundError, parseUntrustedJson } from '../bounded-reader.ts'
import type { HttpTarget, RequestBody } from '../model/target.ts'
import type { ItemSource, PayloadSource } from '../payload-source.ts'
import { ProtocolError } from '../profiler-errors.ts'
import {
  formatUrl,
  isGrpcUrl,
  isSocketUrl,
  parseServerAddress,
  resolveServerPath,
  type ServerAddress,
  socketHint,
} from '../server-address.ts'
import type { DeclaredTensor } from './answer-faults.ts'
import { extractValues } from './golden-answers.ts'
import { checkReadiness, deniesReadiness, fetchAnswer, fetchFirstAnswer } from './http.ts'
import { checkConcurrentAnswers } from './mixed-answers.ts'
import { findNotReadyReason } from './not-ready.ts'
import { readBodies } from './payload-pool.ts'
import type { ParsedAnswer, Protocol } from './protocol.ts'
import type { ProtocolModule, ProtocolOptions } from './protocol-module.ts'
import { getHtmlHint, quoteExcerpt } from './refusals.ts'

/** Parts of an HTTP protocol in which it differs from the others. */
export interface Dialect {
  readonly name: string
  /** Paths that must all answer 200, with a body that does not report "not ready". */
  listReadyPaths(model: string): readonly string[]
  /** Paths that some servers lack: only an answer that reports "not ready" counts. */
  listOptionalReadyPaths?(model: string): readonly string[]
  /**
   * Whether a server without these readiness paths is ready, where the user gave no health path.
   * @param callUrl URL of the inference call
   */
  isReadyWithoutPaths?(callUrl: string, signal: AbortSignal): Promise<boolean>
  buildInferPath(model: string): string
  /** Answers may be JSON Lines. */
  readonly acceptsJsonLines?: true
  /** Answers may have another type than JSON: text, audio, images. */
  readonly acceptsAnyType?: true
  /** The path of the server's URL, if any, is the path of the inference call. */
  readonly usesUrlPath?: true
  /** Builds bodies from the source's items, as the server's metadata of the model requires. */
  generateBodies(
    buildUrl: BuildUrl,
    model: string,
    source: ItemSource,
    signal: AbortSignal,
  ): Promise<GeneratedBodies>
  /** Describes why an answer does not fit its request; undefined where it does. */
  describeFault(answer: unknown, context: AnswerContext): string | undefined
  /**
   * Extracts the output of the model from a good answer, by name. Absent: the whole answer is
   * compared, except fields that describe the server.
   */
  extractResult?(answer: unknown): unknown
  /**
   * A string that every good answer contains.
   * @param requests the documents that are sent; only the first of a generated payload
   */
  findExpectedText(requests: readonly unknown[]): string | undefined
}

/** Builds the URL of a path of the server, such as that of its health endpoint. */
type BuildUrl = (path: string) => string

interface GeneratedBodies {
  readonly bodies: readonly RequestBody[]
  /** The model's outputs, where it names them. */
  readonly outputs?: readonly DeclaredTensor[]
}

/** The request and the declared outputs that an answer must fit. */
interface AnswerContext {
  readonly model: string
  /** Document of the request; undefined for a body that is not JSON. */
  readonly request: unknown
  readonly outputs?: readonly DeclaredTensor[]
  /** Type of the server's first answer, where it may be another one than JSON. */
  readonly answerType?: AnswerType
}

interface AnswerType {
  readonly contentType: string
  /** The body is not UTF-8 text. */
  readonly isBinary: boolean
}

/** Builds the Protocol of a dialect. */
export function createHttpProtocol(
  dialect: Dialect,
  options: Parameters<ProtocolModule['create']>[0],
): Protocol {
  const { name } = dialect
  return {
    name,
    async isReady(url, model, signal, onReason) {
      const { buildUrl, callPath } = resolvePaths(dialect, options, url, model)
      const check = (path: string) =>
        checkReadiness(name, buildUrl(path), options, signal, onReason)
      if (options.healthPath !== undefined) return (await check(options.healthPath)).ok
      const isPathReady = async (path: string) => {
        const first = await check(path)
        if (first.ok) return true
        // The server has the path, and reports that it is not ready.
        if (first.loading || dialect.isReadyWithoutPaths === undefined) return false
        // The server lacks the path, or did not listen yet: the inference call decides.
        if (!(await dialect.isReadyWithoutPaths(buildUrl(callPath), signal))) return false
        if (first.status !== undefined) return true
        // Nothing listened at the first check: check again, because the server may have the path.
        const second = await check(path)
        return !second.loading && (second.status !== undefined || !(await check(path)).loading)
      }
      for (const path of dialect.listReadyPaths(model)) if (!(await isPathReady(path))) return false
      for (const path of dialect.listOptionalReadyPaths?.(model) ?? [])
        if (await deniesReadiness(buildUrl(path), options, signal, onReason)) return false
      return true
    },
    answerClient: {
      isResultFromModelOnly: dialect.extractResult !== undefined,
      fetch: async (target, body, signal) =>
        Buffer.from(await fetchAnswer(name, target, target.bodies[body]!, signal)),
      parse: async (answer) =>
        interpretAnswer(dialect, readDocument(dialect, Buffer.from(answer).toString())),
      interpret: async (document) => interpretAnswer(dialect, document),
    },
    async prepare(
      url: string,
      model: string,
      payload: PayloadSource,
      signal: AbortSignal,
    ): Promise<HttpTarget> {
      const { origin, path, buildUrl } = resolvePaths(dialect, options, url, model)
      const generated: GeneratedBodies =
        payload.kind === 'file'
          ? { bodies: await readBodies(payload) }
          : await dialect.generateBodies(buildUrl, model, payload, signal)
      const { bodies, outputs } = generated
      const expect =
        options.expect ??
        dialect.findExpectedText(
          (payload.kind === 'file' ? bodies : bodies.slice(0, 1)).map(parseRequestDocument),
        )
      // Set by the first answer; until then answers must be JSON. `target.findFault` reads it, too,
      // so it changes then.
      let answerType: AnswerType | undefined
      const findFault = (body: RequestBody, text: string) =>
        describeAnswerFault(
          dialect,
          text,
          { model, request: parseRequestDocument(body), outputs, answerType },
          expect,
        )
      const target: HttpTarget = {
        kind: 'http',
        url: origin,
        path,
        headers: options.headers ?? {},
        bodies,
        timeoutMs: options.timeoutMs,
        expect,
        findFault: (body, answer) => findFault(body, Buffer.from(answer).toString()),
        connections: options.connections,
        http2: options.http2,
        tls: options.tls,
      }
      const first = await fetchFirstAnswer(name, target, bodies[0]!, options.firstAnswerMs, signal)
      const { text } = first
      if (dialect.acceptsAnyType && first.contentType !== undefined)
        answerType = { contentType: first.contentType, isBinary: isBinary(text) }
      const callUrl = formatUrl(parseHttpUrl(name, url), path)
      const fault = findFault(bodies[0]!, text)
      if (fault !== undefined)
        throw new ProtocolError(
          name,
          `${callUrl} answered 200, but ${fault}${text.trim() === '' ? '' : `: ${quoteExcerpt(text)}`}`,
          getHtmlHint(text),
          findNotReadyReason(text) === undefined ? undefined : 'not-ready',
        )
      const { extractResult } = dialect
      if (extractResult !== undefined)
        await checkConcurrentAnswers(
          { protocol: name, url: callUrl, bodies, answerBytes: text.length },
          signal,
          async (body) =>
            extractValues({
              result: extractResult(
                parseUntrustedJson(await fetchAnswer(name, target, body, signal)),
              ),
            }),
        )
      return target
    },
  }
}

/** Selects the comparable part of an answer. */
const interpretAnswer = (dialect: Dialect, document: unknown): ParsedAnswer => ({
  document,
  result: dialect.extractResult ? dialect.extractResult(document) : document,
})

/**
 * Resolves the paths of the inference call and of the server's own endpoints, below the URL.
 * @throws ProtocolError for an unusable URL
 */
function resolvePaths(
  { name, usesUrlPath, buildInferPath }: Dialect,
  options: ProtocolOptions,
  url: string,
  model: string,
) {
  const address = parseHttpUrl(name, url)
  const isCallUrl = usesUrlPath && options.path === undefined && address.path !== '/'
  const callPath = isCallUrl ? address.path : (options.path ?? buildInferPath(model))
  const buildPath = (path: string) => resolveServerPath(address, callPath, path)
  const buildUrl: BuildUrl = (path) => formatUrl(address, buildPath(path))
  return { origin: address.origin, callPath, path: buildPath(callPath), buildUrl }
}

/**
 * Parses the URL of an HTTP server.
 * @throws ProtocolError that says what is wrong with the URL
 */
export function parseHttpUrl(name: string, url: string): ServerAddress {
  if (isGrpcUrl(url))
    throw new ProtocolError(
      name,
      `'${url}' is the URL of a gRPC server, but ${name} uses HTTP`,
      'use http://, or a gRPC protocol: --protocol grpc-v2 or tfserving-grpc',
    )
  const address = parseServerAddress(url)
  if (address !== undefined) return address
  if (isSocketUrl(url)) throw new ProtocolError(name, `'${url}' names no socket`, socketHint)
  if (!URL.canParse(url))
    throw new ProtocolError(name, `'${url}' is not a URL`, 'for example http://127.0.0.1:8000')
  throw new ProtocolError(name, `'${url}' is not an http or https URL`)
}

/**
 * Parses an answer: a JSON document, or JSON Lines as a list where the dialect has them.
 * @throws SyntaxError and BoundError
 */
function parseAnswer({ acceptsJsonLines }: Dialect, text: string): unknown {
  try {
    return parseUntrustedJson(text)
  } catch (error) {
    const documents = text.split(/\r?\n/).filter((line) => line.trim() !== '')
    if (!acceptsJsonLines || documents.length < 2) throw error
    return documents.map((line) => parseUntrustedJson(line))
  }
}

/**
 * Parses an answer for comparison: a document, a text, or null for binary data.
 * @throws SyntaxError where answers must be JSON, and BoundError
 */
function readDocument(dialect: Dialect, text: string): unknown {
  try {
    return parseAnswer(dialect, text)
  } catch (error) {
    if (!dialect.acceptsAnyType || error instanceof BoundError) throw error
    return isBinary(text) ? null : text
  }
}

/** Whether a text was decoded from bytes that are no UTF-8 text. */
const isBinary = (text: string): boolean => /[\0\uFFFD]/.test(text)

/** Whether the content type allows an answer that is not JSON. An HTML page never counts. */
const isAcceptedType = (type: AnswerType | undefined, text: string): boolean =>
  type !== undefined && !/json/i.test(type.contentType) && !isHtmlPage(type, text)

/** Whether an answer is an HTML page, as gateways and login forms send. */
const isHtmlPage = ({ contentType }: AnswerType, text: string): boolean =>
  /html/i.test(contentType) && getHtmlHint(text) !== undefined

function parseRequestDocument({ body }: RequestBody): unknown {
  try {
    return JSON.parse(Buffer.from(body as Uint8Array).toString())
  } catch {
    return undefined // Bodies from a file may have any type.
  }
}

/**
 * Describes what is wrong with an answer, to follow 'answered 200, but'; undefined if nothing is.
 */
function describeAnswerFault(
  dialect: Dialect,
  text: string,
  context: AnswerContext,
  expect: string | undefined,
): string | undefined {
  if (text.trim() === '') return 'with an empty body'
  const { answerType } = context
  if (answerType?.isBinary && !isBinary(text))
    return `with a text, and with ${answerType.contentType} at first`
  const lacksExpected = expect !== undefined && !text.includes(expect)
  let answer: unknown
  try {
    answer = parseAnswer(dialect, text)
  } catch (error) {
    if (error instanceof BoundError) return error.message
    if (isAcceptedType(answerType, text)) return lacksExpected ? `without '${expect}'` : undefined
    return /[[,:]\s*-?(NaN|Infinity)\b/.test(text)
      ? 'with NaN or Infinity, which JSON does not allow'
      : 'not with JSON'
  }
  const fault = dialect.describeFault(answer, context)
  if (fault !== undefined) return quoteExcerpt(fault)
  return lacksExpected ? `without '${expect}'` : undefined
}
