import { describe, expect, test } from 'vitest'
import type { PromptSpec } from '../prompt-spec.ts'
import { makeFittingPrompts } from './prompt-fitting.ts'
import type { Prompt } from './prompts.ts'

const fixed = (tokens: number) => ({ kind: 'fixed', tokens }) as const
/** A server that counts so many tokens of each word, and others of each message. */
const server = (perWord: (word: string) => number, perMessage: number) => {
  let asked = 0
  return {
    asked: () => asked,
    count: (prompt: Pick<Prompt, 'messages'>) => {
      const words = prompt.messages.flatMap((text) => text.split(' '))
      return words.reduce((sum, word) => sum + perWord(word), prompt.messages.length * perMessage)
    },
    async told(prompt: Prompt) {
      asked++
      return this.count(prompt)
    },
  }
}
const pieces = (word: string) => Math.ceil(word.length / 2)
const within = (
  context: number | undefined,
  prompts: PromptSpec | undefined,
  { told }: { told: (prompt: Prompt) => Promise<number | undefined> },
  count = 500,
) => makeFittingPrompts(context, { kind: 'generated', seed: 1, count, prompts }, told)

describe('prompts of a context', () => {
  test.each([
    ['a word a token', () => 1, 0, 512],
    ['a word a token, and a template', () => 1, 40, 512],
    ['pieces of words', pieces, 0, 512],
    ['pieces of words, and a template', pieces, 40, 1024],
    ['a small context', pieces, 5, 128],
  ])('fit by the count of the server: %s', async (_, perWord, perMessage, context) => {
    const one = server(perWord, perMessage)
    const { prompts, remarks } = await within(context, undefined, {
      told: (prompt) => one.told(prompt),
    })
    const long = prompts.filter((prompt) => one.count(prompt) + prompt.outputTokens > context)
    expect(long).toEqual([])
    const cut = prompts.filter(({ isCut }) => isCut)
    expect(cut.length).toBeGreaterThan(5)
    expect(remarks.join()).toContain(`${cut.length} of 500 requests were cut to fit`)
    // Those that are cut fill most of the context.
    expect(
      Math.max(...cut.map((prompt) => one.count(prompt) + prompt.outputTokens)),
    ).toBeGreaterThan(0.7 * context)
  })

  test('are unchanged where they just fit, and cut with one token more', async () => {
    const one = server(() => 1, 0)
    const told = (prompt: Prompt) => one.told(prompt)
    const just = await within(
      1000,
      { inputTokens: fixed(700), outputTokens: fixed(300) },
      { told },
      4,
    )
    expect([just.remarks, just.prompts[0]]).toMatchObject([
      [],
      { inputTokens: 700, outputTokens: 300 },
    ])
    const over = await within(
      1000,
      { inputTokens: fixed(701), outputTokens: fixed(300) },
      { told },
      4,
    )
    expect(over.prompts[0]).toMatchObject({ inputTokens: 700, outputTokens: 300, isCut: true })
    expect(over.remarks).toEqual([
      'the server takes 1000 tokens of prompt and answer together: 4 of 4 requests were cut to fit (longest prompt 700, longest answer 300 tokens now)',
    ])
  })

  test('leave half of the context to the answer; a longer answer is cut', async () => {
    const one = server(() => 1, 0)
    const told = (prompt: Prompt) => one.told(prompt)
    const both = await within(
      1000,
      { inputTokens: fixed(5000), outputTokens: fixed(4000) },
      { told },
      1,
    )
    expect(both.prompts[0]).toMatchObject({ inputTokens: 500, outputTokens: 500 })
    const answer = await within(
      1000,
      { inputTokens: fixed(100), outputTokens: fixed(4000) },
      { told },
      1,
    )
    expect(answer.prompts[0]).toMatchObject({ inputTokens: 100, outputTokens: 900 })
  })

  test('have their shared prefix cut too; recorded ones are cut', async () => {
    const one = server(() => 1, 0)
    const told = (prompt: Prompt) => one.told(prompt)
    const shared = await within(
      100,
      { inputTokens: fixed(300), outputTokens: fixed(10), sharedPrefixTokens: 200 },
      { told },
      3,
    )
    expect(shared.prompts.map(({ inputTokens }) => inputTokens)).toEqual([90, 90, 90])
    const recorded = await within(
      2000,
      {
        inputTokens: fixed(1),
        outputTokens: fixed(1),
        recorded: [
          [3000, 50, [1, 2, 3]],
          [20, 30],
        ],
      },
      { told },
      2,
    )
    expect(
      recorded.prompts.map(({ inputTokens, outputTokens, isCut }) => [
        inputTokens,
        outputTokens,
        isCut,
      ]),
    ).toEqual([
      [1950, 50, true],
      [20, 30, undefined],
    ])
  })

  test('of a conversation that would be too long begin another', async () => {
    const one = server(() => 1, 7)
    const told = (prompt: Prompt) => one.told(prompt)
    const spec: PromptSpec = {
      inputTokens: fixed(40),
      outputTokens: fixed(20),
      turns: fixed(9),
      conversations: 1,
    }
    const { prompts, remarks } = await within(200, spec, { told }, 6)
    // 40, 20, 40, 20, 40 and a last answer of 20, with seven more for each message of five.
    expect(
      prompts.map(({ messages, endedConversations }) => [messages.length, endedConversations]),
    ).toEqual([
      [1, undefined],
      [3, undefined],
      [1, 1],
      [3, undefined],
      [1, 1],
      [3, undefined],
    ])
    expect(remarks.join()).toContain('2 conversations ended early to fit')
  })

  test('far below it, or for a server without a context, need no calibration', async () => {
    const one = server(pieces, 40)
    const told = (prompt: Prompt) => one.told(prompt)
    const drawn = await within(undefined, undefined, { told })
    expect((await within(131_072, undefined, { told })).prompts).toEqual(drawn.prompts)
    expect(one.asked()).toBe(0)
    await within(4000, undefined, { told })
    expect(one.asked()).toBe(2)
  })

  test('are counted as generated where the server reports no count', async () => {
    const { prompts } = await within(
      1000,
      { inputTokens: fixed(900), outputTokens: fixed(300) },
      { told: async () => undefined },
      1,
    )
    expect(prompts[0]).toMatchObject({ inputTokens: 700, outputTokens: 300 })
  })
})
