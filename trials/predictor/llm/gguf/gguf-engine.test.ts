import { describe, expect, test } from 'vitest'
import type { Completion } from '../completion-engine.ts'
import { GgufEngine } from './gguf-engine.ts'
import type { EvaluationInput, LlamaModel, LlamaSequence, Token } from './llama-binding.ts'

/** Says after any tokens one more than the last, and keeps what it was given. */
class CountingSequence implements LlamaSequence {
  contextTokens: Token[] = []
  constructor(private readonly computed: (tokens: number) => void) {}

  async eraseContextTokenRanges([range]: readonly {
    readonly start: number
    readonly end: number
  }[]) {
    this.contextTokens = this.contextTokens.slice(0, range!.start)
  }

  async controlledEvaluate(input: readonly EvaluationInput[]) {
    this.computed(input.length)
    await new Promise((resolve) => setImmediate(resolve))
    this.contextTokens = [
      ...this.contextTokens,
      ...input.map((one) => (typeof one === 'number' ? one : one[0])),
    ]
    return input.map((one) =>
      typeof one === 'number' ? undefined : { next: { token: one[0] + 1 } },
    )
  }
}

const model = {
  tokens: { bos: null, shouldPrependBosToken: false },
  detokenize: ([token]: readonly Token[]) => `${token} `,
  isEogToken: () => false,
} as unknown as LlamaModel

/** `steps`: tokens of each step, one number a sequence in it. */
function engineOf(places: number, batchSize: number) {
  const steps: number[][] = []
  let known = 0
  const engine: GgufEngine = new GgufEngine(
    model,
    Array.from(
      { length: places },
      () =>
        new CountingSequence((tokens) => {
          if (engine.steps > known) steps.push([])
          known = engine.steps
          steps.at(-1)!.push(tokens)
        }),
    ),
    {
      device: 'none',
      maxModelLength: 100,
      batchSize,
      queueLimit: 100,
      prefixCaching: false,
      dispose: async () => {},
    },
  )
  return { engine, steps }
}

/** What is answered, once it has ended. */
const answer = (
  engine: GgufEngine,
  prompt: readonly Token[],
  maxTokens: number,
  then = () => {},
): Promise<string> =>
  new Promise((resolve, reject) => {
    let text = ''
    const completion: Completion = {
      maxTokens,
      ignoreEos: true,
      token: (more, end) => {
        text += more
        if (!end) return
        resolve(text)
        then()
      },
      failed: reject,
    }
    engine.add(prompt, completion)
  })

describe('steps', () => {
  test('answers go first, prompts fill what is left of the batch in the order of their arrival', async () => {
    const { engine, steps } = engineOf(3, 4)
    const texts = await Promise.all([
      answer(engine, [1], 3),
      answer(engine, [10, 11, 12, 13, 14], 2),
      answer(engine, [20, 21], 1),
    ])
    expect(texts).toEqual(['2 3 4 ', '15 16 ', '22 '])
    // The first is alone when it begins; the third's two tokens wait for the second's five.
    expect(steps).toEqual([[1], [1, 3], [1, 2, 1], [1, 1]])
    expect(engine.stepSequences / engine.steps).toBe(2)
  })

  test('of more answers than a batch takes, those that waited longest go first', async () => {
    const { engine, steps } = engineOf(3, 2)
    const ended: number[] = []
    await Promise.all(
      [1, 10, 20].map((token, i) => answer(engine, [token], 4, () => ended.push(i))),
    )
    expect(steps.slice(1).every((step) => step.length === 2 || step === steps.at(-1))).toBe(true)
    expect(steps.flat().length).toBe(12)
    expect(steps.length).toBeLessThanOrEqual(7)
    expect(ended).toEqual([0, 1, 2])
  })

  test('every sequence says what it says alone, however many share the places', async () => {
    const { engine } = engineOf(3, 5)
    const prompts = Array.from({ length: 12 }, (_, i) =>
      Array.from({ length: 1 + (i % 7) }, (_, j) => 100 * i + j),
    )
    const texts = await Promise.all(prompts.map((prompt, i) => answer(engine, prompt, 1 + (i % 4))))
    const alone = prompts.map((prompt, i) =>
      Array.from({ length: 1 + (i % 4) }, (_, j) => `${prompt.at(-1)! + 1 + j} `).join(''),
    )
    expect(texts).toEqual(alone)
    await engine.waitUntilIdle()
    expect([engine.running, engine.waiting]).toEqual([0, 0])
  })

  test.each(Array.from({ length: 20 }, (_, ticks) => ticks))(
    'one that comes %i promises after the last answer is answered',
    async (ticks) => {
      const { engine } = engineOf(1, 4)
      const late = await new Promise<string>((resolve) => {
        void answer(engine, [1], 1, async () => {
          for (let i = 0; i < ticks; i++) await Promise.resolve()
          resolve(answer(engine, [5], 1))
        })
      })
      expect(late).toBe('6 ')
    },
  )
})

test('one whose client left gives its place to the next, and close ends the rest', async () => {
  const { engine } = engineOf(1, 4)
  const told: string[] = []
  const completion = (name: string): Completion => ({
    maxTokens: 1e6,
    ignoreEos: true,
    token: () => told.push(name),
    failed: () => {},
  })
  const leave = engine.add([1], completion('first'))!
  engine.add([1], completion('second'))
  while (!told.includes('first')) await new Promise((resolve) => setImmediate(resolve))
  leave()
  while (!told.includes('second')) await new Promise((resolve) => setImmediate(resolve))
  expect(told.lastIndexOf('first')).toBeLessThan(told.indexOf('second'))
  await engine.close()
  expect(engine.running).toBe(0)
  expect(engine.add([1], completion('third'))).toBeUndefined()
})
