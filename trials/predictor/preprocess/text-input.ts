/**
 * The tokeniser of uncased BERT models (Devlin et al. 2018; google-research/bert, tokenization.py):
 * basic tokens by white space, punctuation and CJK characters, lower case without accents; then
 * each split greedily into the longest pieces of the vocabulary.
 *
 * `@huggingface/tokenizers` returns the same ids in three to five times the time (428 instead of 87
 * µs for 100 words), which would add to every measured latency.
 */
import type { EncodedText, Tokenizer } from '../preprocess.ts'
import {
  createSyntheticPieces,
  createVocabulary,
  readVocabulary,
  type Vocabulary,
} from './vocabulary.ts'

/** Longer words are unknown, as in tokenization.py. */
const maxWordLength = 200

/** Control and format characters, which are dropped, save the ones that count as white space. */
const controls = /(?![\t\n\r])[\p{Cc}\p{Cf}\ufffd]/gu
const accents = /\p{Mn}/gu
/** The blocks that tokenization.py counts as CJK: ideographs, but neither kana nor hangul. */
const ideograph =
  '\\u4e00-\\u9fff\\u3400-\\u4dbf\\u{20000}-\\u{2a6df}\\u{2a700}-\\u{2b73f}\\u{2b740}-\\u{2b81f}\\u{2b820}-\\u{2ceaf}\\uf900-\\ufaff\\u{2f800}-\\u{2fa1f}'
/** Unicode punctuation, and every printable ASCII character that is neither letter nor digit. */
const punctuation = '\\p{P}$+<=>^`|~'
const basicToken = new RegExp(
  `[${punctuation}${ideograph}]|[^\\s${punctuation}${ideograph}]+`,
  'gu',
)
const plainToken = /[a-z0-9]+|[!-/:-@[-`{-~]/g
const isPlain = /^[\t\n\r -~]*$/

/**
 * Creates a WordPiece tokeniser.
 * @param vocabularyPath a BERT model's vocab.txt; without it a synthetic vocabulary of 30,522
 * pieces, for models with seeded weights
 */
export function createTokenizer(vocabularyPath?: string): Tokenizer {
  const vocabulary =
    vocabularyPath === undefined
      ? createVocabulary(createSyntheticPieces())
      : readVocabulary(vocabularyPath)
  return { encode: (text, length) => encode(text, length, vocabulary) }
}

/** [CLS] pieces [SEP], cut and padded with zeros to `length` (at least 2). */
export function encode(text: string, length: number, vocabulary: Vocabulary): EncodedText {
  const inputIds = new Int32Array(length)
  inputIds[0] = vocabulary.start
  const room = length - 1
  let used = 1
  for (const token of splitBasicTokens(text)) {
    if (used === room) break
    used = appendPieces(token, inputIds, used, room, vocabulary)
  }
  inputIds[used] = vocabulary.end
  return { inputIds, attentionMask: new Int32Array(length).fill(1, 0, used + 1) }
}

/**
 * Words, punctuation marks and ideographs in order, lower case, without accents. Lazy: a text is
 * read no further than needed.
 */
export function* splitBasicTokens(text: string): Generator<string> {
  const plain = isPlain.test(text)
  const cleaned = plain
    ? text.toLowerCase()
    : text.replace(controls, '').toLowerCase().normalize('NFD').replace(accents, '')
  for (const [token] of cleaned.matchAll(plain ? plainToken : basicToken)) yield token
}

/**
 * Writes the ids of a token's pieces from `at` on, no further than `room`; the id of [UNK] when it
 * cannot be put together.
 * @returns the new end
 */
function appendPieces(
  token: string,
  ids: Int32Array,
  at: number,
  room: number,
  vocabulary: Vocabulary,
): number {
  const wholeId = vocabulary.wordStarts.get(token)
  if (wholeId !== undefined) {
    ids[at] = wholeId
    return at + 1
  }
  const pieces = [...token].length > maxWordLength ? undefined : splitWordPieces(token, vocabulary)
  for (const id of pieces ?? [vocabulary.unknown]) {
    if (at === room) return at
    ids[at++] = id
  }
  return at
}

/** Greedy longest match first; undefined when some part is in no piece. */
function splitWordPieces(
  token: string,
  { wordStarts, continuations, longestPiece }: Vocabulary,
): number[] | undefined {
  const ids: number[] = []
  let start = 0
  while (start < token.length) {
    const pieces = start === 0 ? wordStarts : continuations
    let end = Math.min(token.length, start + longestPiece)
    let id = pieces.get(token.slice(start, end))
    while (id === undefined && --end > start) id = pieces.get(token.slice(start, end))
    if (id === undefined) return undefined
    ids.push(id)
    start = end
  }
  return ids
}
