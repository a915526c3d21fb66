import { describe, expect, test } from 'vitest'
import type { MachineFacts } from '../../trials/machine/machine-facts.ts'
import { useWorkspace } from '../config/testing/workspace.ts'
import {
  describeCoreSpeed,
  describeDevices,
  describeHistory,
  listNotices,
  resolveProvenance,
} from './notices.ts'

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
  expect(resolveProvenance(make())).toBe(provenance)
})

test('the devices line names the cores and GPUs, and says which are emulated', () => {
  const machine = { affinity: [0, 1], cores: 8, cpuModel: 'Xeon' } as unknown as MachineFacts
  expect(describeDevices(emulated(), machine, 'emulated')).toBe(
    'Devices: 2 of 8 cores (Xeon); T4, V100 (emulated)',
  )
  expect(describeDevices(emulated(), machine, 'measured')).toBe(
    'Devices: 2 of 8 cores (Xeon); T4, V100',
  )
  expect(describeDevices(onCores(), machine, 'measured')).toBe(
    'Devices: 2 of 8 cores (Xeon); no GPU',
  )
  expect(describeDevices(simulated(), machine, 'simulated')).toBe('Devices: T4 (simulated)')
})

test('cores that differ from the reference core by over a quarter are mentioned', () => {
  const [notice] = describeCoreSpeed({ ...onCores(), cores: { speed: 0.52, count: 2 } })
  expect(notice).toMatch(/^Prior: the cores of this machine are 0\.5 times as fast as /)
  expect(describeCoreSpeed({ ...onCores(), cores: { speed: 1.8, count: 2 } })).toHaveLength(1)
  expect(describeCoreSpeed(onCores())).toEqual([])
  for (const speed of [1, 0.85, 1.2])
    expect(describeCoreSpeed({ ...onCores(), cores: { speed, count: 2 } })).toEqual([])
})

test('the experiments that the search uses are named', () => {
  expect(describeHistory([])).toEqual([])
  expect(describeHistory(['a', 'b'])).toEqual([
    'The search uses trials of a, b (--no-history ignores them)',
  ])
})

describe('the notices of a run', () => {
  test('are only those of the experiment where everything is measured', () => {
    const strict = bert(
      { devices: 'cpu', minQuality: '0.95' },
      'variants: {a: {quality: 1}, b: {quality: 0.9, model: distilbert}}\n',
    )
    expect(listNotices(onCores(), 'measured')).toEqual([])
    expect(listNotices(strict, 'measured')).toEqual([
      'Left out, because their quality is below 0.95: b (0.9)',
    ])
  })

  test('say what is emulated, by which model, and the typical error of each GPU', () => {
    const [banner, deploys, ...rest] = listNotices(emulated(), 'emulated')
    expect(banner).toMatch(
      /^GPU time is EMULATED by a device model from published tables, while predictors, CPU and load are real; typical error of batch times \(1σ\): T4 [\d.]+ %, V100 [\d.]+ %\.$/,
    )
    expect(deploys).toMatch(
      /^tune spec deploys .*, which was not measured: check these figures with tune verify/,
    )
    expect(rest).toEqual([])
  })

  test('say what is simulated, mark GPUs known only from a datasheet, and end with those of the experiment', () => {
    const variants = 'variants: {a: {quality: 1}, b: {quality: 0.9, model: distilbert}}\n'
    const notices = listNotices(
      bert({ backend: 'simulated', gpus: 'B200', minQuality: '0.95' }, variants),
      'simulated',
    )
    expect(notices[0]).toMatch(
      /^SIMULATED in virtual time: nothing is launched or measured; GPUs are modelled by a device model .*: B200 [\d.]+ % \(from its datasheet\)\.$/,
    )
    expect(notices.at(-1)).toBe('Left out, because their quality is below 0.95: b (0.9)')
  })

  test('say how CPU inference is simulated where there is no GPU', () => {
    const [banner] = listNotices(bert({ backend: 'simulated', devices: 'cpu' }), 'simulated')
    expect(banner).toBe(
      'SIMULATED in virtual time: nothing is launched or measured; CPU inference is modelled by its operations, typical error (1σ) 40 %.',
    )
  })

  test('name the server that a language model is simulated as', () => {
    const language = loadFile('model: llama-3.1-8b\nslo: {limit: 400ms, metric: ttft}\n', {
      backend: 'simulated',
      gpus: 'H100',
    })
    expect(listNotices(language, 'simulated')[0]).toMatch(
      /a model of vLLM 0\.11, typical error of step times \(1σ\): H100 [\d.]+ %\.$/,
    )
  })
})
