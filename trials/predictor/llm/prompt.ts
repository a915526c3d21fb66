/** Completion requests, and prompts as input of the simulator, with their shared prefixes. */
import { isRecord } from '../../../profiler/plain-record.ts'
import { RequestError } from '../protocol/tensors.ts'
import { blockTokens } from './scheduler.ts'

export interface CompletionRequest {
  readonly text: string
  readonly maxTokens: number
  readonly ignoreEos: boolean
  readonly stream: boolean
  readonly includeUsage: boolean
}

/** Tokens of an answer if the request sets no maximum. Assumed. */
const defaultMaxTokens = 128

/**
 * Reads a chat or completions request.
 * @throws RequestError 400
 */
export function readCompletion(body: Record<string, unknown>, chat: boolean): CompletionRequest {
  const text = chat ? formatChat(body.messages) : body.prompt
  if (typeof text !== 'string' || text.trim() === '')
    throw new RequestError(
      400,
      chat ? "'messages' must be a list of {role, content} with text" : "'prompt' must be a text",
    )
  const maxTokens = body.max_completion_tokens ?? body.max_tokens ?? defaultMaxTokens
  if (typeof maxTokens !== 'number' || !Number.isInteger(maxTokens) || maxTokens < 1)
    throw new RequestError(400, "'max_tokens' must be a whole number of at least 1")
  if (body.n !== undefined && body.n !== 1)
    throw new RequestError(400, "'n' other than 1 is not supported")
  const options = isRecord(body.stream_options) ? body.stream_options : {}
  const [stream, ignoreEos, includeUsage] = [
    body.stream === true,
    body.ignore_eos === true,
    options.include_usage === true,
  ]
  return { text, maxTokens, ignoreEos, stream, includeUsage }
}

/** @throws RequestError 400 if prompt and answer are longer than the model takes */
export function checkLength(promptTokens: number, maxTokens: number, maxModelLength: number): void {
  if (promptTokens + maxTokens > maxModelLength)
    throw new RequestError(
      400,
      `This model's maximum context length is ${maxModelLength} tokens. However, you requested ${promptTokens + maxTokens} tokens ` +
        `(${promptTokens} in the messages, ${maxTokens} in the completion).`,
    )
}

function formatChat(messages: unknown): string | undefined {
  if (!Array.isArray(messages) || messages.length === 0) return undefined
  const contents = messages.map((message: unknown) =>
    isRecord(message) ? message.content : undefined,
  )
  return contents.every((content) => typeof content === 'string') ? contents.join('\n') : undefined
}

/** Computes a hash for each whole block of words, over all words up to its end (FNV-1a). */
export function computePrefixHashes(words: readonly string[]): number[] {
  const hashes: number[] = []
  let hash = 0x811c9dc5
  for (const [i, word] of words.entries()) {
    for (let at = 0; at < word.length; at++)
      hash = Math.imul(hash ^ word.charCodeAt(at), 0x01000193)
    hash = Math.imul(hash ^ 32, 0x01000193)
    if ((i + 1) % blockTokens === 0) hashes.push(hash >>> 0)
  }
  return hashes
}
