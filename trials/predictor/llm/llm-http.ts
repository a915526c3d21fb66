/** The OpenAI protocol over a language model: chat and completions, streamed or whole. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { parseJson, RequestError } from '../protocol/tensors.ts'
import { createRequestTimeouts } from '../request-timeouts.ts'
import type { CompletionEngine } from './completion-engine.ts'
import { type CompletionRequest, checkLength, readCompletion } from './prompt.ts'

interface LlmServerOptions {
  readonly model: string
  readonly maxBodyBytes: number
  readonly requestTimeoutS: number
  /** Prometheus text. */
  readonly metrics: () => Promise<string>
  readonly onAnswer: (status: number) => void
}

/**
 * Longer than any idle time in windows with few requests, as in the other predictors. Node's
 * default is 5 s.
 */
const keepAliveMs = 72_000

interface LlmServer {
  readonly server: Server
  /** From now on new requests get 503. */
  drain(): void
}

export function createLlmServer<Prompt extends { readonly length: number }>(
  engine: CompletionEngine<Prompt>,
  options: LlmServerOptions,
): LlmServer {
  const { maxModelLength, provenance } = engine
  let draining = false
  let answers = 0
  const server = createServer(
    { ...createRequestTimeouts(options.requestTimeoutS), keepAliveTimeout: keepAliveMs },
    (request, response) => {
      handle(request, response).catch((error: unknown) => {
        const status = error instanceof RequestError ? error.status : 500
        const message = error instanceof Error ? error.message : String(error)
        options.onAnswer(status)
        if (response.headersSent) response.destroy()
        else
          sendJson(response, status, {
            error: {
              message,
              type: status < 500 ? 'invalid_request_error' : 'server_error',
              code: status,
            },
          })
      })
    },
  )

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const route = `${request.method} ${request.url?.split('?')[0]}`
    switch (route) {
      case 'GET /health':
        return sendJson(response, draining ? 503 : 200, {})
      case 'GET /v1/models':
        return sendJson(response, 200, {
          object: 'list',
          data: [
            {
              id: options.model,
              object: 'model',
              owned_by: 'tune',
              max_model_len: maxModelLength,
              provenance,
            },
          ],
        })
      case 'GET /metrics':
        response.setHeader('content-type', 'text/plain; version=0.0.4')
        response.end(await options.metrics())
        return
      case 'POST /v1/chat/completions':
      case 'POST /v1/completions':
        return answerCompletion(
          route.includes('chat'),
          await readBody(request, options.maxBodyBytes),
          response,
        )
      default:
        throw new RequestError(
          404,
          `no route ${route}; this predictor speaks the OpenAI protocol: /v1/chat/completions, /v1/completions`,
        )
    }
  }

  function answerCompletion(chat: boolean, text: string, response: ServerResponse): void {
    if (draining) throw new RequestError(503, 'the predictor is stopping')
    const body = parseJson(text)
    if (body.model !== undefined && body.model !== options.model)
      throw new RequestError(
        404,
        `The model '${String(body.model)}' does not exist; this predictor serves '${options.model}'`,
      )
    const request = readCompletion(body, chat)
    const prompt = engine.read(request.text)
    const { maxTokens, ignoreEos } = request
    checkLength(prompt.length, maxTokens, maxModelLength)
    const id = `${chat ? 'chatcmpl' : 'cmpl'}-${++answers}`
    const answer = new Answer(
      { ...request, promptTokens: prompt.length },
      { id, chat, model: options.model, engine },
      response,
    )
    const forget = engine.add(prompt, {
      maxTokens,
      ignoreEos,
      token: (piece, end, tokens = 1) => {
        answer.writeToken(piece, end, tokens)
        if (end) options.onAnswer(200)
      },
      failed: (error) => {
        options.onAnswer(500)
        answer.writeError(error)
      },
    })
    if (!forget) throw new RequestError(429, 'too many requests are waiting')
    // A client that leaves frees its place.
    response.once('close', forget)
  }
  return {
    server,
    drain: () => {
      draining = true
    },
  }
}

interface TokenizedRequest extends CompletionRequest {
  readonly promptTokens: number
}

/** Common fields of all chunks of an answer. */
interface Head {
  readonly id: string
  readonly chat: boolean
  readonly model: string
  readonly engine: Pick<CompletionEngine<never>, 'provenance' | 'device'>
}

/** One completion on its way out. */
class Answer {
  readonly #pieces: string[] = []
  #tokens = 0

  constructor(
    private readonly request: TokenizedRequest,
    private readonly fields: Head,
    private readonly response: ServerResponse,
  ) {
    response.setHeader('x-provenance', fields.engine.provenance)
    if (request.stream) response.setHeader('content-type', 'text/event-stream')
  }

  writeToken(piece: string, end: 'length' | 'stop' | undefined, tokens: number): void {
    const first = this.#tokens === 0
    this.#tokens += tokens
    if (!this.request.stream) {
      this.#pieces.push(piece)
      if (end) sendJson(this.response, 200, this.createWholeAnswer(end))
      return
    }
    this.writeEvent([
      this.createChoice(
        first && this.fields.chat ? { role: 'assistant', content: piece } : { content: piece },
        end ?? null,
      ),
    ])
    if (!end) return
    if (this.request.includeUsage) this.writeEvent([], this.createUsage())
    this.response.end('data: [DONE]\n\n')
  }

  writeError({ message }: Error): void {
    const error = { error: { message, type: 'server_error', code: 500 } }
    if (this.response.headersSent) this.response.end(`data: ${JSON.stringify(error)}\n\n`)
    else sendJson(this.response, 500, error)
  }

  private writeEvent(choices: readonly object[], usage?: object): void {
    const chunk = {
      ...this.createHead(this.fields.chat ? 'chat.completion.chunk' : 'text_completion'),
      choices,
      ...(usage && { usage }),
    }
    this.response.write(`data: ${JSON.stringify(chunk)}\n\n`)
  }

  private createChoice(
    delta: { readonly role?: string; readonly content: string },
    finish: string | null,
  ) {
    return {
      index: 0,
      ...(this.fields.chat ? { delta } : { text: delta.content }),
      finish_reason: finish,
    }
  }

  private createWholeAnswer(finish: 'length' | 'stop') {
    const text = this.#pieces.join('')
    const content = this.fields.chat ? { message: { role: 'assistant', content: text } } : { text }
    const choices = [{ index: 0, ...content, finish_reason: finish }]
    return {
      ...this.createHead(this.fields.chat ? 'chat.completion' : 'text_completion'),
      choices,
      usage: this.createUsage(),
    }
  }

  private createHead(object: string) {
    const { id, model, engine } = this.fields
    return {
      id,
      object,
      created: Math.floor(Date.now() / 1000),
      model,
      system_fingerprint: engine.device,
    }
  }

  private createUsage() {
    const [prompt, completion] = [this.request.promptTokens, this.#tokens]
    return {
      prompt_tokens: prompt,
      completion_tokens: completion,
      total_tokens: prompt + completion,
    }
  }
}

function sendJson(response: ServerResponse, status: number, value: object): void {
  response.statusCode = status
  response.setHeader('content-type', 'application/json')
  response.end(JSON.stringify(value))
}

async function readBody(request: IncomingMessage, maxBytes: number): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > maxBytes) throw new RequestError(413, `the body is larger than ${maxBytes} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}
