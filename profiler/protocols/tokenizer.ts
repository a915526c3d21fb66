/**
 * Tokenizers of language models from Hugging Face's `tokenizer.json`: byte-level BPE,
 * SentencePiece, WordPiece.
 */
import { createRequire } from 'node:module'
import { join } from 'node:path'
import type { Tokenizer } from '@huggingface/tokenizers'
import { readText } from '../bounded-reader.ts'
import { isRecord } from '../plain-record.ts'
import { PayloadError } from '../profiler-errors.ts'

/** Counts the tokens of a text, without those that a server adds before and after it. */
export type CountTokens = (text: string) => number

/**
 * Words, punctuation, ideographs and numbers of up to three digits, each about one token of a
 * modern tokenizer.
 */
export const splitWords = (text: string): string[] =>
  text.match(/\p{Ideographic}|(?:(?!\p{Ideographic})\p{L})+|\p{N}{1,3}|[^\s\p{L}\p{N}]/gu) ?? []

/**
 * Creates a counter of tokens.
 * @param tokenizer as for `loadTokenCounter`; absent: a token is a word or punctuation mark
 */
export const createTokenCounter = (tokenizer: string | undefined): CountTokens =>
  tokenizer === undefined ? (text) => splitWords(text).length : loadTokenCounter(tokenizer)

const hint = 'use the tokenizer.json of the model from Hugging Face'
/** Characters of a failing text that an error shows. */
const shownCharacters = 40
const counters = new Map<string, CountTokens>()

/**
 * Creates a counter of the tokens of a tokenizer; memoised by path.
 * @param path path of a `tokenizer.json`, or of its folder
 * @throws PayloadError for an invalid file
 */
export function loadTokenCounter(path: string): CountTokens {
  const existing = counters.get(path)
  if (existing !== undefined) return existing
  const file = path.endsWith('.json') ? path : join(path, 'tokenizer.json')
  const tokenizer = loadTokenizer(file)
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
  counters.set(path, count)
  return count
}

function loadTokenizer(file: string): Tokenizer {
  try {
    const document: unknown = JSON.parse(readText(file, 'data'))
    if (!isRecord(document) || !isRecord(document.model)) throw new Error("it has no 'model'")
    const { Tokenizer: TokenizerClass } = createRequire(import.meta.url)(
      '@huggingface/tokenizers',
    ) as typeof import('@huggingface/tokenizers')
    const tokenizer = new TokenizerClass(document, {})
    tokenizer.encode('a try')
    return tokenizer
  } catch (error) {
    throw new PayloadError(`${file} is no tokenizer: ${(error as Error).message}`, hint)
  }
}
