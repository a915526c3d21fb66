/**
 * The requests of an experiment on a language model as its simulation takes them: those that a real
 * server would be sent.
 */
import { readText } from '../../profiler/bounded-reader.ts'
import type { PayloadSource } from '../../profiler/payload-source.ts'
import { defaultPrompts, makePrompts } from '../../profiler/protocols/prompts.ts'
import { splitWords } from '../../profiler/protocols/tokenizer.ts'
import type { LlmRequest } from '../../trials/launchers/simulated/llm-configuration.ts'
import { computePrefixHashes, readCompletion } from '../../trials/predictor/llm/prompt.ts'
import { UserError } from '../exit-codes.ts'

/** @throws UserError for a file that cannot be used */
export function llmRequests(payload: PayloadSource): LlmRequest[] {
  return withoutRepeats(payload.kind === 'generated' ? generated(payload) : fromFile(payload.path))
}

interface Asked {
  readonly words: readonly string[]
  readonly maxTokens: number
  /** By a tokenizer; absent: a token is a word or a sign. */
  readonly promptTokens?: number
  readonly requestClass?: string
}

const generated = ({
  prompts = defaultPrompts,
  seed,
  count,
}: Extract<PayloadSource, { kind: 'generated' }>): Asked[] =>
  makePrompts(prompts, seed, count).map(({ text, inputTokens, outputTokens, requestClass }) => ({
    words: splitWords(text),
    maxTokens: outputTokens,
    promptTokens: inputTokens,
    ...(requestClass && { requestClass }),
  }))

function fromFile(path: string): Asked[] {
  const lines = readText(path, 'data').split('\n')
  return lines.flatMap((line, i): Asked[] => {
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
 * Beginnings that two prompts have in common are kept; the rest of each stands for ever new text,
 * which no cache knows.
 */
function withoutRepeats(asked: readonly Asked[]): LlmRequest[] {
  const all = asked.map(({ words, maxTokens, promptTokens = words.length, requestClass }) => ({
    promptTokens,
    outputTokens: maxTokens,
    hashes: computePrefixHashes(words),
    ...(requestClass && { requestClass }),
  }))
  const uses = new Map<number, number>()
  for (const { hashes } of all) for (const hash of hashes) uses.set(hash, (uses.get(hash) ?? 0) + 1)
  return all.map(({ hashes, ...lengths }) => ({
    ...lengths,
    prefix: hashes.filter((hash) => uses.get(hash)! > 1),
  }))
}
