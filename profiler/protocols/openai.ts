import { TokenStream } from '../generator/token-stream.ts'
import type { PayloadSource } from '../payload-source.ts'
import { isRecord, textsAt } from '../plain-record.ts'
import { PayloadError, ProtocolError } from '../profiler-errors.ts'
import { hrefOf, pathBelow } from '../server-address.ts'
import type { Protocol, RequestBody, Target } from '../types.ts'
import { promptsWithin } from './fitted-prompts.ts'
import { answersOk, firstAnswer, getJson, postOnce } from './http.ts'
import { parseUrl } from './http-protocol.ts'
import { jsonLines } from './payload-pool.ts'
import type { Prompt } from './prompts.ts'
import type { ProtocolModule, ProtocolOptions } from './protocol-module.ts'
import { excerpt } from './refusals.ts'

const chatPath = '/v1/chat/completions'
const modelsPath = '/v1/models'

/** The OpenAI protocol with streaming (vLLM, TGI, SGLang, TensorRT-LLM, Ollama, ...): chat, or completions where the path says so. */
export const openai: ProtocolModule = {
  create,
  callPath: () => chatPath,
  signs: [{ path: () => modelsPath, shows: ({ json }) => isRecord(json) && json.object === 'list' }],
  modelLists: [{ method: 'GET', path: modelsPath, names: (answer) => textsAt('id', isRecord(answer) ? answer.data : undefined) }],
}

function create(options: Parameters<ProtocolModule['create']>[0]): Protocol {
  const ownPath = options.path ?? chatPath
  const chat = ownPath.includes('chat')
  return {
    name: 'openai',
    async ready(url, _model, signal) {
      const address = parseUrl('openai', url)
      const paths = options.healthPath === undefined ? ['/health', modelsPath] : [options.healthPath]
      for (const each of paths)
        if (await answersOk('openai', hrefOf(address, pathBelow(address, ownPath, each)), options, signal)) return true
      return false
    },
    answers: {
      tensors: false,
      ask: async (target, body, signal) => Buffer.from(await postOnce('openai', target, target.bodies[body]!, signal)),
      read: async (answer) => {
        const stream = new TokenStream()
        stream.push(Buffer.from(answer), 0)
        if (stream.fault !== undefined) throw new Error(faults[stream.fault] ?? stream.fault)
        return { document: { text: stream.text, model: modelOf(Buffer.from(answer).toString()) }, result: stream.text, generated: true }
      },
      of: async (document) => ({ document, result: isRecord(document) ? document.text : document, generated: true }),
    },
    async prepare(url: string, model: string, payload: PayloadSource, signal: AbortSignal): Promise<Extract<Target, { kind: 'http' }>> {
      const address = parseUrl('openai', url)
      const path = pathBelow(address, ownPath, ownPath)
      const called = hrefOf(address, path)
      const place: Omit<Extract<Target, { kind: 'http' }>, 'bodies'> = {
        kind: 'http',
        transport: 'sse',
        url: address.origin,
        path,
        headers: options.headers ?? {},
        timeoutMs: options.timeoutMs,
        connections: options.connections,
        http2: options.http2,
        tls: options.tls,
        meaning: (asked, answer) => streamFault(asked, Buffer.from(answer).toString())?.what,
      }
      const ask = (body: RequestBody) => firstAnswer('openai', place, body, options.firstAnswerMs, signal)
      const requests = async () => {
        if (payload.kind !== 'generated') return { bodies: await fromFile(payload.path, model) }
        const of = { model, chat, ignoreEos: payload.prompts?.ignoreEos }
        const context = payload.asDrawn
          ? undefined
          : await contextTold(hrefOf(address, pathBelow(address, ownPath, modelsPath)), model, options, signal)
        const { prompts, remarks } = await promptsWithin(context, payload, async (prompt) => {
          const stream = new TokenStream()
          stream.push(Buffer.from(await ask(bodyOf(prompt, of))), 0)
          return stream.times?.inputTokens
        })
        return { bodies: prompts.map((prompt) => bodyOf(prompt, of)), ...(remarks.length > 0 && { remarks }) }
      }
      const target: Extract<Target, { kind: 'http' }> = { ...place, ...(await requests()) }
      const { bodies } = target
      const answer = await ask(bodies[0]!)
      const fault = streamFault(bodies[0]!, answer)
      if (fault !== undefined) throw new ProtocolError('openai', `${called} answered 200, but ${fault.what}`, fault.hint)
      return target
    },
  }
}

/** Tokens of prompt and answer together, where the server tells (vLLM, SGLang, the built-in one): `max_model_len` of its list of models. */
async function contextTold(url: string, model: string, asking: ProtocolOptions, signal: AbortSignal): Promise<number | undefined> {
  const list = await getJson('openai', url, asking, signal).catch(() => undefined)
  signal.throwIfAborted()
  const models = isRecord(list) && Array.isArray(list.data) ? list.data.filter(isRecord) : []
  const own = models.find(({ id }) => id === model) ?? (models.length === 1 ? models[0] : undefined)
  const told = own?.max_model_len
  return Number.isSafeInteger(told) && (told as number) > 0 ? (told as number) : undefined
}

const modelOf = (answer: string): string | undefined => /^data:.*?"model"\s*:\s*"([^"\\]+)"/m.exec(answer)?.[1]

/** What is wrong with a stream as the answer to a body. */
function streamFault({ body }: RequestBody, answer: string): { readonly what: string; readonly hint?: string } | undefined {
  const stream = new TokenStream()
  stream.push(Buffer.from(answer), 0)
  if (stream.fault !== undefined) return { what: `${faults[stream.fault] ?? stream.fault}: ${excerpt(answer)}` }
  const asked = JSON.parse(String(body)) as { readonly model: string; readonly max_tokens?: unknown; readonly n?: unknown }
  const other = otherModel(answer, asked.model)
  if (other !== undefined) return { what: `from the model '${other}', not '${asked.model}'`, hint: `is --model ${other} meant?` }
  const { tokens } = stream.times!
  const most = typeof asked.max_tokens === 'number' && (asked.n ?? 1) === 1 ? asked.max_tokens : Number.POSITIVE_INFINITY
  const bytes = Buffer.byteLength(stream.text)
  if (tokens > most && tokens > bytes + unseen)
    return { what: `its usage counts ${tokens} tokens in a text of ${bytes} bytes, and ${most} were asked for at most` }
  return tokens === 0 ? { what: 'its usage counts no tokens, and its stream has some' } : undefined
}

/** Servers may count the tokens that begin and end a text. */
const unseen = 2

/** The model that the stream names, where it is another one: servers may add a folder or a tag to the name they were asked for. */
function otherModel(answer: string, asked: string): string | undefined {
  const said = modelOf(answer)
  if (said === undefined) return undefined
  const [a, b] = [said.toLowerCase(), asked.toLowerCase()]
  return a.includes(b) || b.includes(a) ? undefined : said
}

const faults: Readonly<Record<string, string>> = {
  'bad answer': 'not with a stream of chunks',
  'cut stream': 'its stream ends without [DONE] or a finish_reason',
  'no token': 'its stream has no token',
  'error in stream': 'with an error in its stream',
}

function bodyOf(
  { text, said, inputTokens, outputTokens, requestClass }: Prompt,
  { model, chat, ignoreEos = true }: Completions,
): RequestBody {
  const asked = streamed({
    model,
    ...(chat ? { messages: said.map((content, i) => ({ role: i % 2 === 0 ? 'user' : 'assistant', content })) } : { prompt: text }),
    max_tokens: outputTokens,
    temperature: 0,
    // vLLM, SGLang and TensorRT-LLM: the drawn length, whatever the model would rather say. Others skip what they do not know.
    ...(ignoreEos && { ignore_eos: true }),
  })
  return { ...asked, inputTokens, ...(requestClass && { requestClass }) }
}

/** What all requests have in common. */
interface Completions {
  readonly model: string
  readonly chat: boolean
  readonly ignoreEos?: boolean
}

const streamed = (body: Record<string, unknown>): RequestBody => ({
  contentType: 'application/json',
  body: Buffer.from(JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } })),
})

/** One request body a line; the model's name is filled in where it is missing, and every request streams. */
async function fromFile(path: string, model: string): Promise<RequestBody[]> {
  return (await jsonLines(path)).map((row, i) => {
    if (!isRecord(row) || (row.messages === undefined && row.prompt === undefined))
      throw new PayloadError(
        `${path}, body ${i + 1}: neither 'messages' nor 'prompt'`,
        'for example {"messages": [{"role": "user", "content": "..."}], "max_tokens": 128}',
      )
    return streamed({ model, ...row })
  })
}
