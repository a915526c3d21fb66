import { expect, test } from 'vitest'
import { seeded } from '../../profiler/seeded-random.ts'
import type { Slo } from '../../profiler/types.ts'
import { type CanaryQuestion, judgeCanary, leastProbes } from './canary.ts'

const slo: Slo = { percentile: 0.99, limitMs: 100, maxErrorRate: 0.01 }
const question: CanaryQuestion = { slo, risk: 0.05, leastS: 60, mostS: 180 }
const probes = (n: number, over = 0, failed = 0) => [
  ...Array(n - over - failed).fill(20),
  ...Array(over).fill(150),
  ...Array(failed).fill(Number.NaN),
]

test('kept once enough probes are within the limit, and not before its time', () => {
  const least = leastProbes(slo, question.risk)
  expect(least).toBeGreaterThan(300)
  expect(judgeCanary({ latencyMs: probes(least), seconds: 60 }, question).kind).toBe('keeps')
  expect(judgeCanary({ latencyMs: probes(least), seconds: 59 }, question).kind).toBe('undecided')
  expect(
    judgeCanary({ latencyMs: probes(Math.floor(least / 1.05)), seconds: 100 }, question).kind,
  ).toBe('undecided')
})

test('sent back as soon as too many are over the limit or fail, whatever the time', () => {
  expect(judgeCanary({ latencyMs: probes(4, 4), seconds: 1 }, question)).toMatchObject({
    kind: 'misses',
    text: expect.stringContaining('4 over 100 ms'),
  })
  const generous = {
    ...question,
    slo: { ...slo, percentile: 0.5, limitMs: 1000, maxErrorRate: 0.001 },
  }
  expect(judgeCanary({ latencyMs: probes(50, 0, 4), seconds: 10 }, generous)).toMatchObject({
    kind: 'misses',
    text: expect.stringContaining('0.1 %'),
  })
  expect(
    judgeCanary(
      { latencyMs: probes(50, 0, 1), seconds: 10 },
      { ...generous, slo: { ...generous.slo, maxErrorRate: 0 } },
    ).kind,
  ).toBe('misses')
})

test('what stays undecided is doubt at the end, also where no probe could be sent', () => {
  expect(judgeCanary({ latencyMs: probes(100, 1), seconds: 179 }, question).kind).toBe('undecided')
  expect(judgeCanary({ latencyMs: probes(100, 1), seconds: 180 }, question).kind).toBe('in doubt')
  expect(judgeCanary({ latencyMs: [], seconds: 10 }, question).kind).toBe('undecided')
  expect(judgeCanary({ latencyMs: [], seconds: 180 }, question)).toMatchObject({
    kind: 'in doubt',
    text: 'no probe could be sent',
  })
})

/**
 * A hundred canaries of a share over the limit, looked at after every window of 60 probes: how
 * often each verdict came.
 */
function outcomes(share: number, seed: number): Record<string, number> {
  const uniform = seeded(seed)
  const counted: Record<string, number> = { keeps: 0, misses: 0, 'in doubt': 0 }
  for (let canary = 0; canary < 100; canary++) {
    const latencyMs: number[] = []
    for (let window = 1; ; window++) {
      for (let i = 0; i < 60; i++) latencyMs.push(uniform() < share ? 150 : 20)
      const { kind } = judgeCanary({ latencyMs, seconds: window * 10 }, question)
      if (kind === 'undecided') continue
      counted[kind]!++
      break
    }
  }
  return counted
}

test('looked at after every window, both errors are as rare as is said', () => {
  // Just at what the SLO allows, on either side: 5 of 100 at most, and what chance adds in a
  // hundred.
  expect(outcomes(0.0101, 1).keeps).toBeLessThanOrEqual(11)
  expect(outcomes(0.0099, 2).misses).toBeLessThanOrEqual(11)
  // A clear case is decided.
  expect(outcomes(0.0005, 3).keeps).toBeGreaterThan(90)
  expect(outcomes(0.05, 4)).toEqual({ keeps: 0, misses: 100, 'in doubt': 0 })
})
