/** Vocabularies of WordPiece tokenisers. */
import { readText } from '../../../profiler/bounded-reader.ts'

export interface Vocabulary {
  /** Ids of pieces that begin a word. */
  readonly wordStarts: ReadonlyMap<string, number>
  /** Ids of pieces that continue a word, without their '##'. */
  readonly continuations: ReadonlyMap<string, number>
  /** UTF-16 units of the longest piece. */
  readonly longestPiece: number
  readonly unknown: number
  readonly start: number
  readonly end: number
}

/**
 * @param pieces in the order of their ids
 * @throws Error if [UNK], [CLS] or [SEP] is missing
 */
export function createVocabulary(pieces: readonly string[]): Vocabulary {
  const wordStarts = new Map<string, number>()
  const continuations = new Map<string, number>()
  let longestPiece = 0
  for (const [id, piece] of pieces.entries()) {
    const continuation = piece.startsWith('##') && piece.length > 2 ? piece.slice(2) : undefined
    if (continuation === undefined) wordStarts.set(piece, id)
    else continuations.set(continuation, id)
    longestPiece = Math.max(longestPiece, continuation?.length ?? piece.length)
  }
  const special = (piece: string) => {
    const id = wordStarts.get(piece)
    if (id === undefined)
      throw new Error(
        `the vocabulary of ${pieces.length} pieces has no ${piece}: it is not the vocabulary of a BERT model`,
      )
    return id
  }
  return {
    wordStarts,
    continuations,
    longestPiece,
    unknown: special('[UNK]'),
    start: special('[CLS]'),
    end: special('[SEP]'),
  }
}

/**
 * Reads a BERT model's vocab.txt: one piece a line, in the order of their ids.
 * @throws Error if it cannot be read, or is not the vocabulary of a BERT model
 */
export function readVocabulary(path: string): Vocabulary {
  let text: string
  try {
    text = readText(path, 'data')
  } catch (error) {
    throw new Error(`cannot read the vocabulary '${path}': ${(error as Error).message}`)
  }
  const pieces = text.split(/\r?\n/)
  if (pieces.at(-1) === '') pieces.pop()
  try {
    return createVocabulary(pieces)
  } catch (error) {
    throw new Error(`'${path}': ${(error as Error).message}`)
  }
}

export const syntheticVocabularySize = 30_522

/** The commonest English words, so that they remain single tokens. */
const commonWords =
  'the of and to in a is that for it as was with be by on not he his but at are this have from or had an they which one you were all her she there would their we him been has when who will no more if out so up said what its about than into them can only other time new some could these two may first then do any like my now over such our man me even most made after also did many off before must well back through years where much your way down should because long each just state those people too mr how little good world make very year still see own work men day get here old life both between being under three never know same last another while us might great go come since against right came take used himself few house use during without again place american around however home small found thought went say part once general high upon school every'.split(
    ' ',
  )

/**
 * Letters as often as in English texts, one for each per cent, rounded (Norvig 2012, 'English
 * Letter Frequency Counts').
 */
const letterShares =
  'eeeeeeeeeeeetttttttttaaaaaaaaooooooooiiiiiiiinnnnnnnsssssssrrrrrrhhhhhllllddddcccuuummmffppggwwyybbvk'

/**
 * Creates a synthetic vocabulary of BERT's size and layout (special pieces, characters, then words
 * and parts of words) for models with seeded weights. Its pieces are common words, and letters
 * sampled by their frequency in English with a fixed seed.
 */
export function createSyntheticPieces(): string[] {
  const unused = (from: number, to: number) =>
    Array.from({ length: to - from }, (_, i) => `[unused${from + i}]`)
  const printable = Array.from({ length: 94 }, (_, i) => String.fromCharCode(33 + i)).filter(
    (c) => !/[A-Z]/.test(c),
  )
  const pieces = new Set([
    '[PAD]',
    ...unused(0, 99),
    '[UNK]',
    '[CLS]',
    '[SEP]',
    '[MASK]',
    ...unused(99, 994),
    ...printable,
    ...printable.filter((c) => /[a-z0-9]/.test(c)).map((c) => `##${c}`),
    ...commonWords,
  ])
  let state = 1
  // Numerical Recipes' linear congruential generator; its high bits are good enough to draw
  // letters.
  const draw = (below: number) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
  while (pieces.size < syntheticVocabularySize) {
    const length = 2 + draw(3)
    let piece = draw(2) === 0 ? '##' : ''
    for (let i = 0; i < length; i++) piece += letterShares[draw(letterShares.length)]
    pieces.add(piece)
  }
  return [...pieces]
}
