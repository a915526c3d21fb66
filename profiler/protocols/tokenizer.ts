/**
 * Tokenizers of language models, as Hugging Face's `tokenizer.json` has them: byte-level BPE,
 * SentencePiece's, WordPiece.
 */
import { createRequire } from 'node:module'
import { join } from 'node:path'
import type { Tokenizer } from '@huggingface/tokenizers'
import { readText } from '../bounded-reader.ts'
import { isRecord } from '../plain-record.ts'
import { PayloadError } from '../profiler-errors.ts'

/** Tokens of a text, without those that a server puts before and after it. */
export type CountTokens = (text: string) => number

/**
 * Words, signs, ideographs and numbers of up to three digits: what a tokenizer of today has about a
 * token for.
 */
export const wordsAndSigns = (text: string): string[] =>
  text.match(/\p{Ideographic}|(?:(?!\p{Ideographic})\p{L})+|\p{N}{1,3}|[^\s\p{L}\p{N}]/gu) ?? []

/** @param tokenizer as for `tokenCounter`; absent: a token is a word or a sign */
export const counterOf = (tokenizer: string | undefined): CountTokens =>
  tokenizer === undefined ? (text) => wordsAndSigns(text).length : tokenCounter(tokenizer)

const hint = 'the tokenizer.json that stands beside the weights of a model on Hugging Face'
/** Of a text that it fails on. */
const shownCharacters = 40
const known = new Map<string, CountTokens>()

/**
 * @param path of a `tokenizer.json`, or of the folder that holds it
 * @throws PayloadError for what is none
 */
export function tokenCounter(path: string): CountTokens {
  const before = known.get(path)
  if (before !== undefined) return before
  const file = path.endsWith('.json') ? path : join(path, 'tokenizer.json')
  const tokenizer = tokenizerOf(file)
  const count: CountTokens = (text) => {
    try {
      return tokenizer.encode(text, { add_special_tokens: false }).ids.length
    } catch (error) {
      const part = JSON.stringify(
        text.length > shownCharacters ? `${text.slice(0, shownCharacters)}...` : text,
      )
      throw new PayloadError(
        `${file} cannot encode ${part}: ${(error as Error).message}`,
        `is it damaged? ${hint}`,
      )
    }
  }
  known.set(path, count)
  return count
}

function tokenizerOf(file: string): Tokenizer {
  try {
    const document: unknown = JSON.parse(readText(file, 'data'))
    if (!isRecord(document) || !isRecord(document.model)) throw new Error("it has no 'model'")
    const { Tokenizer: Read } = createRequire(import.meta.url)(
      '@huggingface/tokenizers',
    ) as typeof import('@huggingface/tokenizers')
    const tokenizer = new Read(document, {})
    tokenizer.encode('a try')
    return tokenizer
  } catch (error) {
    throw new PayloadError(`${file} is no tokenizer: ${(error as Error).message}`, hint)
  }
}
