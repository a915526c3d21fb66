import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { PromptSpec } from '../prompt-spec.ts'
import { isConversations, readConversations } from './conversations.ts'
import { makeFittingPrompts } from './prompt-fitting.ts'
import { makePrompts } from './prompts.ts'

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'conversations-'))
})
afterAll(() => rmSync(folder, { recursive: true }))

const write = (text: string, name = 'share.json'): string => {
  const path = join(folder, name)
  writeFileSync(path, text)
  return path
}
const human = (value: string) => ({ from: 'human', value })
const gpt = (value: string) => ({ from: 'gpt', value })
const list = (...conversations: object[][]) =>
  JSON.stringify(conversations.map((each, i) => ({ id: `c_${i}`, conversations: each })))
const words = (count: number, word = 'word') => Array(count).fill(word).join(' ')

describe('a file of conversations', () => {
  test('is read in order, each as far as user and model alternate', () => {
    const path = write(
      list(
        [human('a {"b": [1]} \\" grün 日本'), gpt('c'), human('d')],
        [gpt('continued'), human('x'), gpt('y')],
        [{ from: 'system', value: 's' }, human('x'), gpt('y')],
        [human(' '), gpt('y')],
        [],
        [human('e'), gpt('f'), human('g'), gpt('h'), gpt('again')],
      ),
    )
    expect(isConversations(path)).toBe(true)
    expect([...readConversations(path)]).toEqual([
      [{ prompt: 'a {"b": [1]} \\" grün 日本', answer: 'c' }],
      [
        { prompt: 'e', answer: 'f' },
        { prompt: 'g', answer: 'h' },
      ],
    ])
  })

  test('JSON Lines, and the field names of LMSYS', () => {
    const lines = ['conversations', 'conversation'].map((key) =>
      JSON.stringify({
        [key]: [
          { role: 'user', content: 'hi' },
          { role: 'assistant', content: 'yes' },
        ],
      }),
    )
    const hi = [{ prompt: 'hi', answer: 'yes' }]
    expect([...readConversations(write(`\ufeff${lines.join('\n')}\n`))]).toEqual([hi, hi])
  })

  test('is read only as far as needed', () => {
    const path = write(
      `${list([human('a'), gpt('b')], [human('c'), gpt('d')]).slice(0, -1)}, ${' '.repeat(3 * 2 ** 20)} no JSON`,
    )
    const read = readConversations(path)
    expect([read.next().value, read.next().value]).toEqual([
      [{ prompt: 'a', answer: 'b' }],
      [{ prompt: 'c', answer: 'd' }],
    ])
    expect(() => read.next()).toThrow(
      /share.json is not a list of JSON objects: after object 2 something else follows/,
    )
  })

  test('may have an object across two reads', () => {
    const long = `${words(400_000)} \\"{`
    const path = write(list([human(long), gpt('b')], [human('c'), gpt(long)]))
    expect(
      [...readConversations(path)].map(([one]) => [one!.prompt.length, one!.answer.length]),
    ).toEqual([
      [long.length, 1],
      [1, long.length],
    ])
  })

  test.each([
    ['[{"conversations": [{"from": "human"', 'ends within its object 1'],
    ['[{"conversations": [}]', 'object 1 is no JSON'],
    [list([gpt('only')]), 'has no conversation that a user begins and a model answers'],
    ['', 'has no conversation'],
  ])('%j is rejected with its position', (text, message) => {
    const path = write(text)
    expect(() => [...readConversations(path)]).toThrow(message)
  })

  test.each([
    '{"messages": [{"role": "user", "content": "hi"}]}\n',
    '1,2\n',
    '[]',
    'inputTokens,outputTokens\n',
  ])('%j is none', (text) => {
    expect(isConversations(write(text))).toBe(false)
  })
})

describe('prompts of conversations', () => {
  const lengths = {
    inputTokens: { kind: 'fixed', tokens: 1 },
    outputTokens: { kind: 'fixed', tokens: 1 },
  } as const
  const spec = (text: string, more: Partial<PromptSpec> = {}): PromptSpec => ({
    ...lengths,
    file: write(text),
    ...more,
  })
  const three = list(
    [human('one, two'), gpt('three four'), human('five'), gpt('six')],
    [human('b'), gpt(words(7))],
    [human('c'), gpt('d'), human('e'), gpt('f'), human('g'), gpt('h')],
  )

  test('contain the conversation so far; conversations are interleaved, without repetition', () => {
    const prompts = makePrompts(spec(three, { conversations: 2 }), 1, 50)
    expect(prompts.map(({ messages }) => messages.join('|'))).toEqual([
      'one, two',
      'b',
      'one, two|three four|five',
      'c',
      'c|d|e',
      'c|d|e|f|g',
    ])
    // Words and signs: 'one' ',' 'two'.
    expect(prompts.map(({ inputTokens, outputTokens }) => [inputTokens, outputTokens])).toEqual([
      [3, 2],
      [1, 7],
      [6, 1],
      [1, 1],
      [3, 1],
      [5, 1],
    ])
    expect(
      makePrompts(spec(three, { conversations: 2 }), 1, 2).map(({ messages }) => messages[0]),
    ).toEqual(['one, two', 'b'])
  })

  test('have the requested number of turns', () => {
    const first = makePrompts(spec(three, { turns: { kind: 'fixed', tokens: 1 } }), 1, 50)
    expect(first.map(({ messages }) => messages)).toEqual([['one, two'], ['b'], ['c']])
  })

  test('end at the context of the server by its own count, with a remark', async () => {
    const talk = (turns: number) =>
      Array.from({ length: turns }, () => [human(words(50)), gpt(words(50))]).flat()
    const payload = spec(list(talk(1), talk(9), [human(words(5000)), gpt('x')], talk(2)), {
      conversations: 1,
    })
    // Two tokens a word, 10 a message.
    const count = (said: readonly string[]) =>
      said.reduce((sum, text) => sum + 10 + 2 * text.split(' ').length, 0)
    const { prompts, remarks } = await makeFittingPrompts(
      1000,
      { kind: 'generated', seed: 1, count: 50, prompts: payload },
      async ({ messages }) => count(messages),
    )
    expect(
      prompts.filter(({ messages, outputTokens }) => count(messages) + outputTokens > 1000),
    ).toEqual([])
    // 1 of the first, 9 turns cut to what fits, none of the third, 2 of the last.
    expect(prompts.length).toBeGreaterThan(1 + 2 + 2)
    expect(prompts.length).toBeLessThan(1 + 9 + 2)
    expect(remarks.join()).toContain(
      '1000 tokens of prompt and answer together: 2 conversations ended early to fit',
    )
  })

  test('none of which fits are rejected', async () => {
    const payload = {
      kind: 'generated',
      seed: 1,
      prompts: spec(list([human(words(5000)), gpt('x')])),
    } as const
    await expect(
      makeFittingPrompts(1000, payload, async ({ text }) => text.split(' ').length),
    ).rejects.toThrow(/no conversation of .*share.json is short enough/)
  })
})
