import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { schedule } from '../../../profiler/load/arrivals.ts'
import type { Load } from '../../../profiler/model/load.ts'
import { createUniform } from '../../../profiler/seeded-random.ts'
import { buildPipeline, type Pipeline, type Stage } from '../../pipeline/pipeline.ts'
import { joinConfiguration } from '../../pipeline/stage-configuration.ts'
import type { BatchQueueOptions } from './batch-queue.ts'
import { SimulatedServer } from './batch-server.ts'
import { createPipelinePredictor } from './pipeline-estimate.ts'
import { PipelineServer, type SimulatedStage } from './pipeline-server.ts'

const noCpu = { acceptMs: 0, prepareMs: 0, jitter: 0, overheadMs: 0, relativeError: 0 }
const queue = (options: Partial<BatchQueueOptions> = {}): BatchQueueOptions => ({
  cpu: noCpu,
  cpuCores: 1,
  maxBatchSize: 1,
  maxDelayMs: 0,
  queueLimit: 1e6,
  instances: 1,
  devices: 1,
  batchMs: () => 10,
  deviceJitter: 0,
  uniform: createUniform(5),
  ...options,
})
const build = (...stages: (Partial<Stage> & Pick<Stage, 'name'>)[]): Pipeline => {
  const built = buildPipeline(
    stages.map((stage) => ({ calls: [], parallelCalls: false, ...stage })),
  )
  if (!('pipeline' in built)) throw new Error(built.faults[0]!.what)
  return built.pipeline
}
const serve = (pipeline: Pipeline, stages: Record<string, SimulatedStage>) =>
  new PipelineServer({
    pipeline,
    stages: new Map(Object.entries(stages)),
    schedule,
    predictCapacity: () => ({ capacityRps: 1, saturationRps: 1, unloadedMs: 1 }),
  })
const poisson = (rateRps: number, requests: number): Load => ({
  kind: 'open',
  rateRps,
  arrivals: { kind: 'poisson' },
  durationS: requests / rateRps,
  seed: 11,
})
const closed = (connections: number, durationS: number): Load => ({
  kind: 'closed',
  connections,
  durationS,
})
const mean = (values: Float64Array) => values.reduce((sum, v) => sum + v, 0) / values.length

const batching = fc.record({
  cpuCores: fc.constantFrom(1, 1.5, 4),
  maxBatchSize: fc.constantFrom(1, 4, 16),
  maxDelayMs: fc.constantFrom(0, 3),
  queueLimit: fc.constantFrom(5, 1000),
  devices: fc.constantFrom(1, 3),
  instances: fc.constantFrom(1, 2),
  prepareMs: fc.constantFrom(0, 2),
  baseMs: fc.constantFrom(2, 10),
})
const queueOf = ({ prepareMs, baseMs, ...rest }: Record<string, number>): BatchQueueOptions =>
  queue({
    ...rest,
    cpu: { ...noCpu, acceptMs: 0.1, prepareMs: prepareMs!, jitter: 0.25, overheadMs: 0.3 },
    batchMs: (batch) => baseMs! + 0.5 * batch,
    deviceJitter: 0.05,
    uniform: createUniform(7),
  })

describe('a pipeline of one stage', () => {
  test('is its predictor, under any load', () => {
    fc.assert(
      fc.property(
        batching,
        fc.oneof(
          fc.integer({ min: 10, max: 900 }).map((rate) => poisson(rate, 500)),
          fc.integer({ min: 1, max: 40 }).map((connections) => closed(connections, 0.5)),
        ),
        (options, load) => {
          const alone = new SimulatedServer({ ...queueOf(options), schedule }).play(load)
          const pipeline = serve(build({ name: 'only' }), {
            only: { queue: queueOf(options), replicas: 1 },
          }).play(load)
          expect(pipeline.sentMs).toEqual(alone.sentMs)
          expect(pipeline.latencyMs).toEqual(alone.latencyMs)
        },
      ),
    )
  })
})

describe('latency', () => {
  const three = (parallelCalls: boolean) =>
    build(
      {
        name: 'a',
        calls: [
          { stage: 'b', ratio: 1 },
          { stage: 'c', ratio: 1 },
        ],
        parallelCalls,
      },
      { name: 'b' },
      { name: 'c' },
    )
  const stages = {
    a: { queue: queue({ batchMs: () => 1 }), replicas: 1 },
    b: { queue: queue({ batchMs: () => 20 }), replicas: 1 },
    c: { queue: queue({ batchMs: () => 5 }), replicas: 1 },
  }

  test('adds up calls that follow each other, and takes the longest of parallel ones', () => {
    expect(mean(serve(three(false), stages).play(closed(1, 2)).latencyMs)).toBeCloseTo(26)
    expect(mean(serve(three(true), stages).play(closed(1, 2)).latencyMs)).toBeCloseTo(21)
  })

  test.each([
    [10, 6],
    [6, 10],
  ])(
    'of constant services of %d and %d ms waits as at the slower alone (Friedman 1965)',
    (a, b) => {
      const server = serve(build({ name: 'a', calls: [{ stage: 'b', ratio: 1 }] }, { name: 'b' }), {
        a: { queue: queue({ batchMs: () => a }), replicas: 1 },
        b: { queue: queue({ batchMs: () => b }), replicas: 1 },
      })
      const { latencyMs } = server.play(poisson(70, 200_000))
      const wait = (0.7 * 10) / (2 * (1 - 0.7))
      expect(mean(latencyMs) / (a + b + wait)).toBeCloseTo(1, 1.5)
    },
  )
})

describe('visits', () => {
  test('follow the ratios of calls', () => {
    const server = serve(
      build(
        {
          name: 'a',
          calls: [
            { stage: 'b', ratio: 0.3 },
            { stage: 'c', ratio: 2.5 },
          ],
        },
        { name: 'b' },
        { name: 'c' },
      ),
      {
        a: { queue: queue(), replicas: 1 },
        b: { queue: queue(), replicas: 1 },
        c: { queue: queue(), replicas: 4 },
      },
    )
    server.play(poisson(50, 20_000))
    const [a, b, c] = server.lastPlay.stages.map(({ visits }) => visits)
    expect(b! / a!).toBeCloseTo(0.3, 1.5)
    expect(c! / a!).toBeCloseTo(2.5, 1.5)
  })

  test('of a full queue fail the request, and the rest is answered', () => {
    const server = serve(build({ name: 'a', calls: [{ stage: 'b', ratio: 1 }] }, { name: 'b' }), {
      a: { queue: queue({ batchMs: () => 1 }), replicas: 1 },
      b: { queue: queue({ queueLimit: 3 }), replicas: 1 },
    })
    const { latencyMs } = server.play(poisson(200, 2000))
    const failed = latencyMs.filter((ms) => Number.isNaN(ms)).length / latencyMs.length
    expect(failed).toBeGreaterThan(0.4)
    expect(failed).toBeLessThan(0.6)
  })
})

/** Saturation by a closed loop. */
const saturate = (server: PipelineServer) => {
  const { latencyMs } = server.play(closed(256, 60))
  // Those in flight at the end are not counted.
  return (latencyMs.length - 256) / 60
}

describe('throughput', () => {
  test('is at most that of the binding stage, and close to it', () => {
    fc.assert(
      fc.property(
        fc.array(
          fc.record({ ms: fc.integer({ min: 2, max: 20 }), replicas: fc.constantFrom(1, 2) }),
          {
            minLength: 2,
            maxLength: 3,
          },
        ),
        fc.constantFrom(0.5, 1, 2),
        (drawnStages, ratio) => {
          const names = ['a', 'b', 'c'].slice(0, drawnStages.length)
          const pipeline = build(
            ...names.map((name, i) => ({
              name,
              calls: i + 1 < names.length ? [{ stage: names[i + 1]!, ratio }] : [],
            })),
          )
          const stages = Object.fromEntries(
            drawnStages.map(({ ms, replicas }, i) => [
              names[i]!,
              { queue: queue({ batchMs: () => ms }), replicas },
            ]),
          )
          const binding = Math.min(
            ...drawnStages.map(({ ms, replicas }, i) => (1000 * replicas) / ms / ratio ** i),
          )
          const found = saturate(serve(pipeline, stages))
          // While the queue of the binding stage fills, requests of other branches overtake.
          expect(found).toBeLessThan(1.08 * binding)
          expect(found).toBeGreaterThan(0.75 * binding)
        },
      ),
      { numRuns: 30 },
    )
  })
})

describe('the prediction', () => {
  const slo = { percentile: 0.99, limitMs: 100 }
  const pipeline = build(
    { name: 'a', calls: [{ stage: 'b', ratio: 1 }] },
    { name: 'b', calls: [{ stage: 'c', ratio: 0.3 }] },
    { name: 'c' },
  )
  const model = (stage: string, { batchSize = 1 }: Record<string, number | string>) =>
    queue({
      cpu: { ...noCpu, acceptMs: 0.1, prepareMs: 0.5, jitter: 0.25 },
      maxBatchSize: Number(batchSize),
      maxDelayMs: 2,
      batchMs: (batch) => (stage === 'b' ? 6 + batch : 3 + 0.8 * batch),
      deviceJitter: 0.05,
    })
  const predict = createPipelinePredictor(pipeline, slo, model)
  const at = (replicas: readonly number[], batchSize = 4) =>
    joinConfiguration(
      ['a', 'b', 'c'].map((stage, i) => ({
        stage,
        replicas: replicas[i]!,
        configuration: { batchSize },
      })),
    )
  /** Share of requests over the limit in the simulation of the whole pipeline. */
  const simulateOver = (replicas: readonly number[], batchSize: number, rateRps: number) => {
    const stages = Object.fromEntries(
      ['a', 'b', 'c'].map((stage, i) => [
        stage,
        { queue: model(stage, { batchSize }), replicas: replicas[i]! },
      ]),
    )
    const { violations, requests } = serve(pipeline, stages).countViolations(
      poisson(rateRps, 20_000),
      slo.limitMs,
      1e9,
    )
    return violations / requests
  }

  test.each([
    [[1, 1, 1], 1],
    [[1, 1, 1], 8],
    [[1, 2, 1], 4],
    [[2, 3, 1], 4],
  ])('of %j replicas and batch %d lies within 10 % of the simulation', (replicas, batchSize) => {
    const { capacityRps } = predict(at(replicas, batchSize))!
    expect(simulateOver(replicas, batchSize, 0.9 * capacityRps)).toBeLessThan(0.01)
    expect(simulateOver(replicas, batchSize, 1.1 * capacityRps)).toBeGreaterThan(0.01)
  })

  test('never falls with a replica, beyond the noise of its draws', () => {
    fc.assert(
      fc.property(
        fc.tuple(...Array.from({ length: 3 }, () => fc.integer({ min: 1, max: 4 }))),
        fc.integer({ min: 0, max: 2 }),
        fc.constantFrom(1, 4, 8),
        (replicas, more, batchSize) => {
          const increased = replicas.map((count, i) => count + (i === more ? 1 : 0))
          const [before, after] = [at(replicas, batchSize), at(increased, batchSize)]
          expect(predict(after)!.capacityRps).toBeGreaterThan(0.97 * predict(before)!.capacityRps)
        },
      ),
      { numRuns: 50 },
    )
  })

  test('is at most the saturation of the binding stage, and names it', () => {
    const found = predict(at([4, 1, 4]))!
    expect(found.bindingStage).toBe('b')
    expect(found.capacityRps).toBeLessThan(found.saturationRps)
    expect(found.saturationRps).toBeCloseTo(400)
  })

  test('is 0 where even one request takes too long', () => {
    const tight = createPipelinePredictor(pipeline, { ...slo, limitMs: 5 }, model)
    expect(tight(at([1, 1, 1]))!.capacityRps).toBe(0)
  })
})
