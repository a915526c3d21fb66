import { describe, expect, test } from 'vitest'
import { AnswerCheck, type AnswerSpec } from './answer-check.ts'
import { buildGoldenAnswers, detectBits } from './golden-answers.ts'
import type { AnswerClient, ParsedAnswer } from './protocol.ts'

const of = (document: unknown): ParsedAnswer => ({ document, result: document })
const said = (text: string): ParsedAnswer => ({ document: { text }, result: text, generated: true })
const createClient = (isResultFromModelOnly: boolean): AnswerClient => ({
  isResultFromModelOnly,
  fetch: () => Promise.reject(new Error('not asked here')),
  parse: async (answer) => of(JSON.parse(Buffer.from(answer).toString())),
  interpret: async (document) => of(document),
})

interface Case {
  /** Answers of the first configuration to the requests 0, 1, ..., each time that it was asked. */
  readonly first: readonly (readonly ParsedAnswer[])[]
  readonly later: readonly ParsedAnswer[]
  readonly rest?: Partial<AnswerSpec>
  readonly tensors?: boolean
}

async function faultOf({ first, later, rest, tensors = false }: Case): Promise<string | undefined> {
  const bodies = first[0]!.map((_, i) => i)
  const golden = buildGoldenAnswers(
    { source: 'trial 1', bits: 32, configuration: { batch: 1 } },
    bodies,
    first,
  )
  const check = new AnswerCheck(
    {
      expect: [],
      golden: JSON.parse(JSON.stringify(golden)),
      bits: 32,
      configuration: { batch: 8 },
      ...rest,
    },
    createClient(tensors),
  )
  for (const [body, answer] of later.entries()) check.checkAnswer(body, answer)
  return check.findFault()
}
const scores = (...values: number[]) => values.map((score) => of({ score }))
const labels = (...values: unknown[]) => values.map((label) => of({ label }))

describe('numbers', () => {
  const first = [scores(0.5, 2, 1)]
  test('within the tolerance are equal', () =>
    expect(faultOf({ first, later: scores(0.51, 2.01, 0.99) })).resolves.toBeUndefined())
  test('beyond the tolerance in one answer are a fault that shows both', () =>
    expect(faultOf({ first, later: scores(0.5, 2, 1.05) })).resolves.toMatch(
      /^request 2, score: 1.05 in place of 1, the answer of trial 1/,
    ))
  test.each([
    [16, 1.08, 1.2],
    [8, 1.3, 1.5],
    [4, 1.5, 1.7],
  ] as const)('of %i bits may be further apart', async (bits, near, far) => {
    expect(await faultOf({ first, later: scores(0.5, 2, near), rest: { bits } })).toBeUndefined()
    expect(await faultOf({ first, later: scores(0.5, 2, far), rest: { bits } })).toBeDefined()
  })
  test('tolerance of the user for a path', async () => {
    const both = (score: number, other: number) => [of({ score, other })]
    const expected = { expect: [{ path: 'score', tolerance: 0.1 }] }
    expect(
      await faultOf({ first: [both(1.5, 1.5)], later: both(1.6, 1.5), rest: expected }),
    ).toBeUndefined()
    expect(
      await faultOf({ first: [both(1.5, 1.5)], later: both(1.5, 1.6), rest: expected }),
    ).toMatch(/other/)
    // What must be some value says nothing of how far from the first answer it may be.
    const valued = { expect: [{ path: 'score', value: 1.6, tolerance: 0.1 }] }
    expect(await faultOf({ first: [both(1.5, 1.5)], later: both(1.6, 1.5), rest: valued })).toMatch(
      /^request 0, score: 1.6/,
    )
  })
  test('tolerance of the user for all numbers', async () => {
    expect(
      await faultOf({ first, later: scores(0.5, 2, 1.05), rest: { tolerance: 0.1 } }),
    ).toBeUndefined()
    const expected = { expect: [{ path: 'score', tolerance: 0.1 }] }
    expect(await faultOf({ first, later: scores(0.5, 2, 1.05), rest: expected })).toBeUndefined()
    expect(
      await faultOf({
        first: [labels(100, 120)],
        later: labels(101, 119),
        rest: { tolerance: 0.1 },
      }),
    ).toBeUndefined()
  })
  test('that are not finite', () =>
    expect(
      faultOf({ first, later: [of({ score: null }), of({ score: 2 }), of({ score: 1 })] }),
    ).resolves.toBeDefined())
  test('of a list differ in length and order', async () => {
    const list = (...data: number[]) => [of({ outputs: { y: { shape: [data.length], data } } })]
    expect(
      await faultOf({ first: [list(0.1, 0.9)], later: list(0.1, 0.9), tensors: true }),
    ).toBeUndefined()
    expect(
      await faultOf({ first: [list(0.1, 0.9)], later: list(0.1, 0.9, 0), tensors: true }),
    ).toBeDefined()
    expect(
      await faultOf({ first: [list(0.1, 0.9)], later: list(0.9, 0.1), tensors: true }),
    ).toMatch(/\[0.9,0.1\] in place of \[0.1,0.9\]/)
  })
  test('have a tolerance relative to the largest number at their path', async () => {
    // One in a hundred of the largest, 200: 2.
    const found = (...values: number[]) =>
      faultOf({ first: [scores(0.5, 200.5)], later: scores(...values) })
    expect(await found(2.4, 200.5)).toBeUndefined()
    expect(await found(2.6, 200.5)).toMatch(/^request 0, score: 2.6 in place of 0.5/)
    expect(await found(0.5, 198.4)).toMatch(/^request 1/)
  })
  test('are compared with the lower precision of the two', async () => {
    const golden = buildGoldenAnswers(
      { source: 'trial 1', bits: 8, configuration: {} },
      [0],
      [scores(1.5)],
    )
    const check = (bits: 4 | 16, score: number) => {
      const one = new AnswerCheck(
        { expect: [], golden, bits, configuration: {} },
        createClient(false),
      )
      one.checkAnswer(0, of({ score }))
      return one.findFault()
    }
    expect(await check(16, 1.75)).toBeUndefined()
    expect(await check(16, 1.85)).toBeDefined()
    expect(await check(4, 1.9)).toBeUndefined()
  })
  test('that vary beyond the precision are random', async () => {
    const noisy = (score: number) => [of({ score, label: 'a' })]
    // Within one in a hundred twice: they are no chance, and count.
    expect(await faultOf({ first: [noisy(1.5), noisy(1.51)], later: noisy(2.5) })).toMatch(/score/)
    expect(await faultOf({ first: [noisy(1.5), noisy(1.6)], later: noisy(2.5) })).toBeUndefined()
    // Whole numbers are names: one apart is another.
    expect(await faultOf({ first: [noisy(1000), noisy(1001)], later: noisy(9) })).toBeUndefined()
  })
  test('that a field is missing, or that another is there, is a difference', async () => {
    const two = [of({ score: 0.5, other: 0.25 })]
    expect(await faultOf({ first: [scores(0.5)], later: two })).toMatch(
      /^request 0, other: 0.25 in place of nothing/,
    )
    expect(await faultOf({ first: [two], later: scores(0.5) })).toMatch(
      /^request 0, other: nothing in place of 0.25/,
    )
    // One that is there only now and then is chance.
    expect(await faultOf({ first: [scores(0.5), two], later: two })).toBeUndefined()
    expect(await faultOf({ first: [two, scores(0.5)], later: scores(0.5) })).toBeUndefined()
  })
  test('as texts are not compared as numbers', async () => {
    expect(await faultOf({ first: [scores(0.5)], later: labels(0) })).toBeDefined()
    expect(await faultOf({ first: [scores(0.5)], later: [of({ score: '0.50' })] })).toMatch(
      /"0.50" in place of 0.5/,
    )
  })
  test('are shown with four digits', async () => {
    expect(await faultOf({ first: [scores(0.123456)], later: scores(0.234567) })).toContain(
      'score: 0.2346 in place of 0.1235',
    )
  })
  test('are shown from the first different one, four of them', async () => {
    const list = (...y: number[]) => [of({ y })]
    expect(
      await faultOf({ first: [list(1, 2, 3, 4, 5, 6, 7)], later: list(1, 2, 9, 4, 5, 6, 7) }),
    ).toContain('request 0, y[]: [9,4,5,6] (from value 2) in place of [3,4,5,6] (from value 2)')
    expect(await faultOf({ first: [list(1, 2)], later: list(1, 2, 3) })).toContain(
      'y[]: [1,2,3] in place of [1,2]',
    )
  })
  test('of a list of 2,048 all count; of a longer one as many, evenly', async () => {
    const list = (n: number, at: number, other: number) => [
      of({ y: Array.from({ length: n }, (_, i) => (i === at ? other : 0.5)) }),
    ]
    for (const [n, at, seen] of [
      [2048, 2047, true],
      [2048, 1, true],
      [4096, 1, false],
      [4096, 4094, true],
    ] as const) {
      const fault = await faultOf({ first: [list(n, at, 0.5)], later: list(n, at, 0.9) })
      expect(fault !== undefined, `${at} of ${n}`).toBe(seen)
    }
  })
  test('far down a long list', async () => {
    const long = (last: number) => [
      of({ y: Array.from({ length: 100_000 }, (_, i) => (i > 90_000 ? last : i / 1e5)) }),
    ]
    expect(await faultOf({ first: [long(0.5)], later: long(0.5) })).toBeUndefined()
    expect(await faultOf({ first: [long(0.5)], later: long(0.9) })).toMatch(/0.9.*in place of.*0.5/)
  })
})

describe('labels', () => {
  const first = [labels('a', 'b', 'a', 'b')]
  test('one of four may differ', () =>
    expect(faultOf({ first, later: labels('a', 'b', 'a', 'a') })).resolves.toBeUndefined())
  test('two of four are a fault', () =>
    expect(faultOf({ first, later: labels('a', 'b', 'b', 'a') })).resolves.toMatch(
      /"b" in place of "a"/,
    ))
  test('one of one is a fault', () =>
    expect(faultOf({ first: [labels('a')], later: labels('b') })).resolves.toBeDefined())
  test('whole numbers are labels', () =>
    expect(faultOf({ first: [labels(1000)], later: labels(1001) })).resolves.toBeDefined())
})

describe('parts that are not compared', () => {
  test('ids, times and random values are found by repetition', async () => {
    const once = (n: number) => [of({ ref: `x${n}`, draw: Math.sin(n), label: 'a' })]
    expect(await faultOf({ first: [once(1), once(2), once(3)], later: once(9) })).toBeUndefined()
    expect(
      await faultOf({ first: [once(1), once(2)], later: [of({ ref: 'x', draw: 0, label: 'b' })] }),
    ).toMatch(/label/)
  })
  test('a completely random answer is not compared', () =>
    expect(
      faultOf({ first: [labels('a', 'b'), labels('c', 'd')], later: labels('e', 'f') }),
    ).resolves.toBeUndefined())
  test('facts about the server are ignored, except in tensors', async () => {
    const about = (pid: number, batch: number, label = 'a') => [
      of({ pid, size: batch, took_ms: pid / 10, label }),
    ]
    expect(await faultOf({ first: [about(10, 1)], later: about(20, 8) })).toBeUndefined()
    expect(await faultOf({ first: [about(10, 1)], later: about(20, 4) })).toMatch(/size/)
    expect(await faultOf({ first: [about(10, 1)], later: about(20, 8), tensors: true })).toMatch(
      /pid/,
    )
  })
  test('echoed headers are ignored', async () => {
    const echoed = (headers: object) => [of({ headers, label: 'a' })]
    const [first, later] = [echoed({ host: 'h', connection: 'keep-alive' }), echoed({ host: 'h' })]
    expect(await faultOf({ first: [first], later })).toBeUndefined()
  })
  test('an echoed parameter is a single value of each configuration', async () => {
    const sizes = (...size: number[]) => [of({ size })]
    expect(await faultOf({ first: [sizes(1)], later: sizes(8) })).toBeUndefined()
    expect(await faultOf({ first: [sizes(1, 1)], later: sizes(8, 8) })).toMatch(/size/)
    expect(await faultOf({ first: [sizes(1, 1)], later: sizes(8) })).toMatch(/size/)
    expect(await faultOf({ first: [sizes(2)], later: sizes(8) })).toMatch(/size/)
  })
  test('a label that is also a parameter of the other configuration counts', () =>
    expect(faultOf({ first: [labels(0, 0)], later: labels(8, 8) })).resolves.toMatch(
      /label: 8 in place of 0/,
    ))
})

describe('texts of language models', () => {
  const first = [[said('Paris is'), said('Yes, it'), said('Four'), said('Blue')]]
  test('may diverge after the first word', () =>
    expect(
      faultOf({
        first,
        later: [said('Paris was'), said('Yes, of'), said('Four is'), said('Green')],
      }),
    ).resolves.toBeUndefined())
  test('that mostly begin differently are a fault', () =>
    expect(
      faultOf({ first, later: [said('!!!'), said('!!!'), said('!!!'), said('Blue')] }),
    ).resolves.toMatch(/"!!!" in place of "Paris"/))
  test('at 16 bits may differ as often as at 32', async () => {
    const rest = { bits: 16 } as const
    expect(
      await faultOf({ first, later: [said('x'), said('y'), said('z'), said('Blue')], rest }),
    ).toBeDefined()
    expect(
      await faultOf({ first, later: [said('x'), said('y'), said('Four'), said('Blue')], rest }),
    ).toBeUndefined()
  })
  test('at few bits may differ, unless all do', async () => {
    const rest = { bits: 4 } as const
    expect(
      await faultOf({ first, later: [said('x'), said('y'), said('z'), said('Blue')], rest }),
    ).toBeUndefined()
    expect(
      await faultOf({ first, later: [said('x'), said('y'), said('z'), said('w')], rest }),
    ).toBeDefined()
  })
})

test('every answer is checked against the expectations', async () => {
  const check = new AnswerCheck(
    { expect: [{ path: 'label', value: 'a' }], bits: 32, configuration: {} },
    createClient(false),
  )
  check.checkBytes(3, Buffer.from('{"label": "a"}'))
  expect(await check.findFault()).toBeUndefined()
  check.checkBytes(4, Buffer.from('{"label": "b"}'))
  expect(await check.findFault()).toBe(
    'request 4 was answered, but label is "b", and "a" is expected',
  )
})

test('an unreadable answer is reported', async () => {
  const check = new AnswerCheck({ expect: [], bits: 32, configuration: {} }, createClient(false))
  check.checkBytes(0, Buffer.from('<html>'))
  expect(await check.findFault()).toMatch(/request 0 got an unreadable answer/)
})

test.each([
  [['fp32', 8, 'T4'], 32],
  [['half'], 16],
  [['bfloat16', 'L4'], 16],
  [['fp16', 'int8'], 8],
  [['fp8_e4m3'], 8],
  [['awq', 'half'], 4],
  [['model-Q4_K_M.gguf'], 4],
  [['T4', 'A10G', 'none'], 32],
] as const)('%j is of %i bits', (values, bits) => expect(detectBits(values)).toBe(bits))
