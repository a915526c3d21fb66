import { describe, expect, test } from 'vitest'
import { applyVariant } from '../../../trials/launchers/variants.ts'
import { defaultPriceBook } from '../../../trials/prices/book.ts'
import { createProblem } from '../../problem/problem.ts'
import { loadExperimentDocument } from '../load-experiment.ts'
import { machine, problemLines, useWorkspace, valuesOf } from '../testing/workspace.ts'
import { createQualityLookup } from './variant-settings.ts'

const { path, write, loadFile } = useWorkspace()
const three = `model: bert
slo: 50ms
variants:
  base: {quality: 0.924}
  short: {quality: 0.921, values: {sequenceLength: 64}}
  small: {quality: 0.913, model: distilbert}
`

describe('variants', () => {
  test('are a parameter, the first of them the yardstick; those that are not good enough are left out, and said', () => {
    expect(valuesOf(loadFile(three), 'variant')).toEqual(['base', 'short', 'small'])
    const strict = loadFile(three, { minQuality: '0.92' })
    expect(valuesOf(strict, 'variant')).toEqual(['base', 'short'])
    expect(strict.notices).toEqual(['Left out, because their quality is below 0.92: small (0.913)'])
    expect(createQualityLookup(strict.variants)!({ variant: 'small' })).toBe(0.913)
    expect(
      loadFile('model: bert\nslo: 50ms\n').space.parameters.map(({ name }) => name),
    ).not.toContain('variant')
  })

  test('change the model, its files, its engine and what comes with them', () => {
    write('int8.onnx', '')
    const { predictor } = loadFile(`${three}  int8: {quality: 0.91, path: int8.onnx}\n`, {
      devices: 'cpu',
    })
    const launched = (variant: string) => applyVariant(predictor, { variant, batchSize: 4 })
    expect(launched('base')).toMatchObject({
      template: { model: 'bert', engine: 'auto' },
      configuration: { batchSize: 4 },
    })
    expect(launched('base').configuration).not.toHaveProperty('variant')
    expect(launched('short').configuration).toEqual({ batchSize: 4, sequenceLength: 64 })
    expect(launched('small').template.model).toBe('distilbert')
    expect(launched('int8').template).toMatchObject({
      model: 'bert',
      engine: 'onnx',
      env: { MODEL_PATH: path('int8.onnx') },
    })
    expect(applyVariant(predictor, { variant: 'short', sequenceLength: 32 }).configuration).toEqual(
      {
        sequenceLength: 32,
      },
    )
  })

  test('of an architecture leave the files of the model aside', () => {
    write('big.onnx', '')
    const text =
      'model: {path: big.onnx}\nslo: 50ms\nvariants: {big: {quality: 1}, tiny: {quality: 0.5, model: bert-tiny}}\n'
    const { predictor } = loadFile(text, { devices: 'cpu' })
    expect(applyVariant(predictor, { variant: 'big' }).template).toMatchObject({
      engine: 'onnx',
      env: { MODEL_PATH: path('big.onnx') },
    })
    const tiny = applyVariant(predictor, { variant: 'tiny' }).template
    expect(tiny).toMatchObject({ model: 'bert-tiny', engine: 'auto' })
    expect(tiny).not.toHaveProperty('env.MODEL_PATH')
  })

  test('have each their own physics: a smaller model is expected to serve more', () => {
    const { priorLogRate } = createProblem(
      loadFile(three, { devices: 'emulated' }),
      defaultPriceBook,
    )
    const rate = (variant: string) =>
      priorLogRate!({ variant, cpuCores: 8, gpu: 'T4', gpuMemoryPercent: 100, batchSize: 8 })!
    expect(rate('small')).toBeGreaterThan(rate('base') + 0.3)
    expect(rate('short')).toBeGreaterThan(rate('base') + 0.3)
  })

  test('survive being stored', () => {
    const stored = loadFile(three, { minQuality: '0.92' })
    const again = loadExperimentDocument(stored.document, 'x', { cwd: path(), machine })
    expect([again.variants, again.minQuality, again.predictor, again.space]).toEqual([
      stored.variants,
      0.92,
      stored.predictor,
      stored.space,
    ])
  })

  test('reach a command by their name', () => {
    const variants = 'variants: {org/large: {quality: 2}, org/small: {quality: 1}}\n'
    const experiment = loadFile(
      `model: m\nslo: 50ms\npredictor: {command: 'serve \${variant}'}\n${variants}`,
    )
    expect(valuesOf(experiment, 'variant')).toEqual(['org/large', 'org/small'])
    expect(
      problemLines(() => loadFile(`model: m\nslo: 50ms\npredictor: {command: serve}\n${variants}`)),
    ).toEqual([expect.stringContaining('parameter variant (server) never reaches the predictor')])
  })
})

test.each([
  ['model: bert\nslo: 50ms\nminQuality: 0.9\n', 'e.yaml:3:13 a minimum quality without variants'],
  [`${three}minQuality: 0.99\n`, 'e.yaml:7:13 no variant has a quality of 0.99'],
  [`${three}space: {variant: [base, tall]}\n`, "e.yaml:7:18 no variant 'tall'"],
  [
    `${three}  other: {quality: 1, model: bort}\n`,
    "e.yaml:7:30 variant other: unknown model 'bort'",
  ],
  [
    `${three}  other: {quality: 1, path: gone.onnx}\n`,
    expect.stringContaining('variant other: no file or folder'),
  ],
  [
    'model: m\nslo: 50ms\npredictor: {url: "http://x"}\nvariants: {a: {quality: 1}}\n',
    'e.yaml:4:11 variants with a running server',
  ],
])('refused: %s', (text, problem) =>
  expect(problemLines(() => loadFile(text))).toContainEqual(problem),
)
