/**
 * The OpenAI protocol: streamed completions of language models, whose tokens are timed one by one
 * (load/token-stream.ts).
 */
import { TokenStream } from '../load/token-stream.ts'
import type { RequestBody, Target } from '../model/target.ts'
import type { PayloadSource } from '../payload-source.ts'
import { isRecord, textsAt } from '../plain-record.ts'
import { PayloadError, ProtocolError } from '../profiler-errors.ts'
import { hrefOf, pathBelow } from '../server-address.ts'
import { promptsWithin } from './fitted-prompts.ts'
import { answersOk, firstAnswer, getJson, postOnce, readinessAt } from './http.ts'
import { parseUrl } from './http-protocol.ts'
import { jsonLines } from './payload-pool.ts'
import type { Prompt } from './prompts.ts'
import type { Protocol } from './protocol.ts'
import type { ProtocolModule, ProtocolOptions } from './protocol-module.ts'
import { excerpt, extractMessage, refusal } from './refusals.ts'

const chatPath = '/v1/chat/completions'
const modelsPath = '/v1/models'

/**
 * The OpenAI protocol with streaming (vLLM, TGI, SGLang, TensorRT-LLM, Ollama, ...): chat, or
 * completions or responses where the path says so.
 */
export const openai: ProtocolModule = {
  create,
  callPath: () => chatPath,
  signs: [
    { path: () => modelsPath, shows: ({ json }) => isRecord(json) && json.object === 'list' },
  ],
  modelLists: [
    {
      method: 'GET',
      path: modelsPath,
      names: (answer) => textsAt('id', isRecord(answer) ? answer.data : undefined),
    },
  ],
}

function create(options: Parameters<ProtocolModule['create']>[0]): Protocol {
  const ownPath = options.path ?? chatPath
  const call = resolveCall(ownPath)
  return {
    name: 'openai',
    async ready(url, _model, signal, onReason) {
      const address = parseUrl('openai', url)
      const at = (path: string) => hrefOf(address, pathBelow(address, ownPath, path))
      const { healthPath = '/health' } = options
      const { ok, loading } = await readinessAt('openai', at(healthPath), options, signal, onReason)
      // A server that reports that it is not ready has the path: llama.cpp and SGLang list their
      // models while they load.
      if (ok || loading || options.healthPath !== undefined) return ok
      return answersOk('openai', at(modelsPath), options, signal, onReason)
    },
    answers: {
      tensors: false,
      ask: async (target, body, signal) =>
        Buffer.from(await postOnce('openai', target, target.bodies[body]!, signal)),
      read: async (answer) => {
        const stream = new TokenStream()
        stream.push(Buffer.from(answer), 0)
        if (stream.fault !== undefined) throw new Error(faults[stream.fault] ?? stream.fault)
        return {
          document: { text: stream.text, model: extractModel(Buffer.from(answer).toString()) },
          result: stream.text,
          generated: true,
        }
      },
      of: async (document) => ({
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
    ): Promise<Extract<Target, { kind: 'http' }>> {
      const elsewhere = otherCalls.find(({ path }) => path.test(ownPath))
      if (elsewhere !== undefined)
        throw new ProtocolError('openai', `${ownPath} ${elsewhere.what}`, elsewhere.hint)
      const address = parseUrl('openai', url)
      const at = (serverPath: string) => hrefOf(address, pathBelow(address, ownPath, serverPath))
      const path = pathBelow(address, ownPath, ownPath)
      const called = hrefOf(address, path)
      // Name in the answers of a server that lists the requested model under another one.
      let alias: string | undefined
      const endpoint: Omit<Extract<Target, { kind: 'http' }>, 'bodies'> = {
        kind: 'http',
        transport: 'sse',
        url: address.origin,
        path,
        headers: options.headers ?? {},
        timeoutMs: options.timeoutMs,
        connections: options.connections,
        http2: options.http2,
        tls: options.tls,
        meaning: (body, answer) => streamFault(body, Buffer.from(answer).toString(), alias)?.what,
      }
      const ask = async (body: RequestBody) =>
        (await firstAnswer('openai', endpoint, body, options.firstAnswerMs, signal)).text
      const buildRequests = async () => {
        if (payload.kind !== 'generated')
          return { bodies: await fromFile(payload.path, model, call) }
        const completions = { model, call, ignoreEos: payload.prompts?.ignoreEos }
        const context = payload.asDrawn ? undefined : await fetchContext(at, model, options, signal)
        const { prompts, remarks } = await promptsWithin(context, payload, async (prompt) => {
          const stream = new TokenStream()
          stream.push(Buffer.from(await ask(buildBody(prompt, completions))), 0)
          return stream.times?.inputTokens
        })
        return {
          bodies: prompts.map((prompt) => buildBody(prompt, completions)),
          ...(remarks.length > 0 && { remarks }),
        }
      }
      const target: Extract<Target, { kind: 'http' }> = { ...endpoint, ...(await buildRequests()) }
      const { bodies } = target
      const answer = await ask(bodies[0]!)
      const requested = parseRequestBody(bodies[0]!).model
      const other = otherModel(answer, requested)
      if (
        other !== undefined &&
        (await fetchModels(at, options, signal)).some(({ id }) => id === requested)
      )
        alias = other
      const fault = streamFault(bodies[0]!, answer, alias)
      if (fault !== undefined)
        throw new ProtocolError(
          'openai',
          `${called} answered 200, but ${fault.what}`,
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

/** Other calls of these servers, whose answers are no streams. */
const otherCalls = [
  {
    path: /\/(embeddings|rerank|score|classify|pooling|moderations)$/,
    what: 'answers with no stream',
    hint: `it is plain JSON: --protocol json --body '{"model": "NAME", "input": "{{text}}"}', as that call has it`,
  },
] as const

type ModelListed = Readonly<Record<string, unknown>>

/** Fetches the models that the server lists; empty without a list. */
async function fetchModels(
  at: (path: string) => string,
  asking: ProtocolOptions,
  signal: AbortSignal,
): Promise<ModelListed[]> {
  const list = await fetchDocument(at(modelsPath), asking, signal)
  return isRecord(list) && Array.isArray(list.data) ? list.data.filter(isRecord) : []
}

/** Fetches a JSON document; undefined for anything else. */
async function fetchDocument(
  url: string,
  asking: ProtocolOptions,
  signal: AbortSignal,
): Promise<unknown> {
  const document = await getJson('openai', url, asking, signal).catch(() => undefined)
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
  at: (path: string) => string,
  model: string,
  asking: ProtocolOptions,
  signal: AbortSignal,
): Promise<number | undefined> {
  const models = await fetchModels(at, asking, signal)
  const own = models.find(({ id }) => id === model) ?? (models.length === 1 ? models[0] : undefined)
  const base = models.find(({ id }) => own?.parent !== undefined && id === own.parent)
  const listed = tokensIn(own?.max_model_len) ?? tokensIn(base?.max_model_len)
  if (listed !== undefined) return listed
  const info = await fetchDocument(at('/info'), asking, signal)
  const ofTgi = tokensIn(isRecord(info) ? info.max_total_tokens : undefined)
  if (ofTgi !== undefined) return ofTgi
  const props = await fetchDocument(at('/props'), asking, signal)
  const settings = isRecord(props) ? props.default_generation_settings : undefined
  return tokensIn(isRecord(settings) ? settings.n_ctx : undefined)
}

/** A reported number of tokens; undefined for another value. */
const tokensIn = (value: unknown): number | undefined =>
  Number.isSafeInteger(value) && (value as number) > 0 ? (value as number) : undefined

/** Name of the model in the first chunk of a stream that has one. */
const extractModel = (answer: string): string | undefined =>
  /^data:.*?"model"\s*:\s*"([^"\\]+)"/m.exec(answer)?.[1]

interface Fault {
  readonly what: string
  readonly hint?: string
  readonly why?: ProtocolError['why']
}

/** Converts an error within a stream to the status that it would have had. */
function serverFault(error: unknown): Fault {
  const text = isRecord(error) ? JSON.stringify({ error }) : String(error)
  const code = isRecord(error) ? Number(error.code ?? error.status) : Number.NaN
  const status =
    code >= 400 && code <= 599
      ? code
      : /\bmodel\b.*(not found|does not exist|unknown)|no such model/i.test(text)
        ? 404
        : 500
  const { hint, why } = refusal('openai', '', { status, text }, true)
  return { what: `with an error in its stream: ${excerpt(extractMessage(text))}`, hint, why }
}

/**
 * Describes what is wrong with a stream as the answer to a body.
 * @param alias the server's own name for the requested model
 */
function streamFault(body: RequestBody, answer: string, alias?: string): Fault | undefined {
  const stream = new TokenStream()
  stream.push(Buffer.from(answer), 0)
  if (stream.fault === 'error in stream') return serverFault(stream.error)
  if (stream.fault !== undefined)
    return { what: `${faults[stream.fault] ?? stream.fault}: ${excerpt(answer)}` }
  const request = parseRequestBody(body)
  const other = otherModel(answer, request.model, alias)
  if (other !== undefined)
    return {
      what: `from the model '${other}', not '${request.model}'`,
      hint: `is --model ${other} meant?`,
    }
  const { tokens } = stream.times!
  const limit = request.max_tokens ?? request.max_output_tokens
  const maxTokens = typeof limit === 'number' ? limit : Number.POSITIVE_INFINITY
  const bytes = Buffer.byteLength(stream.text)
  if (tokens > maxTokens && tokens > bytes + hiddenTokens)
    return {
      what: `its usage counts ${tokens} tokens in a text of ${bytes} bytes, and ${maxTokens} were asked for at most`,
    }
  return tokens === 0 ? { what: 'its usage counts no tokens, and its stream has some' } : undefined
}

interface CompletionRequest {
  readonly model: string
  readonly max_tokens?: unknown
  readonly max_output_tokens?: unknown
}
const parseRequestBody = ({ body }: RequestBody) => JSON.parse(String(body)) as CompletionRequest

/** Tokens without text that servers may count: those that begin and end a text. */
const hiddenTokens = 2

/**
 * Model named by the stream, where it is not the requested one. Servers may add a folder or a tag
 * to the requested name. Gateways answer with the name on the server behind them (`alias`). TGI
 * accepts the name `tgi` for any model.
 */
function otherModel(answer: string, requested: string, alias?: string): string | undefined {
  const named = extractModel(answer)
  if (named === undefined || named === alias || requested === 'tgi') return undefined
  const [a, b] = [named.toLowerCase(), requested.toLowerCase()]
  return a.includes(b) || b.includes(a) ? undefined : named
}

const faults: Readonly<Record<string, string>> = {
  'bad answer': 'not with a stream of chunks',
  'cut stream': 'its stream ends without [DONE], a finish_reason or response.completed',
  'no token': 'its stream has no token',
  'error in stream': 'with an error in its stream',
  aborted: 'it gave the answer up (its finish_reason)',
}

/**
 * Type of request; each has its own names for the prompt and the largest number of output tokens.
 */
type Call = 'chat' | 'completions' | 'responses'
const resolveCall = (path: string): Call =>
  path.endsWith('/responses') ? 'responses' : path.includes('chat') ? 'chat' : 'completions'

function buildBody(
  { text, said, inputTokens, outputTokens, requestClass }: Prompt,
  { model, call, ignoreEos = true }: Completions,
): RequestBody {
  const messages = said.map((content, i) => ({ role: i % 2 === 0 ? 'user' : 'assistant', content }))
  const prompts = {
    chat: { messages, max_tokens: outputTokens },
    completions: { prompt: text, max_tokens: outputTokens },
    // Responses are not stored, as nobody will request them again.
    responses: { input: messages, max_output_tokens: outputTokens, store: false },
  }
  const asked = streamed(
    {
      model,
      ...prompts[call],
      temperature: 0,
      // vLLM, SGLang and TensorRT-LLM: exactly the requested length. Others ignore unknown fields.
      ...(ignoreEos && { ignore_eos: true }),
    },
    call,
  )
  return { ...asked, inputTokens, ...(requestClass && { requestClass }) }
}

/** Options common to all requests. */
interface Completions {
  readonly model: string
  readonly call: Call
  readonly ignoreEos?: boolean
}

/** Responses report their usage unasked. */
function streamed(body: Record<string, unknown>, call: Call): RequestBody {
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
async function fromFile(path: string, model: string, call: Call): Promise<RequestBody[]> {
  return (await jsonLines(path)).map((row, i) => {
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
        `${path}, body ${i + 1}: asks for ${row.n} answers at once (n), and the time to a token is that of one stream`,
        'leave n out, and send the prompt as often as it is asked',
      )
    return streamed({ model, ...row }, call)
  })
}
