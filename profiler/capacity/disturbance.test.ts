import { expect, test } from 'vitest'
import { StallWatch } from '../generator/stall-watch.ts'
import type { LoadRun } from '../types.ts'
import { changeOfSpeed, disagreements } from './checks.ts'
import { disturbances, disturbedMs, meets } from './disturbance.ts'
import { stepsOf } from './steps.ts'

const run = (more: Partial<LoadRun>): LoadRun => ({
  load: { kind: 'open', rateRps: 100, durationS: 10, arrivals: { kind: 'poisson' }, seed: 1 },
  sentMs: Float64Array.from({ length: 1000 }, (_, i) => i * 10),
  latencyMs: new Float64Array(1000).fill(5),
  errorKinds: {},
  planned: 1000,
  latenessP99Ms: 0,
  seconds: 10,
  elapsedS: 10,
  generatorCores: 0.1,
  ...more,
})

test('a timer that fires late is a stall of the process', () => {
  const watch = new StallWatch(10)
  for (const at of [10, 20.5, 31, 90, 100]) watch.tick(at)
  expect([...watch.stallsMs()]).toEqual([41, 90])
})

test('stalls count with twice their length after them, joined where they touch, short ones not', () => {
  const spans = disturbances(run({ stallsMs: Float64Array.of(100, 120, 150, 180, 500, 505) }), 10)
  expect(spans).toEqual([[100, 240]])
  expect(disturbedMs(spans)).toBe(140)
  expect([meets(spans, 0, 99), meets(spans, 90, 101), meets(spans, 150, 160), meets(spans, 241, 250)]).toEqual([false, true, true, false])
  expect(disturbances(run({}), 10)).toEqual([])
})

test('steps that met a disturbance are no steps of the server', () => {
  const latencyMs = new Float64Array(1000).fill(5)
  for (let i = 20; i <= 28; i++) latencyMs[i] = 290 - i * 10
  const disturbed = [[200, 290]] as const
  expect(Math.max(...stepsOf(run({ latencyMs }), 1).tookMs)).toBeGreaterThan(50)
  expect(Math.max(...stepsOf(run({ latencyMs }), 1, disturbed).tookMs)).toBeLessThan(20)
})

test('windows at one rate that differ beyond chance are said to disagree', () => {
  const slow = new Float64Array(1000).map((_, i) => (i % 4 === 0 ? 90 : 5))
  expect(disagreements([run({}), run({ latencyMs: slow })], 50).join()).toMatch(/disagree: 0\.0 % and then 25\.0 %/)
  expect(disagreements([run({}), run({})], 50)).toEqual([])
  const otherRate = run({ latencyMs: slow, load: { kind: 'open', rateRps: 150, durationS: 10, arrivals: { kind: 'poisson' }, seed: 1 } })
  expect(disagreements([run({}), otherRate], 50)).toEqual([])
})

test('a server that changed is said to have', () => {
  const at = (ms: number) => run({ latencyMs: new Float64Array(50).map((_, i) => ms + (i % 3)) })
  expect(changeOfSpeed(at(10), at(20)).join()).toMatch(/got slower/)
  expect(changeOfSpeed(at(20), at(10)).join()).toMatch(/got faster/)
  expect(changeOfSpeed(at(10), at(10.2))).toEqual([])
})
