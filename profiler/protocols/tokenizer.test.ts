import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { PayloadError } from '../profiler-errors.ts'
import { byteLevelTokenizer, sentencePieceTokenizer } from '../testing/tokenizer-files.ts'
import { makePrompts } from './prompts.ts'
import { loadTokenCounter } from './tokenizer.ts'

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'tokenizer-'))
})
afterAll(() => rmSync(folder, { recursive: true }))

const written = (name: string, document: object | string): string => {
  const path = join(folder, `${name}.json`)
  writeFileSync(path, typeof document === 'string' ? document : JSON.stringify(document))
  return path
}

describe.each([
  ['byte-level', byteLevelTokenizer(), 'the the', 2 + 1],
  ['sentencepiece', sentencePieceTokenizer(), 'the on', 3],
])('a %s tokenizer', (name, document, text, tokens) => {
  test('counts tokens by its merges', () => {
    // Byte-level: 'the', 'Ġthe'; SentencePiece: '▁the', '▁', 'on'.
    expect(loadTokenCounter(written(name, document))(text)).toBe(name === 'byte-level' ? 2 : tokens)
  })

  test('makes prompts of an exact number of tokens, also with shared prefixes', () => {
    const path = written(name, document)
    const count = loadTokenCounter(path)
    const spec = {
      tokenizer: path,
      inputTokens: { kind: 'uniform', from: 40, to: 300 },
      outputTokens: { kind: 'fixed', tokens: 4 },
      sharedPrefixTokens: 30,
      prefixes: 2,
    } as const
    const prompts = makePrompts(spec, 7, 40)
    for (const prompt of prompts) expect(count(prompt.text)).toBe(prompt.inputTokens)
    expect(new Set(prompts.map(({ inputTokens }) => inputTokens)).size).toBeGreaterThan(20)
    const shared = (a: string, b: string) => [...a].findIndex((character, i) => character !== b[i])
    expect(
      count(prompts[0]!.text.slice(0, shared(prompts[0]!.text, prompts[2]!.text))),
    ).toBeGreaterThanOrEqual(30)
    expect(makePrompts(spec, 7, 40)).toEqual(prompts)
  })

  test('counts conversations and blocks of recorded requests as exactly', () => {
    const path = written(name, document)
    const count = loadTokenCounter(path)
    const lengths = {
      inputTokens: { kind: 'uniform', from: 5, to: 40 },
      outputTokens: { kind: 'uniform', from: 1, to: 9 },
    } as const
    const talk = makePrompts(
      { ...lengths, tokenizer: path, turns: { kind: 'fixed', tokens: 3 }, conversations: 2 },
      3,
      12,
    )
    const recorded = makePrompts(
      {
        ...lengths,
        tokenizer: path,
        recorded: [
          [1200, 3, [1, 2, 3]],
          [1090, 3, [1, 4]],
        ],
      },
      3,
      2,
    )
    for (const prompt of [...talk, ...recorded]) expect(count(prompt.text)).toBe(prompt.inputTokens)
  })
})

test('an invalid tokenizer is rejected with its path', () => {
  for (const [name, text] of [
    ['list', '[]'],
    ['broken', '{"model": '],
    ['strange', '{"model": {"type": "Magic"}}'],
  ] as const)
    expect(() => loadTokenCounter(written(name, text))).toThrow(`${name}.json is no tokenizer: `)
  expect(() => loadTokenCounter(join(folder, 'nowhere'))).toThrow(join('nowhere', 'tokenizer.json'))
})

test('a tokenizer that fails on a later text is reported with the text', () => {
  const { Tokenizer } = createRequire(import.meta.url)(
    '@huggingface/tokenizers',
  ) as typeof import('@huggingface/tokenizers')
  const encode = Tokenizer.prototype.encode
  const damaged = vi.spyOn(Tokenizer.prototype, 'encode').mockImplementation(function (
    this: typeof Tokenizer.prototype,
    text: string,
    options?: object,
  ) {
    if (text.includes('w')) throw new TypeError('undefined is no token')
    return encode.call(this, text, options)
  })
  try {
    const path = written('damaged', byteLevelTokenizer())
    const fixed = { kind: 'fixed', tokens: 400 } as const
    expect(() => loadTokenCounter(path)('a word')).toThrow(
      `${path} cannot encode "a word": undefined is no token`,
    )
    expect(() =>
      makePrompts({ tokenizer: path, inputTokens: fixed, outputTokens: fixed }, 1, 1),
    ).toThrow(PayloadError)
    expect(() => loadTokenCounter(path)('w'.repeat(1_000))).toThrow(`"${'w'.repeat(40)}..."`)
  } finally {
    damaged.mockRestore()
  }
})

test('a length that no text has is an error', () => {
  const path = written('silent', {
    ...byteLevelTokenizer(),
    normalizer: { type: 'Replace', pattern: { Regex: '[\\s\\S]+' }, content: 'x' },
  })
  const fixed = { kind: 'fixed', tokens: 5 } as const
  expect(() =>
    makePrompts({ tokenizer: path, inputTokens: fixed, outputTokens: fixed }, 1, 1),
  ).toThrow('no text has exactly 5 tokens')
})
