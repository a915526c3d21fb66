/** The OpenAI protocol over the simulated language model: chat and completions, streamed or whole. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { parseJson, RequestError } from '../protocol/tensors.ts'
import { requestDeadline } from '../request-deadline.ts'
import type { LlmEngine } from './llm-engine.ts'
import { type CompletionRequest, prefixHashes, readCompletion } from './prompt.ts'
import type { Sequence } from './scheduler.ts'

interface LlmServerOptions {
  readonly model: string
  /** 'emulated L4 × 2'. */
  readonly device: string
  readonly maxModelLength: number
  readonly maxBodyBytes: number
  readonly requestTimeoutS: number
  readonly prefixCaching: boolean
  /** Prometheus text. */
  readonly metrics: () => Promise<string>
  readonly onAnswer: (status: number) => void
}

interface LlmServer {
  readonly server: Server
  /** From now on new requests get 503. */
  drain(): void
}

const vocabulary = ['the', 'server', 'answers', 'with', 'words', 'that', 'nobody', 'computed', 'for', 'they', 'are', 'emulated']

export function createLlmServer(engine: LlmEngine, options: LlmServerOptions): LlmServer {
  let draining = false
  let answers = 0
  const server = createServer(requestDeadline(options.requestTimeoutS), (request, response) => {
    handle(request, response).catch((error: unknown) => {
      const status = error instanceof RequestError ? error.status : 500
      const message = error instanceof Error ? error.message : String(error)
      options.onAnswer(status)
      if (response.headersSent) response.destroy()
      else sendJson(response, status, { error: { message, type: status < 500 ? 'invalid_request_error' : 'server_error', code: status } })
    })
  })

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const route = `${request.method} ${request.url?.split('?')[0]}`
    switch (route) {
      case 'GET /health':
        return sendJson(response, draining ? 503 : 200, {})
      case 'GET /v1/models':
        return sendJson(response, 200, {
          object: 'list',
          data: [{ id: options.model, object: 'model', owned_by: 'tune', max_model_len: options.maxModelLength, provenance: 'emulated' }],
        })
      case 'GET /metrics':
        response.setHeader('content-type', 'text/plain; version=0.0.4')
        response.end(await options.metrics())
        return
      case 'POST /v1/chat/completions':
      case 'POST /v1/completions':
        return complete(route.includes('chat'), await bodyOf(request, options.maxBodyBytes), response)
      default:
        throw new RequestError(404, `no route ${route}; this predictor speaks the OpenAI protocol: /v1/chat/completions, /v1/completions`)
    }
  }

  function complete(chat: boolean, text: string, response: ServerResponse): void {
    if (draining) throw new RequestError(503, 'the predictor is stopping')
    const body = parseJson(text)
    if (body.model !== undefined && body.model !== options.model)
      throw new RequestError(404, `The model '${String(body.model)}' does not exist; this predictor serves '${options.model}'`)
    const request = readCompletion(body, chat, options.maxModelLength)
    const answer = new Answer(request, chat, `${chat ? 'chatcmpl' : 'cmpl'}-${++answers}`, options, response)
    const sequence: Sequence = {
      promptTokens: request.words.length,
      outputTokens: request.maxTokens,
      prefix: options.prefixCaching ? prefixHashes(request.words) : [],
      token: (index, last) => {
        answer.token(index, last)
        if (last) options.onAnswer(200)
      },
    }
    if (!engine.add(sequence)) throw new RequestError(429, 'too many requests wait')
    // A client that leaves frees its place.
    response.once('close', () => engine.remove(sequence))
  }
  return {
    server,
    drain: () => {
      draining = true
    },
  }
}

/** One completion on its way out. */
class Answer {
  readonly #words: string[] = []

  constructor(
    private readonly request: CompletionRequest,
    private readonly chat: boolean,
    private readonly id: string,
    private readonly options: LlmServerOptions,
    private readonly response: ServerResponse,
  ) {
    response.setHeader('x-provenance', 'emulated')
    if (request.stream) response.setHeader('content-type', 'text/event-stream')
  }

  token(index: number, last: boolean): void {
    const word = `${index === 0 ? '' : ' '}${vocabulary[index % vocabulary.length]}`
    if (!this.request.stream) {
      this.#words.push(word)
      if (last) sendJson(this.response, 200, this.whole())
      return
    }
    this.event([this.choice(index === 0 && this.chat ? { role: 'assistant', content: word } : { content: word }, last ? 'length' : null)])
    if (!last) return
    if (this.request.includeUsage) this.event([], this.usage())
    this.response.end('data: [DONE]\n\n')
  }

  private event(choices: readonly object[], usage?: object): void {
    const chunk = { ...this.head(this.chat ? 'chat.completion.chunk' : 'text_completion'), choices, ...(usage && { usage }) }
    this.response.write(`data: ${JSON.stringify(chunk)}\n\n`)
  }

  private choice(delta: { readonly role?: string; readonly content: string }, finish: string | null) {
    return { index: 0, ...(this.chat ? { delta } : { text: delta.content }), finish_reason: finish }
  }

  private whole() {
    const text = this.#words.join('')
    const content = this.chat ? { message: { role: 'assistant', content: text } } : { text }
    const choices = [{ index: 0, ...content, finish_reason: 'length' }]
    return { ...this.head(this.chat ? 'chat.completion' : 'text_completion'), choices, usage: this.usage() }
  }

  private head(object: string) {
    return {
      id: this.id,
      object,
      created: Math.floor(Date.now() / 1000),
      model: this.options.model,
      system_fingerprint: this.options.device,
    }
  }

  private usage() {
    const [prompt, completion] = [this.request.words.length, this.request.maxTokens]
    return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion }
  }
}

function sendJson(response: ServerResponse, status: number, value: object): void {
  response.statusCode = status
  response.setHeader('content-type', 'application/json')
  response.end(JSON.stringify(value))
}

async function bodyOf(request: IncomingMessage, maxBytes: number): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > maxBytes) throw new RequestError(413, `the body is larger than ${maxBytes} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}
