import { describe, expect, test } from 'vitest'
import { type PromptSpec, recordedBlockTokens } from '../prompt-spec.ts'
import { makePrompts } from './prompts.ts'

const fixed = (tokens: number) => ({ kind: 'fixed', tokens }) as const
const wordsOf = (text: string) => text.split(' ')

describe('conversations', () => {
  const spec: PromptSpec = {
    inputTokens: fixed(20),
    outputTokens: fixed(5),
    turns: fixed(3),
    conversations: 4,
  }

  test('a prompt is the conversation so far, answers included, and a new message', () => {
    const prompts = makePrompts(spec, 1, 24)
    const [first, second, third, another] = [0, 4, 8, 12].map((i) => prompts[i]!)
    expect([first, second, third, another].map((prompt) => prompt!.inputTokens)).toEqual([
      20, 45, 70, 20,
    ])
    for (const { text, messages, inputTokens } of prompts) {
      expect(wordsOf(text)).toHaveLength(inputTokens)
      expect(messages.join(' ')).toBe(text)
    }
    expect(second!.text.startsWith(`${first!.text} `)).toBe(true)
    expect(third!.text.startsWith(`${second!.text} `)).toBe(true)
    expect(third!.messages.map((part) => wordsOf(part).length)).toEqual([20, 5, 20, 5, 20])
    expect(another!.text.startsWith(first!.text)).toBe(false)
  })

  test('share a prefix, which counts in the first turn only', () => {
    const prompts = makePrompts({ ...spec, sharedPrefixTokens: 12, prefixes: 1 }, 1, 12)
    const heads = new Set(prompts.map(({ text }) => wordsOf(text).slice(0, 12).join(' ')))
    expect(heads.size).toBe(1)
    expect([0, 4, 8].map((i) => prompts[i]!.inputTokens)).toEqual([20, 45, 70])
  })

  test('restart before they exceed the longest sequence', () => {
    const long = makePrompts(
      { ...spec, inputTokens: fixed(20_000), turns: fixed(9), conversations: 1 },
      1,
      3,
    )
    expect(long.map(({ inputTokens }) => inputTokens)).toEqual([20_000, 20_000, 20_000])
  })
})

describe('recorded requests', () => {
  const of = (recorded: PromptSpec['recorded']): PromptSpec => ({
    inputTokens: fixed(1),
    outputTokens: fixed(1),
    recorded,
  })

  test('equal blocks are equal text; the rest is unique', () => {
    const block = recordedBlockTokens
    const [a, b, c] = makePrompts(
      of([
        [2 * block + 50, 7, [3, 4, 9]],
        [2 * block + 40, 8, [3, 4, 8]],
        [block + 40, 9, [5, 4]],
      ]),
      1,
      3,
    )
    expect(
      [a, b, c].map((prompt) => [
        prompt!.inputTokens,
        prompt!.outputTokens,
        wordsOf(prompt!.text).length,
      ]),
    ).toEqual([
      [2 * block + 50, 7, 2 * block + 50],
      [2 * block + 40, 8, 2 * block + 40],
      [block + 40, 9, block + 40],
    ])
    const head = (prompt: typeof a, from: number, to: number) =>
      wordsOf(prompt!.text).slice(from, to).join(' ')
    expect(head(a, 0, 2 * block)).toBe(head(b, 0, 2 * block))
    expect(head(a, 2 * block, 2 * block + 40)).not.toBe(head(b, 2 * block, 2 * block + 40))
    expect(head(c, 0, block)).not.toBe(head(a, 0, block))
  })

  test('with lengths only use the shared prefix, and repeat from the start', () => {
    const prompts = makePrompts(
      {
        ...of([
          [30, 2],
          [40, 3],
        ]),
        sharedPrefixTokens: 10,
      },
      1,
      3,
    )
    expect(prompts.map(({ inputTokens, outputTokens }) => [inputTokens, outputTokens])).toEqual([
      [30, 2],
      [40, 3],
      [30, 2],
    ])
    expect(new Set(prompts.map(({ text }) => wordsOf(text).slice(0, 10).join(' '))).size).toBe(1)
  })
})
