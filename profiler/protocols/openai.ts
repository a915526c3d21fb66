/**
 * The OpenAI protocol: streamed completions of language models, whose tokens are timed one by one
 * (load/token-stream.ts).
 */
import { TokenStream } from '../load/token-stream.ts'
import type { HttpTarget, RequestBody } from '../model/target.ts'
import type { PayloadSource } from '../payload-source.ts'
import { isRecord, pluckStrings } from '../plain-record.ts'
import { PayloadError, ProtocolError } from '../profiler-errors.ts'
import { formatUrl, resolveServerPath } from '../server-address.ts'
import { checkReadiness, fetchAnswer, fetchFirstAnswer, getJson } from './http.ts'
import { parseHttpUrl } from './http-protocol.ts'
import { readJsonLines } from './payload-pool.ts'
import { makeFittingPrompts } from './prompt-fitting.ts'
import type { Prompt } from './prompts.ts'
import type { Protocol } from './protocol.ts'
import type { ProtocolModule, ProtocolOptions } from './protocol-module.ts'
import { createRefusalError, extractMessage, quoteExcerpt } from './refusals.ts'

const chatPath = '/v1/chat/completions'
const modelsPath = '/v1/models'

/**
 * The OpenAI protocol with streaming (vLLM, TGI, SGLang, TensorRT-LLM, Ollama, ...): chat, or
 * completions or responses where the path says so.
 */
export const openai: ProtocolModule = {
  create,
  callPath: () => chatPath,
  probes: [
    { path: () => modelsPath, matches: ({ json }) => isRecord(json) && json.object === 'list' },
  ],
  modelLists: [
    {
      method: 'GET',
      path: modelsPath,
      parseNames: (answer) => pluckStrings('id', isRecord(answer) ? answer.data : undefined),
    },
  ],
}

function create(options: Parameters<ProtocolModule['create']>[0]): Protocol {
  const callPath = options.path ?? chatPath
  const call = resolveCall(callPath)
  return {
    name: 'openai',
    async isReady(url, _model, signal, onReason) {
      const address = parseHttpUrl('openai', url)
      const buildUrl = (path: string) =>
        formatUrl(address, resolveServerPath(address, callPath, path))
      const { healthPath = '/health' } = options
      const { ok, loading } = await checkReadiness(
        'openai',
        buildUrl(healthPath),
        options,
        signal,
        onReason,
      )
      // A server that reports that it is not ready has the path: llama.cpp and SGLang list their
      // models while they load.
      if (ok || loading || options.healthPath !== undefined) return ok
      return (await checkReadiness('openai', buildUrl(modelsPath), options, signal, onReason)).ok
    },
    answerClient: {
      isResultFromModelOnly: false,
      fetch: async (target, body, signal) =>
        Buffer.from(await fetchAnswer('openai', target, target.bodies[body]!, signal)),
      parse: async (answer) => {
        const stream = new TokenStream()
        stream.push(Buffer.from(answer), 0)
        if (stream.failure !== undefined)
          throw new Error(failureTexts[stream.failure] ?? stream.failure)
        return {
          document: { text: stream.text, model: extractModel(Buffer.from(answer).toString()) },
          result: stream.text,
          generated: true,
        }
      },
      interpret: async (document) => ({
        document,
        result: isRecord(document) ? document.text : document,
        generated: true,
      }),
    },
    async prepare(
      url: string,
      model: string,
      payload: PayloadSource,
      signal: AbortSignal,
    ): Promise<HttpTarget> {
      if (unstreamedPaths.test(callPath))
        throw new ProtocolError(
          'openai',
          `${callPath} does not answer with a stream`,
          `use plain JSON with the body of that call: --protocol json --body '{"model": "NAME", "input": "{{text}}"}'`,
        )
      const address = parseHttpUrl('openai', url)
      const buildUrl = (serverPath: string) =>
        formatUrl(address, resolveServerPath(address, callPath, serverPath))
      const path = resolveServerPath(address, callPath, callPath)
      const callUrl = formatUrl(address, path)
      // Name in the answers of a server that lists the requested model under another one.
      let alias: string | undefined
      const endpoint: Omit<HttpTarget, 'bodies'> = {
        kind: 'http',
        transport: 'sse',
        url: address.origin,
        path,
        headers: options.headers ?? {},
        timeoutMs: options.timeoutMs,
        connections: options.connections,
        http2: options.http2,
        tls: options.tls,
        findFault: (body, answer) =>
          findStreamFault(body, Buffer.from(answer).toString(), alias)?.what,
      }
      const fetchFirst = async (body: RequestBody) =>
        (await fetchFirstAnswer('openai', endpoint, body, options.firstAnswerMs, signal)).text
      const buildRequests = async () => {
        if (payload.kind !== 'generated')
          return { bodies: await readBodies(payload.path, model, call) }
        const completions = { model, call, ignoreEos: payload.prompts?.ignoreEos }
        const context = payload.keepOverlongPrompts
          ? undefined
          : await fetchContext(buildUrl, model, options, signal)
        const { prompts, remarks } = await makeFittingPrompts(context, payload, async (prompt) => {
          const stream = new TokenStream()
          stream.push(Buffer.from(await fetchFirst(buildBody(prompt, completions))), 0)
          return stream.times?.inputTokens
        })
        return {
          bodies: prompts.map((prompt) => buildBody(prompt, completions)),
          ...(remarks.length > 0 && { remarks }),
        }
      }
      const target: HttpTarget = { ...endpoint, ...(await buildRequests()) }
      const { bodies } = target
      const answer = await fetchFirst(bodies[0]!)
      const requested = parseRequestBody(bodies[0]!).model
      const other = findOtherModel(answer, requested)
      if (
        other !== undefined &&
        (await fetchModels(buildUrl, options, signal)).some(({ id }) => id === requested)
      )
        alias = other
      const fault = findStreamFault(bodies[0]!, answer, alias)
      if (fault !== undefined)
        throw new ProtocolError(
          'openai',
          `${callUrl} answered 200, but ${fault.what}`,
          fault.hint,
          fault.why,
        )
      if (alias === undefined) return target
      return {
        ...target,
        remarks: [
          ...(target.remarks ?? []),
          `the server lists '${requested}', and answers as '${alias}'`,
        ],
      }
    },
  }
}

/** Paths of calls whose answers are not streams. */
const unstreamedPaths = /\/(embeddings|rerank|score|classify|pooling|moderations)$/

type ListedModel = Readonly<Record<string, unknown>>

/** Fetches the models that the server lists; empty without a list. */
async function fetchModels(
  buildUrl: (path: string) => string,
  options: ProtocolOptions,
  signal: AbortSignal,
): Promise<ListedModel[]> {
  const list = await fetchDocument(buildUrl(modelsPath), options, signal)
  return isRecord(list) && Array.isArray(list.data) ? list.data.filter(isRecord) : []
}

/** Fetches a JSON document; undefined for anything else. */
async function fetchDocument(
  url: string,
  options: ProtocolOptions,
  signal: AbortSignal,
): Promise<unknown> {
  const document = await getJson('openai', url, options, signal).catch(() => undefined)
  signal.throwIfAborted()
  return document
}

/**
 * Fetches the limit on the tokens of prompt and answer together, where the server reports it:
 * `max_model_len` in the list of models (vLLM, where an adapter has that of its base model; SGLang;
 * the built-in server), `max_total_tokens` of /info (TGI), the context per slot of /props
 * (llama.cpp).
 */
async function fetchContext(
  buildUrl: (path: string) => string,
  model: string,
  options: ProtocolOptions,
  signal: AbortSignal,
): Promise<number | undefined> {
  const models = await fetchModels(buildUrl, options, signal)
  const listedModel =
    models.find(({ id }) => id === model) ?? (models.length === 1 ? models[0] : undefined)
  const base = models.find(
    ({ id }) => listedModel?.parent !== undefined && id === listedModel.parent,
  )
  const listedLimit =
    readTokenCount(listedModel?.max_model_len) ?? readTokenCount(base?.max_model_len)
  if (listedLimit !== undefined) return listedLimit
  const info = await fetchDocument(buildUrl('/info'), options, signal)
  const tgiTokens = readTokenCount(isRecord(info) ? info.max_total_tokens : undefined)
  if (tgiTokens !== undefined) return tgiTokens
  const props = await fetchDocument(buildUrl('/props'), options, signal)
  const settings = isRecord(props) ? props.default_generation_settings : undefined
  return readTokenCount(isRecord(settings) ? settings.n_ctx : undefined)
}

/** Reads a reported number of tokens; undefined for another value. */
const readTokenCount = (value: unknown): number | undefined =>
  Number.isSafeInteger(value) && (value as number) > 0 ? (value as number) : undefined

/** Extracts the name of the model from the first chunk of a stream that has one. */
const extractModel = (answer: string): string | undefined =>
  /^data:.*?"model"\s*:\s*"([^"\\]+)"/m.exec(answer)?.[1]

interface Fault {
  readonly what: string
  readonly hint?: string
  readonly why?: ProtocolError['why']
}

/** Converts an error within a stream to the status that it would have had. */
function convertStreamError(error: unknown): Fault {
  const text = isRecord(error) ? JSON.stringify({ error }) : String(error)
  const code = isRecord(error) ? Number(error.code ?? error.status) : Number.NaN
  const status =
    code >= 400 && code <= 599
      ? code
      : /\bmodel\b.*(not found|does not exist|unknown)|no such model/i.test(text)
        ? 404
        : 500
  const { hint, why } = createRefusalError('openai', '', { status, text }, true)
  return { what: `with an error in its stream: ${quoteExcerpt(extractMessage(text))}`, hint, why }
}

/**
 * Describes what is wrong with a stream as the answer to a body.
 * @param alias the server's own name for the requested model
 */
function findStreamFault(body: RequestBody, answer: string, alias?: string): Fault | undefined {
  const stream = new TokenStream()
  stream.push(Buffer.from(answer), 0)
  if (stream.failure === 'error in stream') return convertStreamError(stream.serverError)
  if (stream.failure !== undefined)
    return { what: `${failureTexts[stream.failure] ?? stream.failure}: ${quoteExcerpt(answer)}` }
  const request = parseRequestBody(body)
  const other = findOtherModel(answer, request.model, alias)
  if (other !== undefined)
    return {
      what: `from the model '${other}', not '${request.model}'`,
      hint: `is --model ${other} meant?`,
    }
  const { tokens } = stream.times!
  const limit = request.max_tokens ?? request.max_output_tokens
  const maxTokens = typeof limit === 'number' ? limit : Number.POSITIVE_INFINITY
  const bytes = Buffer.byteLength(stream.text)
  if (tokens > maxTokens && tokens > bytes + maxBoundaryTokens)
    return {
      what: `its usage counts ${tokens} tokens in a text of ${bytes} bytes, although at most ${maxTokens} were requested`,
    }
  return tokens === 0
    ? { what: 'its usage counts no tokens, although its stream has some' }
    : undefined
}

interface CompletionRequest {
  readonly model: string
  readonly max_tokens?: unknown
  readonly max_output_tokens?: unknown
}
const parseRequestBody = ({ body }: RequestBody) => JSON.parse(String(body)) as CompletionRequest

/** Tokens without text that servers may count: those that begin and end a text. */
const maxBoundaryTokens = 2

/**
 * Finds the model that the stream names, where it is not the requested one. Servers may add a
 * folder or a tag to the requested name. Gateways answer with the name on the server behind them
 * (`alias`). TGI accepts the name `tgi` for any model.
 */
function findOtherModel(answer: string, requested: string, alias?: string): string | undefined {
  const answeringModel = extractModel(answer)
  if (answeringModel === undefined || answeringModel === alias || requested === 'tgi')
    return undefined
  const [a, b] = [answeringModel.toLowerCase(), requested.toLowerCase()]
  return a.includes(b) || b.includes(a) ? undefined : answeringModel
}

const failureTexts: Readonly<Record<string, string>> = {
  'bad answer': 'not with a stream of chunks',
  'cut stream': 'its stream ends without [DONE], a finish_reason or response.completed',
  'no token': 'its stream has no token',
  'error in stream': 'with an error in its stream',
  aborted: 'it aborted the answer (see its finish_reason)',
}

/**
 * Type of request; each has its own names for the prompt and the largest number of output tokens.
 */
type Call = 'chat' | 'completions' | 'responses'
const resolveCall = (path: string): Call =>
  path.endsWith('/responses') ? 'responses' : path.includes('chat') ? 'chat' : 'completions'

function buildBody(
  { text, messages, inputTokens, outputTokens, requestClass }: Prompt,
  { model, call, ignoreEos = true }: Completions,
): RequestBody {
  const chat = messages.map((content, i) => ({
    role: i % 2 === 0 ? 'user' : 'assistant',
    content,
  }))
  const prompts = {
    chat: { messages: chat, max_tokens: outputTokens },
    completions: { prompt: text, max_tokens: outputTokens },
    // Responses are not stored, as nobody will request them again.
    responses: { input: chat, max_output_tokens: outputTokens, store: false },
  }
  const request = buildStreamRequest(
    {
      model,
      ...prompts[call],
      temperature: 0,
      // vLLM, SGLang and TensorRT-LLM: exactly the requested length. Others ignore unknown fields.
      ...(ignoreEos && { ignore_eos: true }),
    },
    call,
  )
  return { ...request, inputTokens, ...(requestClass && { requestClass }) }
}

/** Options common to all requests. */
interface Completions {
  readonly model: string
  readonly call: Call
  readonly ignoreEos?: boolean
}

/** Builds a request for a stream. The Responses API reports its usage without `stream_options`. */
function buildStreamRequest(body: Record<string, unknown>, call: Call): RequestBody {
  const usage =
    call === 'responses' || body.stream_options !== undefined
      ? {}
      : { stream_options: { include_usage: true } }
  return {
    contentType: 'application/json',
    body: Buffer.from(JSON.stringify({ ...body, stream: true, ...usage })),
  }
}

/**
 * Reads one request body per line. The model's name is added where it is missing, every request
 * streams, and usage is requested unless the body says otherwise.
 */
async function readBodies(path: string, model: string, call: Call): Promise<RequestBody[]> {
  return (await readJsonLines(path)).map((row, i) => {
    if (
      !isRecord(row) ||
      [row.messages, row.prompt, row.input].every((prompt) => prompt === undefined)
    )
      throw new PayloadError(
        `${path}, body ${i + 1}: neither 'messages' nor 'prompt' nor 'input'`,
        'for example {"messages": [{"role": "user", "content": "..."}], "max_tokens": 128}',
      )
    if (Number(row.n ?? 1) > 1)
      throw new PayloadError(
        `${path}, body ${i + 1}: requests ${row.n} answers at once (n), but token times belong to a single stream`,
        'leave n out, and repeat the line instead',
      )
    return buildStreamRequest({ model, ...row }, call)
  })
}
