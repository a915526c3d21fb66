import { quantile } from 'simple-statistics'
import { describe, expect, test } from 'vitest'
import { enumerateConfigurations } from '../../../search/space/space.ts'
import type { Configuration, OrdinalParameter } from '../../../search/types.ts'
import type { Pipeline } from '../../pipeline/pipeline.ts'
import { fitBatchCosts } from './batch-costs.ts'
import { createLearnedPipelinePredictor } from './learned-pipeline.ts'
import { learnStageDemand } from './stage-demand.ts'
import { batches, simulateTrial, visits } from './testing/virtual-pipeline.ts'

const list = (name: string, values: readonly number[]): OrdinalParameter => ({
  kind: 'ordinal',
  name,
  category: 'server',
  values,
  scale: 'log',
})
const parameters = new Map([
  ['tokenise', [list('cpuCores', [0.25, 0.5])]],
  ['embed', [list('cpuCores', [0.5, 1]), list('maxBatch', [1, 4, 16])]],
  ['rank', [list('cpuCores', [0.25])]],
])
const buildPipeline = (rankRatio: number): Pipeline => ({
  stages: [
    {
      name: 'tokenise',
      calls: [
        { stage: 'embed', ratio: 1 },
        { stage: 'rank', ratio: rankRatio },
      ],
      parallelCalls: false,
    },
    { name: 'embed', calls: [], parallelCalls: false },
    { name: 'rank', calls: [], parallelCalls: false },
  ],
})
const all = enumerateConfigurations({
  constraints: [],
  parameters: [...parameters].flatMap(([stage, own]) => [
    list(`${stage}.replicas`, stage === 'rank' ? [1, 2] : [1]),
    ...own.map((one) => ({ ...one, name: `${stage}.${one.name}` })),
  ]),
})
const physics = (stage: string, configuration: Configuration) => {
  const cores = Number(configuration.cpuCores)
  if (stage === 'tokenise') return visits({ cpuMs: 0.8, cores, jitter: 0.3 })
  if (stage === 'rank') return visits({ cpuMs: 1.2, cores, jitter: 0.1 })
  return batches({ fixedMs: 3, perItemMs: 0.8, cores, maxBatch: Number(configuration.maxBatch) })
}
const declared = buildPipeline(0.3)
const slo = { percentile: 0.99, limitMs: 100 }
const run = (configuration: Configuration) =>
  simulateTrial(buildPipeline(0.4), physics, slo, configuration)
const [first, last] = [run(all[0]!), run(all.at(-1)!)]

describe('a pipeline learned from two trials', () => {
  const predict = createLearnedPipelinePredictor(declared, parameters, slo, [
    first.trial,
    last.trial,
  ])

  test('is predicted within 4 % for half of all configurations, and 20 % for nine of ten', () => {
    const errors = all.map((configuration) =>
      Math.abs(predict(configuration)!.capacityRps / run(configuration).capacityRps - 1),
    )
    expect(quantile(errors, 0.5)).toBeLessThan(0.04)
    expect(quantile(errors, 0.9)).toBeLessThan(0.2)
  })

  test('has the visits that its trials counted, not those of the file', () => {
    const bound = { ...all.at(-1)!, 'rank.replicas': 1, 'embed.cpuCores': 1 }
    const predicted = predict(bound)!
    expect(predicted.bindingStage).toBe('rank')
    expect(predicted.saturationRps / ((1000 * 0.25) / 1.2 / 0.4)).toBeCloseTo(1, 1)
  })
})

describe('configurations of which trials tell too little are not predicted', () => {
  test('batches, if no trial had one', () => {
    const demand = learnStageDemand('embed', parameters.get('embed')!, [first.trial])
    expect(demand({ cpuCores: 1, maxBatch: 1 })).toBeDefined()
    expect(demand({ cpuCores: 1, maxBatch: 4 })).toBeUndefined()
  })

  test('another value of a parameter of which one value was tried', () => {
    const withThreads = (threads: number) => ({
      ...last.trial,
      configuration: { ...last.trial.configuration, 'rank.threads': threads },
    })
    const own = [list('threads', [1, 2, 4])]
    const one = learnStageDemand('rank', own, [withThreads(1)])
    expect(one({ threads: 1 })).toBeDefined()
    expect(one({ threads: 2 })).toBeUndefined()
    const two = learnStageDemand('rank', own, [withThreads(1), withThreads(4)])
    expect(two({ threads: 2 })!.perItemMs).toBeCloseTo(1.2, 1)
  })

  test('a stage without loads', () => {
    expect(learnStageDemand('other', [], [first.trial])({})).toBeUndefined()
  })
})

test('the costs of batches follow from how time and latency change with the rate', () => {
  const usage = last.trial.usage!.stages!.find(({ stage }) => stage === 'embed')!
  const configuration = { cpuCores: 1, maxBatch: 16 }
  const loads = usage.loads!.map((load) => ({ configuration, load }))
  const { fixedMs, perItemMs } = fitBatchCosts(loads, 'cpu')
  expect(fixedMs).toBeCloseTo(3, 0)
  expect(perItemMs).toBeCloseTo(0.8, 0)
})
