import { expect, test } from 'vitest'
import { steadyDemand } from '../plan/demand.ts'
import { toText } from '../report/document/markdown.ts'
import { planFleet } from './fleet-plan.ts'
import { type GpuKind, type Segment, whole } from './packing.ts'
import {
  type LoosenedOf,
  sensitivityBlocks,
  sensitivityJson,
  sensitivityOf,
} from './sensitivity.ts'

const segment = (gpu: string, rateRps: number): Segment => ({
  gpu,
  slice: whole,
  gpus: 1,
  rateRps,
  label: '',
})
const kind = (name: string, pricePerHour: number, count?: number): GpuKind => ({
  name,
  pricePerHour,
  count,
  partitions: [[whole]],
})
const modelOf = (name: string, rps: number, onT4 = 10) => ({
  name,
  demand: steadyDemand(rps),
  segments: [segment('T4', onT4), segment('L4', 20)],
})
const nothing: LoosenedOf = async () => undefined

test('more traffic, kinds that are sold out, and the SLO that saves most by being longer, each with what it costs', async () => {
  // 4 and 2 T4 at $1; L4 carries twice as much for four times the price, and a longer SLO lets a T4
  // carry three times as much of b.
  const models = [modelOf('a', 40), modelOf('b', 20)]
  const kinds = [kind('T4', 1), kind('L4', 4, 20)]
  const plan = await planFleet(models, kinds)
  expect(plan.atPeaks.pricePerHour).toBe(6)
  const asked: string[] = []
  const loosened: LoosenedOf = async (model, factor) => {
    asked.push(`${model} ${factor}`)
    return model === 'b' && factor >= 1.5 ? [segment('T4', 30)] : [segment('T4', 10)]
  }
  const said: string[] = []
  const found = await sensitivityOf(plan, models, kinds, loosened, 20, (what) => said.push(what))
  expect(sensitivityJson(found)).toEqual({
    changes: [
      { kind: 'traffic', factor: 1.25, gpus: 8, pricePerHour: 8 },
      { kind: 'soldOut', gpu: 'T4', gpus: 3, pricePerHour: 12 },
      { kind: 'slo', model: 'b', factor: 1.5, gpus: 5, pricePerHour: 5 },
    ],
    loosened: 2,
    untried: 0,
  })
  // What costs most first, each as far as it takes to save.
  expect(asked).toEqual(['a 1.25', 'a 1.5', 'a 2', 'b 1.25', 'b 1.5'])
  expect(said[0]).toBe('25 % more traffic')
  const text = toText(sensitivityBlocks(found, plan))
  expect(text).toMatch(/25 % more traffic +8 +\$8.00 +33 % dearer/)
  expect(text).toMatch(/no T4 to be had +3 +\$12.00 +100 % dearer/)
  expect(text).toMatch(/the SLO of b 50 % longer +5 +\$5.00 +17 % cheaper/)
})

test('what cannot be served says why, and SLOs that save nothing are told as looked at', async () => {
  const models = [modelOf('a', 40)]
  const kinds = [kind('T4', 1, 4)]
  const plan = await planFleet(models, kinds)
  const found = await sensitivityOf(plan, models, kinds, async () => [segment('T4', 10)], 20)
  expect(found.changes.map((changed) => 'unserved' in changed)).toEqual([true, true])
  const text = toText(sensitivityBlocks(found, plan))
  expect(text).toMatch(
    /25 % more traffic +- +- +cannot be served: the GPUs that there are do not carry all of it: 4 × T4/,
  )
  expect(text).toContain('No SLO alone saves anything by being up to 100 % longer (1 looked at).')
})

test('models whose measurements tell nothing of other SLOs are not counted, and time that is up is said', async () => {
  const models = [modelOf('a', 40), modelOf('b', 20)]
  const kinds = [kind('T4', 1)]
  const plan = await planFleet(models, kinds)
  expect(await sensitivityOf(plan, models, kinds, nothing, 20)).toMatchObject({
    loosened: 0,
    untried: 0,
  })
  const late = await sensitivityOf(plan, models, kinds, nothing, 0)
  expect(late.untried).toBeGreaterThan(0)
  expect(toText(sensitivityBlocks(late, plan))).toMatch(
    /There was no time to look at the SLOs of \d more models: --solver-time gives more/,
  )
})
