import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { loadExperiment, loadExperimentDocument } from '../load-experiment.ts'
import { ConfigError, type Experiment } from '../types.ts'
import { parseSlo } from './parse-slo.ts'

const folder = mkdtempSync(join(tmpdir(), 'tune-slo-'))
afterAll(() => rmSync(folder, { recursive: true }))
const host = { cwd: folder, machine: { cpuCores: 2, gpus: [] } }

const base = 'model: llama-3.1-8b\npin: {gpu: H100}\n'
function load(slo: string, flags: Record<string, unknown> = {}): Experiment {
  writeFileSync(join(folder, 'e.yaml'), base + slo)
  return loadExperiment({ file: 'e.yaml', flags, ...host })
}
function problems(slo: string, flags: Record<string, unknown> = {}): string[] {
  try {
    load(slo, flags)
    return []
  } catch (error) {
    return (error as ConfigError).problems.map(({ where, what }) => `${where} ${what}`)
  }
}
const joint = {
  percentile: 0.9,
  limitMs: 200,
  maxErrorRate: 0.001,
  limits: [
    { metric: 'ttft', limitMs: 200 },
    { metric: 'tpot', limitMs: 30 },
  ],
}

test.each([
  ['an object', 'slo: {percentile: p90, ttft: 200ms, tpot: 30ms}'],
  [
    'a list',
    'slo: [{metric: ttft, percentile: 90, limit: 200ms}, {metric: tpot, percentile: p90, limit: 30ms}]',
  ],
  ['a list of texts', 'slo: [ttft p90<200ms, tpot p90 < 30ms]'],
  ['a text', 'slo: p90 ttft<200ms tpot<30ms'],
  ['a text with commas', "slo: 'p90 of tpot<30ms, ttft<200ms'"],
  ["vLLM's --goodput", "slo: 'p90 ttft:200 tpot:30'"],
])('a joint SLO as %s', (_, text) => {
  expect(load(text).slo).toEqual(joint)
})

test.each([
  'p95=50ms',
  'p95: 50ms',
  '50ms p95',
  'p95 of 50 ms',
  'P95 latency <= 0.05s',
  'p95≤50msec',
])('an SLO written %j', (text) => expect(parseSlo(text)).toEqual({ percentile: 0.95, limit: 50 }))

test('flags: repeated --slo, or limits one by one over the file', () => {
  expect(load('', { slo: 'ttft p90<200ms, tpot p90<30ms' }).slo).toEqual(joint)
  expect(
    load('slo: {percentile: p90, ttft: 1s}', { sloTtft: '200ms', sloTpot: '30ms' }).slo,
  ).toEqual(joint)
  expect(load('slo: ttft p90<1s', { sloTtft: '200ms', sloTpot: '30ms' }).slo).toEqual(joint)
  expect(load('', { slo: '8s', sloTtft: '200ms' }).slo.limits).toEqual([
    { metric: 'ttft', limitMs: 200 },
    { metric: 'e2e', limitMs: 8000 },
  ])
})

test('--slo replaces the whole SLO of the file, joint or not', () => {
  expect(load('slo: {ttft: 1s, tpot: 50ms}', { slo: '8s' }).slo).toEqual({
    percentile: 0.99,
    limitMs: 8000,
    maxErrorRate: 0.001,
  })
  expect(load('slo: 8s', { slo: 'p90 ttft:200 tpot:30' }).slo).toEqual(joint)
})

test('one limit alone is an SLO on its metric, as before', () => {
  const single = { percentile: 0.95, limitMs: 300, maxErrorRate: 0.001, metric: 'ttft' }
  expect(load('slo: ttft p95<300ms').slo).toEqual(single)
  expect(load('slo: {percentile: p95, ttft: 300ms}').slo).toEqual(single)
  expect(load('slo: {e2e: 300ms}').slo).toEqual({
    percentile: 0.99,
    limitMs: 300,
    maxErrorRate: 0.001,
  })
  expect(parseSlo('p95<80ms')).toEqual({ percentile: 0.95, limit: 80 })
})

test('the document makes the same experiment again', () => {
  const experiment = load('slo: {percentile: p90, ttft: 200ms, tpot: 30ms, e2e: 5s, errorRate: 1%}')
  expect(loadExperimentDocument(experiment.document, 'llama-1', host).slo).toEqual(experiment.slo)
  expect(
    loadExperimentDocument(experiment.document, 'llama-1', host, { slo: '9s' }).slo,
  ).toMatchObject({
    limitMs: 9000,
    percentile: 0.99,
  })
})

test('what is wrong is said where it stands', () => {
  expect(problems('slo: [{metric: ttft, limit: 1s}, {metric: ttft, limit: 2s}]')).toEqual([
    'e.yaml:3:6 slo: two limits for ttft',
  ])
  expect(problems('slo: {ttft: 200ms, metric: ttft, limit: 1s}')).toEqual([
    'e.yaml:3:41 two limits for ttft',
  ])
  expect(problems('slo: ttft p99<1s, tpot p90<30ms')[0]).toContain('several percentiles: p99, p90')
  expect(problems('slo: [ttft p99<1s, tpot p90<30ms]')[0]).toContain(
    'several percentiles: p99, p90',
  )
  expect(problems('', { slo: 'ttft<1s, ttft<2s' })[0]).toContain('several limits for one latency')
  expect(problems('slo: {ttft: 200}')[0]).toContain('has no unit')
})

test('parts of a stream need a server that streams', () => {
  expect(() =>
    loadExperiment({ flags: { model: 'bert', slo: 'ttft:200 tpot:30' }, ...host }),
  ).toThrow(ConfigError)
})
