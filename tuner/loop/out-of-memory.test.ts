import { describe, expect, test } from 'vitest'
import type { Configuration, Problem, Sampler } from '../../search/types.ts'
import { isGpuOutOfMemory } from '../../trials/launchers/diagnosis.ts'
import { InfeasibleError } from '../../trials/types.ts'
import { runFakes } from '../testing/fake-run.ts'
import { fakeLauncher, fakePredictor } from '../testing/fakes.ts'
import { addExclusionReason, excludeOutOfMemory } from './out-of-memory.ts'

const problem: Problem = {
  space: {
    parameters: [
      { kind: 'categorical', name: 'gpu', category: 'resource', values: ['T4', 'A10', 'P4'] },
      {
        kind: 'ordinal',
        name: 'gpuMemoryPercent',
        category: 'resource',
        values: [25, 50, 100],
        scale: 'log',
      },
      {
        kind: 'ordinal',
        name: 'memoryMiB',
        category: 'resource',
        values: [2048, 4096],
        scale: 'log',
      },
      { kind: 'ordinal', name: 'batchSize', category: 'server', values: [1, 8, 32], scale: 'log' },
      {
        kind: 'ordinal',
        name: 'workers',
        category: 'args',
        values: [1, 2],
        scale: 'log',
        concurrency: true,
      },
      { kind: 'categorical', name: 'attention', category: 'args', values: ['flash', 'eager'] },
    ],
    constraints: [],
  },
  objective: { kind: 'price-per-request' },
  pricePerHour: () => 1,
}
const base = {
  gpu: 'T4',
  gpuMemoryPercent: 50,
  memoryMiB: 4096,
  batchSize: 8,
  workers: 1,
  attention: 'eager',
}
const cuda =
  'out of memory (torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB) before it was ready'
const ended = (configuration: Configuration, detail = cuda) =>
  ({
    number: 1,
    configuration,
    why: '',
    startedAt: '',
    seconds: 3,
    state: 'infeasible',
    reason: 'out-of-memory',
    detail,
  }) as const
const ruledOut = (change: object, detail?: string) =>
  excludeOutOfMemory(problem, [ended(base, detail)]).cannotServe!({
    ...base,
    ...change,
  } as Configuration)

describe('a launch that ran out of GPU memory', () => {
  test.each([
    ['a larger batch', { batchSize: 32 }],
    ['a smaller share of the GPU', { gpuMemoryPercent: 25 }],
    ['more concurrency', { workers: 2 }],
    ['a GPU with less memory', { gpu: 'P4' }],
    ['less memory of the machine with a larger batch', { memoryMiB: 2048, batchSize: 32 }],
  ])('rules out %s', (_, change) => expect(ruledOut(change)).toBe(true))

  test.each([
    ['a smaller batch', { batchSize: 1 }],
    ['a larger share of the GPU', { gpuMemoryPercent: 100 }],
    ['a smaller batch in a smaller share', { batchSize: 1, gpuMemoryPercent: 25 }],
    ['a larger GPU', { gpu: 'A10' }],
    ['another argument, whose effect is unknown', { attention: 'flash', batchSize: 32 }],
  ])('says nothing about %s', (_, change) => expect(ruledOut(change)).toBe(false))

  test('a process killed by the kernel rules out configurations with no more memory of the machine', () => {
    const killed =
      'out of memory (ended by SIGKILL: the kernel killed it because memory ran out) before it was ready'
    expect(isGpuOutOfMemory(killed)).toBe(false)
    expect(ruledOut({ batchSize: 32 }, killed)).toBe(true)
    const small = excludeOutOfMemory(problem, [ended({ ...base, memoryMiB: 2048 }, killed)])
    expect(small.cannotServe!({ ...base, memoryMiB: 4096, batchSize: 32 })).toBe(false)
    const known = excludeOutOfMemory(problem, [ended({ ...base, memoryMiB: 2048 })])
    expect(known.cannotServe!({ ...base, memoryMiB: 4096, batchSize: 32 })).toBe(true)
  })

  test('lowers the predicted probability that similar configurations fit', () => {
    const { servesProbability } = excludeOutOfMemory(problem, [ended(base)])
    expect(servesProbability!({ ...base, batchSize: 1 })).toBeLessThan(
      servesProbability!({ ...base, gpuMemoryPercent: 100, batchSize: 1 }),
    )
    expect(
      excludeOutOfMemory(problem, [ended(base, 'out of memory (std::bad_alloc)')])
        .servesProbability!({
        ...base,
        batchSize: 1,
      }),
    ).toBe(1)
  })

  test('is the only reason that rules out others; constraints known before are kept', () => {
    expect(excludeOutOfMemory(problem, [{ ...ended(base), reason: 'crashed' }])).toBe(problem)
    const bound = { ...problem, cannotServe: (c: Configuration) => c.batchSize === 1 }
    expect(excludeOutOfMemory(bound, [ended(base)]).cannotServe!({ ...base, batchSize: 1 })).toBe(
      true,
    )
  })

  test('reports how many further configurations it rules out', () => {
    const first = addExclusionReason(ended(base), problem, [])
    // 50 and 25 % of a T4 or a P4, and 25 % of an A10: each with two memories, two batches and two
    // numbers of workers, except the configuration of the trial.
    expect(first).toMatchObject({
      detail: `${cuda}; skipped 39 others with no more GPU memory and no smaller demand for it`,
    })
    const second = ended({ ...base, gpuMemoryPercent: 25 })
    expect(addExclusionReason(second, problem, [ended(base)])).toBe(second)
  })
})

test('a search skips configurations that a launch has ruled out, and stores how many', async () => {
  const launched: unknown[] = []
  const launcher = fakeLauncher(async ({ batchSize }) => {
    launched.push(batchSize)
    if (Number(batchSize) >= 4) throw new InfeasibleError('out-of-memory', cuda)
    return fakePredictor({ isolation: String(batchSize) })
  })
  const sizes = {
    kind: 'ordinal',
    name: 'batchSize',
    category: 'server',
    values: [1, 2, 4, 8, 16],
    scale: 'log',
  } as const
  const { result } = await runFakes(
    {
      launcher,
      problem: { ...problem, space: { parameters: [sizes], constraints: [] } },
      sampler: allowedInOrder,
    },
    { confirm: false },
  )
  expect(launched).toEqual([1, 2, 4])
  expect(result.trials.at(-1)).toMatchObject({
    detail: `${cuda}; skipped 2 others with no more GPU memory and no smaller demand for it`,
  })
})

const allowedInOrder: Sampler = {
  name: 'allowed in order',
  suggest({ cannotServe }, observations, pending) {
    const taken = new Set(
      [...observations.map((o) => o.configuration), ...pending].map((c) => c.batchSize),
    )
    const next = [1, 2, 4, 8, 16].find(
      (batchSize) => !taken.has(batchSize) && !cannotServe?.({ batchSize }),
    )
    return next === undefined ? undefined : { configuration: { batchSize: next }, why: 'next' }
  },
}
