import { describe, expect, test } from 'vitest'
import type { Measurement } from '../../profiler/model/measurement.ts'
import type { Slo } from '../../profiler/model/slo.ts'
import type { Configuration } from '../../search/types.ts'
import type { FinishedTrial, Usage } from '../../trials/types.ts'
import { complete, measured, sampleInput, slo } from '../samples.contract.ts'
import { recommend } from './recommend.ts'

const own: Configuration = { cpuCores: 2, gpu: 'T4', gpuMemoryPercent: 25, batchSize: 8 }
/**
 * p99 5 ms when idle, 200 req/s at saturation, of which 180 keep 50 ms: nothing is near its limit.
 */
const easy = measured(200, 5)
const one = (
  change: { usage?: Usage; measurement?: Partial<Measurement>; configuration?: Configuration } = {},
): FinishedTrial =>
  complete(
    1,
    change.configuration ?? own,
    { ...easy, ...change.measurement },
    change.usage && { usage: change.usage },
  )
const bindingOf = (trials: readonly FinishedTrial[], asked: Slo = slo) =>
  recommend({ ...sampleInput, trials, slo: asked }).binding

const joint: Slo = {
  ...slo,
  limits: [
    { metric: 'ttft', limitMs: 50 },
    { metric: 'tpot', limitMs: 10 },
  ],
}

describe('a device that is busy', () => {
  test.each<[string, Usage, string, string]>([
    [
      'a GPU at 80 %',
      { gpuUtilization: 0.8, cpuCores: 0.2 },
      'gpu',
      'GPU busy 80 % of the time, 2 cores 10 % busy',
    ],
    ['a GPU alone', { gpuUtilization: 0.9 }, 'gpu', 'GPU busy 90 % of the time'],
    [
      'cores at 80 %',
      { gpuUtilization: 0.1, cpuCores: 1.6 },
      'cpu',
      '2 cores 80 % busy, GPU busy 10 % of the time',
    ],
    ['cores alone', { cpuCores: 1.9 }, 'cpu', '2 cores 95 % busy'],
    [
      'both as busy',
      { gpuUtilization: 0.9, cpuCores: 1.8 },
      'gpu',
      'GPU busy 90 % of the time, 2 cores 90 % busy',
    ],
    [
      'the busier of two',
      { gpuUtilization: 0.85, cpuCores: 1.8 },
      'cpu',
      '2 cores 90 % busy, GPU busy 85 % of the time',
    ],
    [
      'the busiest seconds of the cores',
      { cpuCores: 0.4, busiestCpuCores: 1.7 },
      'cpu',
      '2 cores 85 % busy',
    ],
    [
      'the busiest seconds of the GPU',
      { gpuUtilization: 0.3, busiestGpuUtilization: 0.97 },
      'gpu',
      'GPU busy 97 % of the time',
    ],
  ])('%s', (_, usage, what, evidence) => {
    expect(bindingOf([one({ usage })])).toEqual({ what, evidence })
  })

  test.each<[string, Usage]>([
    [
      'nothing measured is near its limit: GPU busy 79 % of the time, 2 cores 79 % busy',
      { gpuUtilization: 0.79, cpuCores: 1.58 },
    ],
    ['nothing measured is near its limit: GPU busy 0 % of the time', { gpuUtilization: 0 }],
    [
      'nothing measured is near its limit: GPU busy 36 % of the time, 2 cores 52 % busy; about one core is busy: if a single thread does the work, it is the bottleneck',
      { gpuUtilization: 0.36, cpuCores: 1.03 },
    ],
    ['usage was not measured', { cpuCores: 0 }],
  ])('%s', (evidence, usage) => {
    expect(bindingOf([one({ usage })])).toEqual({ what: 'unknown', evidence })
  })

  test('cores in use say nothing where none were given', () => {
    const { cpuCores: _, ...configuration } = own
    expect(bindingOf([one({ configuration, usage: { cpuCores: 3 } })])).toEqual({
      what: 'unknown',
      evidence: 'usage was not measured',
    })
  })

  test('the second, longer measurement tells what was busy', () => {
    const first = one({ usage: { gpuUtilization: 0.95 } })
    const second = {
      ...complete(2, own, easy, { usage: { cpuCores: 1.9 } }),
      purpose: 'confirmation',
    } as const
    expect(bindingOf([first, second])).toEqual({ what: 'cpu', evidence: '2 cores 95 % busy' })
  })
})

describe('memory', () => {
  const outOfMemory = (
    number: number,
    configuration: Configuration,
    reason: 'out-of-memory' | 'crashed' = 'out-of-memory',
  ) =>
    ({
      number,
      configuration,
      why: '',
      startedAt: '',
      seconds: 1,
      state: 'infeasible',
      reason,
      detail: '',
    }) as const
  const bigger = { ...own, batchSize: 64 }

  test('a neighbour, one parameter away, that ran out of it', () => {
    expect(bindingOf([one(), outOfMemory(5, bigger)])).toEqual({
      what: 'memory',
      evidence: 'batchSize 64 (trial 5) is out of memory',
    })
    expect(bindingOf([one({ usage: { cpuCores: 1 } }), outOfMemory(5, bigger)]).evidence).toBe(
      'batchSize 64 (trial 5) is out of memory, 2 cores 50 % busy',
    )
  })

  test.each<[string, FinishedTrial]>([
    ['two parameters away', outOfMemory(5, { ...bigger, cpuCores: 4 })],
    ['that crashed', outOfMemory(5, bigger, 'crashed')],
    [
      'that could not be measured',
      { ...outOfMemory(5, bigger), state: 'failed', error: '' } as unknown as FinishedTrial,
    ],
  ])('not a configuration %s', (_, other) => {
    expect(bindingOf([one(), other]).what).toBe('unknown')
  })

  test('a busy device comes first', () => {
    expect(bindingOf([one({ usage: { gpuUtilization: 0.95 } }), outOfMemory(5, bigger)]).what).toBe(
      'gpu',
    )
  })

  test('where nothing ever served, it is what the first of them says of itself', () => {
    const failed = {
      ...outOfMemory(1, own),
      state: 'failed',
      error: 'no free port',
    } as unknown as FinishedTrial
    expect(bindingOf([failed, outOfMemory(5, bigger)])).toEqual({
      what: 'memory',
      evidence: 'out of memory',
    })
    expect(bindingOf([outOfMemory(5, bigger, 'crashed')])).toEqual({
      what: 'unknown',
      evidence: 'crashed',
    })
    expect(bindingOf([failed])).toEqual({ what: 'unknown', evidence: 'not measured: no free port' })
    expect(bindingOf([])).toEqual({ what: 'unknown', evidence: 'no trial has finished' })
  })
})

describe('the SLO', () => {
  test.each<[string, number, number, string]>([
    [
      'a third of what it could serve',
      200,
      30,
      'saturates at 200 req/s, meets the SLO up to 40 % of that, one request at a time takes 30 ms of the 50 ms allowed at p99',
    ],
    ['a queue alone', 200, 24, 'saturates at 200 req/s, meets the SLO up to 52 % of that'],
  ])('%s', (_, saturationRps, unloadedMs, evidence) => {
    expect(bindingOf([complete(1, own, measured(saturationRps, unloadedMs))])).toEqual({
      what: 'slo',
      evidence,
    })
  })

  test('with what was used beside it', () => {
    expect(
      bindingOf([complete(1, own, measured(200, 24), { usage: { cpuCores: 1 } })]).evidence,
    ).toBe('saturates at 200 req/s, meets the SLO up to 52 % of that, 2 cores 50 % busy')
  })

  test('just on either side of four fifths of the saturation', () => {
    const of = (saturationRps: number) =>
      bindingOf([one({ measurement: { capacityRps: 160, saturationRps } })])
    expect(of(201)).toEqual({
      what: 'slo',
      evidence: 'saturates at 201 req/s, meets the SLO up to 80 % of that',
    })
    expect(of(200).what).toBe('unknown')
    expect(of(0).what).toBe('unknown')
  })

  test('just on either side of half the limit when idle', () => {
    const of = (p99Ms: number) =>
      bindingOf([
        one({
          measurement: { unloaded: { ...easy.unloaded, p99Ms }, points: [], saturationRps: 0 },
        }),
      ])
    expect(of(25).what).toBe('unknown')
    expect(of(25.2)).toEqual({
      what: 'slo',
      evidence: 'one request at a time takes 25 ms of the 50 ms allowed at p99',
    })
  })

  test('a joint one is told in parts of its limits', () => {
    const measurement = {
      slo: joint,
      unloaded: { ...easy.unloaded, p99Ms: 30 },
      points: [],
      saturationRps: 0,
    }
    expect(bindingOf([one({ measurement })], joint)).toEqual({
      what: 'slo',
      evidence: 'one request at a time takes 60 % of the limits at p99 of TTFT and TPOT',
    })
  })

  const none = {
    outcome: 'slo-unattainable',
    capacityRps: 0,
    capacityCi90Rps: [0, 0],
    points: [],
  } as const
  test('missed by one request at a time', () => {
    const unloaded = { ...easy.unloaded, p99Ms: 60 }
    expect(bindingOf([one({ measurement: { ...none, unloaded } })])).toEqual({
      what: 'slo',
      evidence: 'one request at a time takes 60 ms at p99, over 50 ms',
    })
    expect(
      bindingOf([one({ measurement: { ...none, unloaded, slo: joint } })], joint).evidence,
    ).toBe(
      'one request at a time takes 120 % of the limits at p99 of TTFT and TPOT; the SLO is TTFT <= 50 ms and TPOT <= 10 ms for 99 % of requests',
    )
  })

  test('met by one request at a time, violated at every rate tried', () => {
    expect(bindingOf([one({ measurement: none })])).toEqual({
      what: 'slo',
      evidence: 'violated the SLO at every rate tried, though one request at a time takes 5.0 ms',
    })
  })
})

test('the load generator, whatever else was busy', () => {
  expect(
    bindingOf([
      one({ usage: { gpuUtilization: 0.95 }, measurement: { outcome: 'generator-limit' } }),
    ]),
  ).toEqual({
    what: 'generator',
    evidence:
      'the load generator reached its limit before the predictor did: the capacity is a lower bound',
  })
})

test('no device and no SLO, of what fails whatever it is sent', () => {
  const nothing = {
    capacityRps: 0,
    capacityCi90Rps: [0, 0],
    points: [],
    detail: 'status 500 of 10 requests',
  } as const
  for (const outcome of ['errors', 'server-died'] as const)
    expect(bindingOf([one({ measurement: { ...nothing, outcome } })])).toEqual({
      what: 'unknown',
      evidence: 'status 500 of 10 requests',
    })
})

test('nothing, of what the machine spoilt', () => {
  const spoilt = {
    outcome: 'host-interference',
    capacityRps: 0,
    capacityCi90Rps: [0, Infinity],
    bounds: 'none',
  } as const
  expect(bindingOf([one({ usage: { gpuUtilization: 0.95 }, measurement: spoilt })])).toEqual({
    what: 'unknown',
    evidence: 'inconclusive',
  })
})
