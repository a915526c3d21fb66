import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { buildPipeline, computeVisitRatios, type Pipeline, type Stage } from './pipeline.ts'
import { joinConfiguration, pickStage, splitConfiguration } from './stage-configuration.ts'

const stage = (name: string, calls: Record<string, number> = {}): Stage => ({
  name,
  calls: Object.entries(calls).map(([stage, ratio]) => ({ stage, ratio })),
  parallelCalls: false,
})
const build = (...stages: Stage[]): Pipeline => {
  const built = buildPipeline(stages)
  if (!('pipeline' in built)) throw new Error(built.faults.map(({ what }) => what).join('; '))
  return built.pipeline
}
const faults = (...stages: Stage[]) => buildPipeline(stages).faults.map(({ what }) => what)

describe('the order of stages', () => {
  test('puts callers first, whatever the order of the file', () => {
    const { stages } = build(stage('c'), stage('b', { c: 1 }), stage('a', { b: 1, c: 1 }))
    expect(stages.map(({ name }) => name)).toEqual(['a', 'b', 'c'])
  })

  test('names every unknown stage at once', () => {
    expect(faults(stage('a', { bb: 1, x: 1 }), stage('b', { y: 1 }))).toEqual([
      "stage a calls 'bb', but no stage has this name",
      "stage a calls 'x', but no stage has this name",
      "stage b calls 'y', but no stage has this name",
    ])
  })

  test('reports unknown names beside circles', () => {
    expect(faults(stage('a', { x: 1 }), stage('b', { b: 1 }))).toEqual([
      "stage a calls 'x', but no stage has this name",
      'stages call each other in a circle: b → b',
    ])
  })

  test('reports each circle once', () => {
    expect(
      faults(
        stage('a', { b: 1 }),
        stage('b', { c: 1 }),
        stage('c', { b: 1 }),
        stage('d', { d: 1 }),
      ),
    ).toEqual([
      'stages call each other in a circle: b → c → b',
      'stages call each other in a circle: d → d',
    ])
  })

  test('requires one entry', () => {
    expect(faults(stage('a'), stage('b'))).toEqual([
      'no stage calls b, and no stage calls a: a pipeline has one entry',
    ])
  })
})

describe('visit ratios', () => {
  test('multiply along calls, and add up where several stages call one', () => {
    const visits = computeVisitRatios(
      build(stage('a', { b: 3, c: 0.3 }), stage('b', { d: 1 }), stage('c', { d: 2 }), stage('d')),
    )
    expect(Object.fromEntries(visits)).toEqual({ a: 1, b: 3, c: 0.3, d: 3.6 })
  })
})

describe('configurations of a pipeline', () => {
  const name = fc.stringMatching(/^[a-z][a-z0-9-]{0,5}$/)
  const value = fc.oneof(fc.integer(), fc.string())
  test('are split into what they were joined from', () => {
    fc.assert(
      fc.property(
        fc.uniqueArray(
          fc.record({
            stage: name,
            replicas: fc.integer({ min: 1, max: 9 }),
            configuration: fc.dictionary(
              name.filter((own) => own !== 'replicas'),
              value,
              { noNullPrototype: true },
            ),
          }),
          { minLength: 1, maxLength: 4, selector: ({ stage }) => stage },
        ),
        (stages) => {
          const joined = joinConfiguration(stages)
          expect(splitConfiguration(joined)).toEqual(stages)
          for (const { stage, replicas, configuration } of stages)
            expect(pickStage(joined, stage)).toEqual({ ...configuration, replicas })
        },
      ),
    )
  })

  test('are told from those of a single predictor by the replicas of each stage', () => {
    expect(splitConfiguration({ cpuCores: 2, batchSize: 4 })).toBeUndefined()
    expect(splitConfiguration({ 'torch.threads': 2, batchSize: 4 })).toBeUndefined()
  })
})
