import { describe, expect, test } from 'vitest'
import type { MachineFacts } from '../../trials/machine/machine-facts.ts'
import { useWorkspace } from '../experiment/testing/workspace.ts'
import { coreSpeedNotice, devicesLine, historyNotice, noticesOf, provenanceOf } from './notices.ts'

const { loadFile } = useWorkspace()
const bert = (flags: Record<string, unknown> = {}, more = '') =>
  loadFile(`model: bert\nslo: 50ms\n${more}`, flags)
const emulated = () => bert({ devices: 'emulated', gpus: 'T4,V100' })
const onCores = () => bert({ devices: 'cpu' })
const simulated = () => bert({ backend: 'simulated', gpus: 'T4' })

test.each([
  ['simulated', simulated],
  ['emulated', emulated],
  ['measured', onCores],
] as const)('provenance: %s', (provenance, make) => {
  expect(provenanceOf(make())).toBe(provenance)
})

test('which devices are used, and what of them is not there', () => {
  const machine = { affinity: [0, 1], cores: 8, cpuModel: 'Xeon' } as unknown as MachineFacts
  expect(devicesLine(emulated(), machine, 'emulated')).toBe(
    'Devices: 2 of 8 cores (Xeon); T4, V100 (emulated)',
  )
  expect(devicesLine(emulated(), machine, 'measured')).toBe(
    'Devices: 2 of 8 cores (Xeon); T4, V100',
  )
  expect(devicesLine(onCores(), machine, 'measured')).toBe('Devices: 2 of 8 cores (Xeon); no GPU')
  expect(devicesLine(simulated(), machine, 'simulated')).toBe('Devices: T4 (simulated)')
})

test('that the cores are others than those whose costs are known, where they are', () => {
  const [notice] = coreSpeedNotice({ ...onCores(), cores: { speed: 0.52, count: 2 } })
  expect(notice).toMatch(/^Prior: the cores of this machine are 0\.5 times as fast as /)
  expect(coreSpeedNotice({ ...onCores(), cores: { speed: 1.8, count: 2 } })).toHaveLength(1)
  expect(coreSpeedNotice(onCores())).toEqual([])
  for (const speed of [1, 0.85, 1.2])
    expect(coreSpeedNotice({ ...onCores(), cores: { speed, count: 2 } })).toEqual([])
})

test('which experiments the search learns from', () => {
  expect(historyNotice([])).toEqual([])
  expect(historyNotice(['a', 'b'])).toEqual([
    'The search uses trials of a, b (--no-history ignores them)',
  ])
})

describe('banners', () => {
  test('none of what is measured but what the experiment says of itself', () => {
    const strict = bert(
      { devices: 'cpu', minQuality: '0.95' },
      'variants: {a: {quality: 1}, b: {quality: 0.9, model: distilbert}}\n',
    )
    expect(noticesOf(onCores(), 'measured')).toEqual([])
    expect(noticesOf(strict, 'measured')).toEqual([
      'Left out, because their quality is below 0.95: b (0.9)',
    ])
  })

  test('what is emulated, from what, and how far each GPU may be off', () => {
    const [banner, deploys, ...rest] = noticesOf(emulated(), 'emulated')
    expect(banner).toMatch(
      /^GPU time is EMULATED by a device model from published tables, while predictors, CPU and load are real; typical error of batch times \(1σ\): T4 [\d.]+ %, V100 [\d.]+ %\.$/,
    )
    expect(deploys).toMatch(
      /^tune spec deploys .*, which was not measured: check these figures with tune verify/,
    )
    expect(rest).toEqual([])
  })

  test('what is simulated, a GPU known from its datasheet alone as such, and what the experiment says of itself last', () => {
    const variants = 'variants: {a: {quality: 1}, b: {quality: 0.9, model: distilbert}}\n'
    const notices = noticesOf(
      bert({ backend: 'simulated', gpus: 'B200', minQuality: '0.95' }, variants),
      'simulated',
    )
    expect(notices[0]).toMatch(
      /^SIMULATED in virtual time: nothing is launched or measured; GPUs are modelled by a device model .*: B200 [\d.]+ % \(from its datasheet\)\.$/,
    )
    expect(notices.at(-1)).toBe('Left out, because their quality is below 0.95: b (0.9)')
  })

  test('without a GPU what a simulation takes for the cores', () => {
    const [banner] = noticesOf(bert({ backend: 'simulated', devices: 'cpu' }), 'simulated')
    expect(banner).toBe(
      'SIMULATED in virtual time: nothing is launched or measured; CPU inference is modelled by its operations, typical error (1σ) 40 %.',
    )
  })

  test('a language model has a model of its server', () => {
    const language = loadFile('model: llama-3.1-8b\nslo: {limit: 400ms, metric: ttft}\n', {
      backend: 'simulated',
      gpus: 'H100',
    })
    expect(noticesOf(language, 'simulated')[0]).toMatch(
      /a model of vLLM 0\.11, typical error of step times \(1σ\): H100 [\d.]+ %\.$/,
    )
  })
})
