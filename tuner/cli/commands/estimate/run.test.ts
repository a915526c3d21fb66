import { afterAll, describe, expect, test } from 'vitest'
import type { Configuration } from '../../../../search/types.ts'
import { defaultPriceBook } from '../../../../trials/prices/book.ts'
import { bert, problemLines, problemsOf, useWorkspace } from '../../../config/testing/workspace.ts'
import type { Experiment } from '../../../config/types.ts'
import { estimateAll, requireServable } from '../../../problem/estimate-table.ts'
import { createProblem } from '../../../problem/problem.ts'
import { CliBox } from '../../../testing/run-cli.ts'

const { load, loadFile, write } = useWorkspace()
const estimated = (document: object) => {
  const experiment = load({ ...bert, ...document })
  return { experiment, problem: createProblem(experiment, defaultPriceBook) }
}

test('every configuration of the space, the best first, each with its error', () => {
  const { experiment, problem } = estimated({})
  const { rows, excluded, complete, provenance } = estimateAll(experiment, problem)
  expect(provenance).toBe('simulated')
  expect(complete).toBe(true)
  expect(rows.length).toBeGreaterThan(50)
  expect(rows.map((r) => r.logCost)).toEqual(rows.map((r) => r.logCost).sort((a, b) => a - b))
  expect(rows.every((r) => r.relativeError > 0 && r.capacityRps > 0 && r.unloadedMs <= 50)).toBe(
    true,
  )
  expect(rows[0]!.pricePerMillionRequests).toBeCloseTo(
    (rows[0]!.pricePerHour / 3600 / rows[0]!.capacityRps) * 1e6,
    6,
  )
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
  const holds = (c: Configuration) =>
    c.gpu === 'T4' && c.gpuMemoryPercent === 10 && c.batchSize === 128
  const onT4: typeof problem = {
    ...problem,
    space: { ...problem.space, constraints: [{ text: 'a tenth of a T4, batch 128', holds }] },
  }
  expect(() => requireServable(experiment, onT4)).toThrow(
    /no configuration of the search space can serve vgg16; the nearest is .*T4.*: needs \d+ MiB of GPU memory, but has 1536 MiB/,
  )
  const bertProblem = estimated({})
  expect(() => requireServable(bertProblem.experiment, bertProblem.problem)).not.toThrow()
})

describe('refused, each with what is wrong and where', () => {
  const inFile = (space: string) => () => loadFile(`model: bert\nslo: 50ms\nspace: ${space}\n`)
  test.each([
    ['an unknown GPU', '{gpu: [T5]}', /^e\.yaml:3:\d+ .*unknown GPU 'T5'/],
    [
      'a MIG profile on a GPU without any',
      '{gpu: [T4], migProfile: [1g.5gb]}',
      /^e\.yaml:3:\d+ .*none of T4 has the profile 1g\.5gb/,
    ],
    [
      'a MIG profile that its GPU does not have',
      '{gpu: [A100-40GB], migProfile: [1g.7gb]}',
      /none of A100-40GB has the profile 1g\.7gb/,
    ],
  ])('%s', (_, space, message) => {
    expect(problemLines(inFile(space)).join('\n')).toMatch(message)
  })

  test('a GPU near in name is named', () => {
    expect(problemsOf(() => load({ ...bert, gpus: 'T5' }))[0]!.hint).toMatch(/did you mean T4/)
    expect(problemsOf(inFile('{gpu: [A100-40GB], migProfile: [1g.7gb]}'))[0]!.hint).toMatch(
      /did you mean 1g\.5gb/,
    )
  })

  test('an architecture file without a dimension', () => {
    write(
      'config.json',
      '{"model_type": "bert", "hidden_size": 384, "num_attention_heads": 6, "vocab_size": 30522, "num_hidden_layers": 6}',
    )
    expect(problemLines(() => load({ ...bert, model: 'config.json' })).join()).toMatch(
      /config\.json:1: intermediate_size: expected a whole number/,
    )
  })

  test('a GPU file that is not there, or leaves the peak out', () => {
    expect(problemLines(() => load({ ...bert, gpuCatalogue: 'none.yaml' })).join()).toMatch(
      /cannot read the GPU file: .*none\.yaml/,
    )
    write('gpus.yaml', 'Home Card: { memoryGiB: 16, bandwidthGBs: 500 }\n')
    expect(problemLines(() => load({ ...bert, gpuCatalogue: 'gpus.yaml' })).join()).toMatch(
      /gpus\.yaml:1: Home Card\.peakTflops: expected the dense TFLOP\/s of each precision/,
    )
  })

  test('a server of which nothing is known, and a model whose architecture is not', () => {
    const { experiment, problem } = estimated({})
    const url = { ...experiment, predictor: { ...experiment.predictor, kind: 'url' } } as Experiment
    expect(() => estimateAll(url, problem)).toThrow(
      /cannot estimate a url predictor: its behaviour is unknown/,
    )
    const own = {
      ...experiment,
      model: { name: 'mine', path: 'mine.onnx', architecture: 'mine' },
    } as Experiment
    expect(() => estimateAll(own, problem)).toThrow(
      /cannot estimate your own model: its architecture is unknown/,
    )
  })
})

test('what the model cannot read is excluded with its reason: fp8 on a GPU without it', () => {
  const { experiment, problem } = estimated({ gpus: 'V100' })
  const precision = {
    kind: 'categorical',
    name: 'precision',
    values: ['fp16', 'fp8'],
    category: 'env',
  } as const
  const space = {
    ...problem.space,
    parameters: [...problem.space.parameters.filter((p) => p.name !== 'precision'), precision],
  }
  const { rows, excluded, reasons } = estimateAll(experiment, { ...problem, space })
  expect(rows.length).toBeGreaterThan(0)
  expect(rows.every((r) => r.configuration.precision === 'fp16')).toBe(true)
  expect(excluded.cannotServe).toBeGreaterThanOrEqual(rows.length)
  expect(reasons[0]).toMatch(/V100 has no fp8/)
})

test('of a calibrated server a parameter of which nothing is known has a factor of two where it differs', () => {
  const { experiment, problem } = estimated({ gpus: 'A10' })
  const dtype = {
    kind: 'categorical',
    name: 'dtype',
    values: ['fp16', 'fp32'],
    category: 'server',
  } as const
  const space = { ...problem.space, parameters: [...problem.space.parameters, dtype] }
  const calibrated = {
    ...{
      name: 'own',
      server: 'python3 serve.py',
      model: 'bert-base',
      device: 'A10',
      measuredAt: '2026-11-26T07:00:00.000Z',
    },
    configuration: { gpu: 'A10', batchSize: 64, dtype: 'fp16' },
    points: [1, 4, 16, 64].map((batch) => ({ batch, latencyMs: 4 + batch, processes: 1 })),
    memory: [],
  }
  const { rows, caveat } = estimateAll({ ...experiment, space, calibrated }, { ...problem, space })
  const errorsOf = (value: string) =>
    rows.filter((row) => row.configuration.dtype === value).map((row) => row.relativeError)
  expect(Math.min(...errorsOf('fp16'))).toBeLessThan(0.3)
  expect(Math.min(...errorsOf('fp32'))).toBeGreaterThan(0.5)
  expect(caveat).toContain(
    'The effect of dtype other than fp16 is unknown: the error there is a factor of two.',
  )
})

const box = new CliBox()
afterAll(() => box.dispose())

test('the command prints a table, says what it is, and exits with 3 where nothing meets the SLO', async () => {
  const shown = await box.start(['estimate', '--model', 'bert', '--slo', '50ms', '--gpus', 'T4'])
    .result
  expect(shown.stderr).toBe('')
  expect(shown.code).toBe(0)
  expect(shown.stdout).toMatch(/^Expected best: .*T4.*req\/s ± [\d.]+ %, \$/)
  expect(shown.stdout).toMatch(/ESTIMATED by a device model/)
  expect(shown.stdout).toMatch(/\.\.\. \d+ more/)
  const nothing = await box.start(['estimate', '--model', 'bert', '--slo', '1ms', '--json']).result
  expect(nothing.code).toBe(3)
  expect(JSON.parse(nothing.stdout)).toMatchObject({ schema: 'tune.estimate/v1', rows: [] })
  const unknown = await box.start([
    'estimate',
    '--model',
    'bert',
    '--slo',
    '50ms',
    '--objective',
    'min-energy',
  ]).result
  expect([unknown.code, unknown.stdout]).toEqual([2, ''])
  expect(unknown.stderr).toMatch(/but not J per request/)
})
