import { afterAll, expect, test } from 'vitest'
import type { Configuration } from '../search/types.ts'
import { defaultPriceBook } from '../trials/prices/book.ts'
import { estimateAll, refuseWhatNeverServes } from './estimate.ts'
import { bert, useWorkspace } from './experiment/testing/workspace.ts'
import { problemOf } from './problem.ts'
import { CliBox } from './testing/run-cli.ts'

const { load } = useWorkspace()
const estimated = (document: object) => {
  const experiment = load({ ...bert, ...document })
  return { experiment, problem: problemOf(experiment, defaultPriceBook) }
}

test('every configuration of the space, the best first, each with its error', () => {
  const { experiment, problem } = estimated({})
  const { rows, excluded, complete, provenance } = estimateAll(experiment, problem)
  expect(provenance).toBe('simulated')
  expect(complete).toBe(true)
  expect(rows.length).toBeGreaterThan(50)
  expect(rows.map((r) => r.logCost)).toEqual(rows.map((r) => r.logCost).sort((a, b) => a - b))
  expect(rows.every((r) => r.relativeError > 0 && r.capacityRps > 0 && r.idleMs <= 50)).toBe(true)
  expect(rows[0]!.pricePerMillionRequests).toBeCloseTo((rows[0]!.pricePerHour / 3600 / rows[0]!.capacityRps) * 1e6, 6)
  expect(excluded.cannotServe).toBe(0)
})

test('an SLO that nothing meets leaves no rows and says how many miss it', () => {
  const { experiment, problem } = estimated({ slo: '1ms' })
  const { rows, excluded } = estimateAll(experiment, problem)
  expect(rows).toEqual([])
  expect(excluded.sloUnattainable).toBeGreaterThan(50)
})

test('a model that fits on no GPU is refused with the nearest configuration', () => {
  const { experiment, problem } = estimated({ model: 'vgg16', backend: 'simulated' })
  const holds = (c: Configuration) => c.gpu === 'T4' && c.gpuMemoryPercent === 10 && c.batchSize === 128
  const onT4: typeof problem = { ...problem, space: { ...problem.space, constraints: [{ text: 'a tenth of a T4, batch 128', holds }] } }
  expect(() => refuseWhatNeverServes(experiment, onT4)).toThrow(
    /no configuration of the space can serve vgg16; the nearest, .*T4.*: needs \d+ MiB of GPU memory, has 1536 MiB/,
  )
  const bertProblem = estimated({})
  expect(() => refuseWhatNeverServes(bertProblem.experiment, bertProblem.problem)).not.toThrow()
})

const box = new CliBox()
afterAll(() => box.dispose())

test('the command prints a table, says what it is, and exits with 3 where nothing meets the SLO', async () => {
  const shown = await box.start(['estimate', '--model', 'bert', '--slo', '50ms', '--gpus', 'T4', '--top', '2']).result
  expect(shown.stderr).toBe('')
  expect(shown.code).toBe(0)
  expect(shown.stdout).toMatch(/^Expected best: .*T4.*req\/s ± [\d.]+ %, \$/)
  expect(shown.stdout).toMatch(/ESTIMATED by a device model/)
  expect(shown.stdout).toMatch(/\.\.\. \d+ more/)
  const nothing = await box.start(['estimate', '--model', 'bert', '--slo', '1ms', '--json']).result
  expect(nothing.code).toBe(3)
  expect(JSON.parse(nothing.stdout)).toMatchObject({ schema: 'tune.estimate/v1', rows: [] })
  const wrong = await box.start(['estimate', '--model', 'bert', '--slo', '50ms', '--top', 'many']).result
  expect(wrong.code).toBe(2)
  expect(wrong.stderr).toMatch(/--top: 'many' is not a number of rows/)
})
