/**
 * Converts the requests of a language-model experiment for its simulation: the same requests that a
 * real server would receive.
 */
import { readText } from '../../profiler/bounded-reader.ts'
import type { PayloadSource } from '../../profiler/payload-source.ts'
import { defaultPrompts, makePrompts } from '../../profiler/protocols/prompts.ts'
import { splitWords } from '../../profiler/protocols/tokenizer.ts'
import type { LlmRequest } from '../../trials/launchers/simulated/llm-configuration.ts'
import { computePrefixHashes, readCompletion } from '../../trials/predictor/llm/prompt.ts'
import { UserError } from '../exit-codes.ts'

/** @throws UserError for an unusable file */
export function createLlmRequests(payload: PayloadSource): LlmRequest[] {
  return keepSharedPrefixes(
    payload.kind === 'generated' ? generateRequests(payload) : readRequests(payload.path),
  )
}

interface CompletionRequest {
  readonly words: readonly string[]
  readonly maxTokens: number
  /** Counted by a tokenizer; absent: a token is a word or a punctuation mark. */
  readonly promptTokens?: number
  readonly requestClass?: string
}

const generateRequests = ({
  prompts = defaultPrompts,
  seed,
  count,
}: Extract<PayloadSource, { kind: 'generated' }>): CompletionRequest[] =>
  makePrompts(prompts, seed, count).map(({ text, inputTokens, outputTokens, requestClass }) => ({
    words: splitWords(text),
    maxTokens: outputTokens,
    promptTokens: inputTokens,
    ...(requestClass && { requestClass }),
  }))

function readRequests(path: string): CompletionRequest[] {
  const lines = readText(path, 'data').split('\n')
  return lines.flatMap((line, i): CompletionRequest[] => {
    if (line.trim() === '') return []
    try {
      const body = JSON.parse(line) as Record<string, unknown>
      const { text, maxTokens } = readCompletion(body, body.messages !== undefined)
      return [{ words: splitWords(text), maxTokens }]
    } catch (error) {
      throw new UserError(
        `${path}:${i + 1}: ${(error as Error).message}`,
        'write one JSON body with messages or prompt per line',
      )
    }
  })
}

/**
 * Keeps the prefix hashes that two prompts share. All other text counts as new, so that no prefix
 * cache contains it.
 */
function keepSharedPrefixes(completionRequests: readonly CompletionRequest[]): LlmRequest[] {
  const requests = completionRequests.map(
    ({ words, maxTokens, promptTokens = words.length, requestClass }) => ({
      promptTokens,
      outputTokens: maxTokens,
      hashes: computePrefixHashes(words),
      ...(requestClass && { requestClass }),
    }),
  )
  const uses = new Map<number, number>()
  for (const { hashes } of requests)
    for (const hash of hashes) uses.set(hash, (uses.get(hash) ?? 0) + 1)
  return requests.map(({ hashes, ...lengths }) => ({
    ...lengths,
    prefix: hashes.filter((hash) => uses.get(hash)! > 1),
  }))
}
