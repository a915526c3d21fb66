import { readFileSync } from 'node:fs'
import { Matrix, solve } from 'ml-matrix'
import { describe, expect, test } from 'vitest'
import { type Decoder, findArchitecture } from '../../devices/architecture.ts'
import { findGpu } from '../../devices/catalogue.ts'
import { DeviceModelError } from '../../devices/device-model-error.ts'
import {
  computeStepParts,
  type LlmDevice,
  type StepParts,
  splitError,
  stepCoefficients,
} from './step-model.ts'
import { composedStepTimes } from './testing/composed-steps.ts'

/**
 * Steps of the composed tables: of each device a prompt of 1,024 tokens, and decodes with 1,152
 * tokens (1,024 and half of 256) in the cache.
 */
const table = ['llama-3-1-8b', 'qwen2-5-14b'].flatMap((model) => {
  const text = readFileSync(
    new URL(`../../../search/bench/tables/llm-composed/${model}.csv`, import.meta.url),
    'utf8',
  )
  const [head, ...rows] = text
    .trim()
    .split('\n')
    .map((line) => line.split(','))
  const seen = new Set<string>()
  return rows.flatMap((row) => {
    const of = Object.fromEntries(head!.map((name, i) => [name, row[i]!]))
    if (of.infeasible === '1') return []
    const device: LlmDevice = {
      architecture: findArchitecture(model) as Decoder,
      gpu: findGpu(of.gpuModel!),
      precision: 'fp16',
      quantization: of.precision === 'fp8' ? 'fp8' : 'none',
      tensorParallel: Number(of.tensorParallel),
    }
    const key = `${of.gpuModel} ${of.precision} ${of.tensorParallel}`
    const prompt = seen.has(key)
      ? []
      : [
          {
            device,
            ms: Number(of.ttftMs),
            work: { prefillTokens: 1024, decodes: 0, decodeContext: 0 },
          },
        ]
    seen.add(key)
    const decodes = Number(of.batchSize)
    return [
      ...prompt,
      {
        device,
        ms: Number(of.tpotMs),
        work: { prefillTokens: 0, decodes, decodeContext: 1152 * decodes },
      },
    ]
  })
})
type Row = (typeof table)[number]
const alone = table.filter(({ device }) => device.tensorParallel === 1)

const names = Object.keys(stepCoefficients) as (keyof typeof stepCoefficients & keyof StepParts)[]
const partsOf = ({ device, work }: Row) => names.map((name) => computeStepParts(device)(work)[name])
/** Least squares of (predicted - measured) / measured. */
const fitted = (rows: readonly Row[]): number[] =>
  solve(
    new Matrix(rows.map((row) => partsOf(row).map((x) => x / row.ms))),
    Matrix.columnVector(rows.map(() => 1)),
    true,
  ).to1DArray()
const errorsOf = (rows: readonly Row[], predict: (row: Row) => number) => {
  const errors = rows.map((row) => Math.abs(predict(row) / row.ms - 1)).sort((a, b) => a - b)
  const at = (q: number) => errors[Math.floor(q * (errors.length - 1))]!
  return { median: at(0.5), twoThirds: at(2 / 3), p90: at(0.9) }
}
const model = ({ device, work }: Row) => composedStepTimes(device)(work)

describe('against the composed tables', () => {
  test('the coefficients are the ones that fit them', () => {
    expect(alone.length).toBeGreaterThan(200)
    for (const [i, value] of fitted(alone).entries())
      expect(value / stepCoefficients[names[i]!]).toBeCloseTo(1, 1)
  })

  test('on one GPU: median error at most 8 %, nine of ten within 18 %, two of three within 10 %', () => {
    const { median, twoThirds, p90 } = errorsOf(alone, model)
    expect([median < 0.08, p90 < 0.18, twoThirds < 0.1]).toEqual([true, true, true])
  })

  test('a GPU that was left out of the fit is within 20 % in two cases of three', () => {
    const gpus = [...new Set(alone.map(({ device }) => device.gpu.name))]
    const missed = gpus.flatMap((gpu) => {
      const coefficients = fitted(alone.filter(({ device }) => device.gpu.name !== gpu))
      const predict = (row: Row) =>
        partsOf(row).reduce((sum, x, i) => sum + x * coefficients[i]!, 0)
      return alone
        .filter(({ device }) => device.gpu.name === gpu)
        .map((row) => ({ ...row, ms: row.ms / predict(row) }))
    })
    expect(errorsOf(missed, () => 1).twoThirds).toBeLessThan(0.2)
  })

  test('a group of GPUs over NVLink is within what is stated; over PCIe it is not known', () => {
    const groups = table.filter(
      ({ device }) => device.tensorParallel > 1 && device.gpu.name !== 'L40S',
    )
    expect(errorsOf(groups, model).twoThirds).toBeLessThan(
      Math.hypot(0.1, splitError(findGpu('H100'))),
    )
  })
})

describe('quantisation', () => {
  const llama = findArchitecture('llama-3.1-8b') as Decoder
  const on = (gpu: string, quantization: LlmDevice['quantization']) =>
    composedStepTimes({
      architecture: llama,
      gpu: findGpu(gpu),
      precision: 'fp16',
      quantization,
      tensorParallel: 1,
    })
  const decode = (decodes: number) => ({ prefillTokens: 0, decodes, decodeContext: 500 * decodes })
  const prompt = { prefillTokens: 2048, decodes: 0, decodeContext: 0 }

  test('4-bit weights are read three times as fast, and prompts take somewhat longer', () => {
    const [wide, narrow] = [on('L4', 'none'), on('L4', 'awq')]
    expect(wide(decode(1)) / narrow(decode(1))).toBeGreaterThan(2.5)
    expect(wide(decode(1)) / narrow(decode(1))).toBeLessThan(3.8)
    // The weights' reading is still saved there.
    expect(narrow(prompt) / wide(prompt)).toBeGreaterThan(0.85)
    expect(narrow(prompt) / wide(prompt)).toBeLessThan(1.1)
  })

  test('fp8 is arithmetic where the GPU has it, and weights alone where it has not', () => {
    expect(on('A100-80GB', 'fp8')(prompt)).toBeGreaterThan(0.9 * on('A100-80GB', 'none')(prompt))
    expect(on('A100-80GB', 'fp8')(decode(1))).toBeLessThan(
      0.75 * on('A100-80GB', 'none')(decode(1)),
    )
  })

  test('what a GPU has no kernels for is refused by name', () => {
    expect(() => on('V100', 'awq')).toThrow(DeviceModelError)
    expect(() => on('T4', 'fp8')).toThrow(/T4 \(Turing\) has no kernels for fp8 weights/)
  })
})
