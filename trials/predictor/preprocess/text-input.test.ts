import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, describe, expect, test } from 'vitest'
import { createTokenizer, encode, splitBasicTokens } from './text-input.ts'
import {
  createSyntheticPieces,
  createVocabulary,
  readVocabulary,
  syntheticVocabularySize,
} from './vocabulary.ts'

const folder = mkdtempSync(join(tmpdir(), 'vocabulary-'))
afterAll(() => rmSync(folder, { recursive: true }))

/** The vocabulary of google-research/bert's tokenization_test.py. */
const pieces = [
  '[PAD]',
  '[UNK]',
  '[CLS]',
  '[SEP]',
  'want',
  '##want',
  '##ed',
  'wa',
  'un',
  'runn',
  '##ing',
  ',',
  '##aff',
  '##able',
  'low',
]
const vocabulary = createVocabulary(pieces)
const piecesOf = (text: string, length = 32) => {
  const { inputIds, attentionMask } = encode(text, length, vocabulary)
  return [...inputIds].filter((_, i) => attentionMask[i] === 1).map((id) => pieces[id])
}

describe('pieces', () => {
  test.each([
    ['unaffable', ['un', '##aff', '##able']],
    ['UNwant\u00e9d,running', ['un', '##want', '##ed', ',', 'runn', '##ing']],
    ['unwanted running', ['un', '##want', '##ed', 'runn', '##ing']],
    ['unwantedX running', ['[UNK]', 'runn', '##ing']],
    ['', []],
    [`${'want'.repeat(51)}`, ['[UNK]']],
  ])('%j', (text, expected) => {
    expect(piecesOf(text)).toEqual(['[CLS]', ...expected, '[SEP]'])
  })

  test('a long text is cut to the length, and [SEP] stays', () => {
    expect(piecesOf('unaffable unaffable', 6)).toEqual([
      '[CLS]',
      'un',
      '##aff',
      '##able',
      'un',
      '[SEP]',
    ])
    expect(piecesOf('unaffable', 2)).toEqual(['[CLS]', '[SEP]'])
  })
})

describe('basic tokens', () => {
  test.each([
    [' \tHeLLo!how  \n Are yoU?  ', ['hello', '!', 'how', 'are', 'you', '?']],
    ['H\u00e9llo', ['hello']],
    ['ah\u535a\u63a8zz', ['ah', '\u535a', '\u63a8', 'zz']],
    ['a\u0000b\ufffdc\u200dd', ['abcd']],
    ['$5.00—"yes"', ['$', '5', '.', '00', '—', '"', 'yes', '"']],
    ['\u{20000}x', ['\u{20000}', 'x']],
    ['caf\u0065\u0301 na\u00efve', ['cafe', 'naive']],
    ['かな', ['かな']],
  ])('%j', (text, expected) => {
    expect([...splitBasicTokens(text)]).toEqual(expected)
  })

  test('the way for plain texts gives what the general one gives', () => {
    // A trailing accent alone is dropped, and takes the text the general way.
    const plainText = fc.string({
      unit: fc.constantFrom(
        ...Array.from({ length: 95 }, (_, i) => String.fromCharCode(32 + i)),
        '\t',
        '\n',
      ),
    })
    fc.assert(
      fc.property(plainText, (text) => {
        expect([...splitBasicTokens(text)]).toEqual([...splitBasicTokens(`${text} \u0301`)])
      }),
    )
  })
})

describe('the synthetic vocabulary', () => {
  const synthetic = createSyntheticPieces()
  const tokenizer = createTokenizer()

  test("has BERT's size and special ids, no piece twice, and is always the same", () => {
    expect(synthetic).toHaveLength(syntheticVocabularySize)
    expect(new Set(synthetic).size).toBe(syntheticVocabularySize)
    expect(
      ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]'].map((piece) => synthetic.indexOf(piece)),
    ).toEqual([0, 100, 101, 102, 103])
    expect(createSyntheticPieces()).toEqual(synthetic)
  })

  test('any text becomes [CLS] … [SEP] and zeros, masked as such', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'binary' }),
        fc.integer({ min: 2, max: 64 }),
        (text, length) => {
          const { inputIds, attentionMask } = tokenizer.encode(text, length)
          const used = attentionMask.reduce((a, b) => a + b, 0)
          expect([inputIds.length, attentionMask.length]).toEqual([length, length])
          expect([inputIds[0], inputIds[used - 1]]).toEqual([101, 102])
          expect(
            inputIds.every(
              (id, i) => id >= 0 && id < syntheticVocabularySize && id > 0 === i < used,
            ),
          ).toBe(true)
          expect(attentionMask.every((one, i) => one === (i < used ? 1 : 0))).toBe(true)
        },
      ),
    )
  })

  test('a length of 2 leaves room for [CLS] and [SEP] alone', () => {
    expect([...tokenizer.encode('a', 2).inputIds]).toEqual([101, 102])
  })

  test('pieces of a word put together are the word', () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[a-z0-9]{1,30}$/), (word) => {
        const { inputIds, attentionMask } = tokenizer.encode(word, 64)
        const used = [...inputIds].filter((_, i) => attentionMask[i] === 1).slice(1, -1)
        expect(used.map((id) => synthetic[id]!.replace('##', '')).join('')).toBe(word)
      }),
    )
  })

  test('a longer length only adds to what a shorter one gives', () => {
    fc.assert(
      fc.property(fc.lorem({ maxCount: 30 }), fc.integer({ min: 3, max: 20 }), (text, length) => {
        const short = tokenizer.encode(text, length).inputIds
        const long = tokenizer.encode(text, length + 5).inputIds
        const kept = short.lastIndexOf(102)
        expect([...short.slice(0, kept)]).toEqual([...long.slice(0, kept)])
      }),
    )
  })
})

describe('a vocab.txt', () => {
  test('is read with either line end', () => {
    for (const end of ['\n', '\r\n']) {
      const path = join(folder, 'vocab.txt')
      writeFileSync(path, pieces.join(end) + end)
      expect(createTokenizer(path).encode('unaffable', 6).inputIds).toEqual(
        encode('unaffable', 6, vocabulary).inputIds,
      )
    }
  })

  test('that is missing or no vocabulary is named', () => {
    const path = join(folder, 'bad.txt')
    writeFileSync(path, 'one\ntwo\n')
    expect(() => readVocabulary(path)).toThrow(
      /bad\.txt': the vocabulary of 2 pieces has no \[UNK\]/,
    )
    expect(() => readVocabulary(join(folder, 'none.txt'))).toThrow(
      /cannot read the vocabulary '.*none\.txt'/,
    )
  })
})
