import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import type { Slo } from '../../profiler/model/slo.ts'
import type { Configuration } from '../../search/types.ts'
import { importTrials } from './imported-trials.ts'

const slo: Slo = { percentile: 0.99, limitMs: 30, maxErrorRate: 0.001 }
const folder = fileURLToPath(new URL('./fixtures/', import.meta.url))
const file = (name: string, configuration: Configuration = {}, as = name) => ({
  source: { file: as, text: readFileSync(`${folder}${name}`, 'utf8') },
  configuration,
})
const text = (name: string, of: string) => ({ source: { file: name, text: of }, configuration: {} })
const faultsOf = (files: Parameters<typeof importTrials>[0]): string[] => {
  try {
    importTrials(files, slo, false)
  } catch (error) {
    return (error as Error).message.split('\n')
  }
  return []
}

describe("Model Analyzer's configurations are a trial each", () => {
  test('with its loads, what of them kept the SLO, and where it stands', () => {
    const { from, model, trials } = importTrials(
      [file('metrics-model-inference.csv', { gpu: 'T4' })],
      slo,
      false,
    )
    expect(from).toEqual(['Model Analyzer: metrics-model-inference.csv'])
    expect(model).toBe('bert')
    expect(trials.map(({ configuration }) => configuration)).toEqual([
      { gpu: 'T4', maxBatchSize: 8, instances: 1, importedFrom: 'metrics-model-inference.csv' },
      { gpu: 'T4', maxBatchSize: 8, instances: 2, importedFrom: 'metrics-model-inference.csv' },
      { gpu: 'T4', maxBatchSize: 16, instances: 2, importedFrom: 'metrics-model-inference.csv' },
    ])
    expect(trials[0]!.measurement).toMatchObject({
      outcome: 'imported',
      capacityRps: 350,
      capacityCi90Rps: [350, 360],
      saturationRps: 360,
      requests: 0,
    })
    expect(trials[0]!.measurement.points.map(({ load, p99Ms }) => [load.kind, p99Ms])).toEqual([
      ['closed', 20],
      ['closed', 29],
      ['closed', 70],
    ])
    expect(trials[1]!.measurement).toMatchObject({ capacityRps: 420, bounds: 'lower' })
    expect(trials[2]!.measurement).toMatchObject({ capacityRps: 0 })
    expect(trials[1]!.why).toBe('imported: Model Analyzer, metrics-model-inference.csv:5')
    expect(trials[1]!.measurement.caveats).toEqual([
      'Model Analyzer does not say how many requests failed',
    ])
  })

  test('its GPUs tell what they held and did at the most loaded', () => {
    const { from, trials } = importTrials(
      [file('metrics-model-gpu.csv'), file('metrics-model-inference.csv')],
      slo,
      false,
    )
    expect(from).toHaveLength(1)
    expect(trials[0]!.usage).toEqual({
      gpuMemoryMiB: 1822e6 / 2 ** 20,
      gpuUtilization: 0.77,
      gpuWatts: 64.2,
    })
    const [head, row] = file('metrics-model-gpu.csv').source.text.split('\n')
    const two = text('gpu.csv', `${head}\n${row}\n${row!.replace('GPU-8', 'GPU-9')}\n`)
    expect(
      importTrials([two, file('metrics-model-inference.csv')], slo, false).trials[0]!.usage,
    ).toEqual({
      gpuMemoryMiB: (2 * 1822e6) / 2 ** 20,
      gpuUtilization: 0.61,
      gpuWatts: 2 * 58.1,
    })
    expect(faultsOf([file('metrics-model-gpu.csv')])).toEqual([
      'metrics-model-gpu.csv: it describes GPUs, but contains no requests',
    ])
  })
})

describe('several files', () => {
  const names = (files: Parameters<typeof importTrials>[0], oneServer = false) =>
    importTrials(files, { ...slo, limitMs: 2000 }, oneServer).trials.map(
      ({ configuration }) => configuration,
    )

  test('are servers of their own, told apart by their names or by what is said of them', () => {
    const of = (l4: Configuration, h100: Configuration) => [
      file('guidellm-benchmarks.json', l4, 'l4/benchmarks.json'),
      file('guidellm-benchmarks.json', h100, 'h100/benchmarks.json'),
    ]
    expect(names(of({}, {}))).toEqual([
      { file: 'l4', importedFrom: 'benchmarks.json' },
      { file: 'h100', importedFrom: 'benchmarks.json' },
    ])
    expect(names(of({ gpu: 'L4' }, { gpu: 'H100' }))).toEqual([
      { gpu: 'L4', importedFrom: 'benchmarks.json' },
      { gpu: 'H100', importedFrom: 'benchmarks.json' },
    ])
  })

  test('of one server are its loads', () => {
    const k6 = [file('k6-summary-export.json'), file('k6-handle-summary.json')]
    expect(names(k6)).toHaveLength(2)
    expect(names(k6, true)).toEqual([
      { importedFrom: 'k6-summary-export.json, k6-handle-summary.json' },
    ])
    const [trial] = importTrials(k6, { ...slo, limitMs: 60 }, true).trials
    expect(trial.measurement).toMatchObject({ capacityRps: 52.9, requests: 1587 + 3792 })
    expect(trial.measurement.capacityCi90Rps[1]).toBeCloseTo(126.33, 1)
    expect(trial.measurement.points[1]).toMatchObject({
      errors: 2,
      requests: 3792,
      seconds: 30.0045,
      load: { kind: 'closed', connections: 20 },
    })
    expect(trial.measurement.caveats).toEqual([])
  })

  test('with faults: all of them are told', () => {
    const negative = 'Concurrency,Inferences/Second,p99 latency\n1,50,9000\n2,-3,9000\n'
    expect(
      faultsOf([
        text('a.csv', 'batch,price\n1,2\n'),
        text('b.json', '{"a":'),
        text('c.csv', negative),
      ]),
    ).toEqual([
      expect.stringMatching(/^a\.csv: it is not a result of Model Analyzer, perf_analyzer/),
      expect.stringMatching(/^b\.json: it starts like JSON/),
      'c.csv:3: requests per second of -3',
    ])
  })
})

describe('of each tool the percentiles that it reports are kept, and no others', () => {
  const percentilesOf = (name: string, given: Partial<Slo> = {}) => {
    const { trials, language } = importTrials(
      [file(name)],
      { ...slo, limitMs: 1e6, ...given },
      false,
    )
    const [{ p50Ms, p90Ms, p95Ms, p99Ms, load }] = trials[0].measurement.points as [
      (typeof trials)[0]['measurement']['points'][number],
    ]
    return [
      [p50Ms, p90Ms, p95Ms, p99Ms].map((ms) =>
        Number.isNaN(ms) ? '-' : Number(ms.toPrecision(5)),
      ),
      load.kind,
      language,
    ]
  }

  test.each<[string, unknown[], string, boolean]>([
    ['metrics-model-inference.csv', ['-', '-', '-', 20], 'closed', false],
    ['perf-analyzer.csv', [13.891, 18.795, 19.753, 21.018], 'closed', false],
    ['k6-summary-export.json', [17.5, 25.2, 27.6, 38.4], 'closed', false],
    ['vllm-bench-serve.json', [921, 990.2, 1010.7, 1061.4], 'open', true],
    ['profile_export_aiperf.json', [9097.4, 9277.6, 9288.6, 9297.6], 'closed', true],
    ['profile_export_aiperf_sweep.json', ['-', '-', '-', 820], 'closed', true],
  ])('%s', (name, expected, kind, language) => {
    expect(percentilesOf(name)).toEqual([expected, kind, language])
  })

  test('of the latency that the SLO is of', () => {
    expect(percentilesOf('vllm-bench-serve.json', { metric: 'ttft' })[0]).toEqual([
      39.8, 48, 52.6, 60.3,
    ])
  })
})

test('the configurations that --metadata names are apart, and those of 3 failed requests in 200 are no answer to 0.1 %', () => {
  const { trials } = importTrials(
    [file('vllm-bench-serve-appended.jsonl')],
    { ...slo, metric: 'ttft', limitMs: 1000 },
    false,
  )
  expect(
    trials.map(({ configuration: { tensor_parallel_size }, measurement }) => [
      tensor_parallel_size,
      measurement.capacityRps,
    ]),
  ).toEqual([
    [1, 3.81],
    [2, 7.02],
  ])
})
