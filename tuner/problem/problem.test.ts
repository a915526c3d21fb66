import { describe, expect, test } from 'vitest'
import { defaultPriceBook } from '../../trials/prices/book.ts'
import { useWorkspace } from '../config/testing/workspace.ts'
import {
  createCapacityEstimator,
  createLabeller,
  createPricing,
  createProblem,
  createRankingCriteria,
  loadPriceBook,
} from './problem.ts'

const { path, write, loadFile } = useWorkspace()
const bert = (flags: Record<string, unknown> = {}, more = '') =>
  loadFile(`model: bert\nslo: 50ms\n${more}`, { devices: 'emulated', gpus: 'T4,V100', ...flags })
const onT4 = { cpuCores: 4, gpu: 'T4', gpuMemoryPercent: 100, batchSize: 8 }
const { vcpu, memoryGiB, gpus } = defaultPriceBook

describe('prices', () => {
  test('are those of cores, memory and the share of a GPU, whatever the other parameters', () => {
    const price = createPricing(defaultPriceBook)
    const whole = 4 * vcpu.perHour + 2 * memoryGiB.perHour + gpus.T4!.perHour
    expect(price({ ...onT4, memoryMiB: 2048 })).toBeCloseTo(whole, 9)
    expect(price({ ...onT4, memoryMiB: 2048, batchSize: 1 })).toBe(
      price({ ...onT4, memoryMiB: 2048 }),
    )
    for (const [other, dearer] of [
      [{ cpuCores: 8 }, 4 * vcpu.perHour],
      [{ memoryMiB: 4096 }, 2 * memoryGiB.perHour],
      [{ gpu: 'V100' }, gpus.V100!.perHour - gpus.T4!.perHour],
      [{ gpuMemoryPercent: 50 }, -0.5 * gpus.T4!.perHour],
      [{ gpus: 2 }, gpus.T4!.perHour],
      [{ prefillReplicas: 1, decodeReplicas: 2 }, 2 * whole],
    ] as const)
      expect(
        price({ ...onT4, memoryMiB: 2048, ...other }) - whole,
        JSON.stringify(other),
      ).toBeCloseTo(dearer, 9)
  })

  test('are memoised by configuration, because samplers price whole grids', () => {
    let read = 0
    const counting = {
      ...defaultPriceBook,
      get vcpu() {
        read++
        return vcpu
      },
    }
    const price = createPricing(counting)
    const first = price(onT4)
    const before = read
    expect(price({ ...onT4, batchSize: 64 })).toBe(first)
    expect(read).toBe(before)
    price({ ...onT4, cpuCores: 2 })
    expect(read).toBeGreaterThan(before)
  })

  test("are those of the user's price book where one is set", async () => {
    expect(await loadPriceBook(undefined)).toBe(defaultPriceBook)
    write('prices.yaml', 'currency: USD\nvcpu: 1\nmemoryGiB: 0.5\ngpus: {T4: 7}\n')
    const book = await loadPriceBook(path('prices.yaml'))
    expect(book.gpus.T4!.perHour).toBe(7)
    await expect(loadPriceBook(path('none.yaml'))).rejects.toThrow(/none\.yaml/)
  })
})

describe('the problem of the search', () => {
  test('has the space, objective, limit and prices of the experiment', () => {
    const experiment = bert()
    const problem = createProblem(experiment, defaultPriceBook)
    expect(problem).toMatchObject({ objective: { kind: 'price-per-request' }, constraintLimit: 50 })
    expect(problem.space).toBe(experiment.space)
    expect(problem.pricePerHour(onT4)).toBeCloseTo(createPricing(defaultPriceBook)(onT4), 12)
  })

  test.each([
    [{ gpuScheme: 'dra' }, 1],
    [{ gpuScheme: 'dra', dra: { sharing: 'time-slicing' } }, 1],
    [{ gpuScheme: 'dra', dra: { sharing: 'capacity' } }, 0.5],
    [{ gpuScheme: 'hami' }, 0.5],
  ] as const)('half a GPU by %j is paid as %d of one', (kubernetes, paid) => {
    const half = { cpuCores: 1, memoryMiB: 1024, gpu: 'T4', gpuMemoryPercent: 50 }
    const of = createProblem(
      { ...bert(), backend: 'kubernetes', kubernetes },
      defaultPriceBook,
    ).pricePerHour(half)
    expect(of).toBeCloseTo(vcpu.perHour + memoryGiB.perHour + paid * gpus.T4!.perHour, 9)
  })

  test('has a prior for the built-in predictor on GPUs: a V100 serves more than a T4, with less latency', () => {
    const { priorLogRate, priorLogConstraint, cannotServe, memoryFitProbability, priorFactors } =
      createProblem(bert(), defaultPriceBook)
    const onV100 = { ...onT4, gpu: 'V100' }
    expect(priorLogRate!(onV100)!).toBeGreaterThan(priorLogRate!(onT4)!)
    expect(priorLogConstraint!(onV100)!).toBeLessThan(priorLogConstraint!(onT4)!)
    expect([
      cannotServe!(onT4),
      cannotServe!({ ...onT4, gpuMemoryPercent: 5, batchSize: 256 }),
    ]).toEqual([false, true])
    expect(
      [
        memoryFitProbability!(onT4),
        memoryFitProbability!({ ...onT4, gpuMemoryPercent: 5, batchSize: 256 }),
      ].map((p) => p > 0.5),
    ).toEqual([true, false])
    // Of CPU work, batch, share and cores, and of each of the two GPUs.
    expect(priorFactors!.sd).toHaveLength(6)
  })

  test('has a prior for the built-in predictor on cores: two serve more than one, but less than twice', () => {
    const experiment = loadFile('model: bert-tiny\nslo: 50ms\n', { devices: 'cpu' })
    const { priorLogRate, priorFactors } = createProblem(experiment, defaultPriceBook)
    const gain =
      priorLogRate!({ cpuCores: 2, batchSize: 8 })! - priorLogRate!({ cpuCores: 1, batchSize: 8 })!
    expect(gain).toBeGreaterThan(0.4)
    expect(priorFactors!.sd).toHaveLength(5)
    expect(createCapacityEstimator(experiment)!({ cpuCores: 1, batchSize: 8 })).toBeGreaterThan(50)
  })

  test('has no prior factors for several model variants', () => {
    const variants = 'variants: {a: {quality: 1}, b: {quality: 0.9, model: distilbert}}\n'
    const problem = createProblem(bert({}, variants), defaultPriceBook)
    expect(problem).not.toHaveProperty('priorFactors')
    expect(problem.priorLogRate!({ ...onT4, variant: 'b' })!).toBeGreaterThan(
      problem.priorLogRate!({ ...onT4, variant: 'a' })!,
    )
  })

  test.each<[string, () => ReturnType<typeof bert>]>([
    [
      'for a command with unknown batching',
      () =>
        loadFile(
          "model: bert\nslo: 50ms\npredictor: {command: 'serve'}\nspace: {cpuCores: [1, 2], gpu: [T4, V100]}\n",
          {},
          { cpuCores: 4, gpus: ['T4', 'V100'] },
        ),
    ],
    [
      'for a command without a GPU',
      () =>
        loadFile(
          "model: bert\nslo: 50ms\npredictor: {command: 'serve ${batchSize}'}\nspace: {cpuCores: [1, 2], batchSize: [1, 8]}\n",
          {
            devices: 'cpu',
          },
        ),
    ],
  ])('has no prior %s', (_, make) => {
    const experiment = make()
    expect(createProblem(experiment, defaultPriceBook)).not.toHaveProperty('priorLogRate')
    expect(createCapacityEstimator(experiment)).toBeUndefined()
  })
})

describe('the capacity by the device model', () => {
  test('is estimated for a configuration that serves', () => {
    const expectation = createCapacityEstimator(bert())!
    expect(Math.log(expectation(onT4)!)).toBeCloseTo(
      createProblem(bert(), defaultPriceBook).priorLogRate!(onT4)!,
      1,
    )
    expect(expectation({ ...onT4, gpuMemoryPercent: 5, batchSize: 256 })).toBeUndefined()
  })

  test('is not estimated in virtual time, where a shorter measurement saves nothing', () => {
    expect(
      createCapacityEstimator(bert({ backend: 'simulated', devices: undefined })),
    ).toBeUndefined()
  })

  test('is undefined where the unloaded latency violates the SLO', () => {
    expect(createCapacityEstimator(bert({ slo: '0.1ms' }))!(onT4)).toBeUndefined()
  })
})

test('labels and ranking follow the experiment', () => {
  const experiment = bert(
    { minQuality: '0.95' },
    'variants: {a: {quality: 1}, b: {quality: 0.96, model: distilbert}}\n',
  )
  const label = createLabeller(experiment)
  expect(label(onT4)).toBe('4 cores, T4, batch 8')
  const view = createRankingCriteria(experiment, { pricePerHour: () => 1, label })
  expect(view).toMatchObject({
    slo: { limitMs: 50 },
    objective: { kind: 'price-per-request' },
    minQuality: 0.95,
  })
  expect(view.quality!({ variant: 'b' })).toBe(0.96)
})
