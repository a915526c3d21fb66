import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { createRecordedTable } from '../../search/replay/table.ts'
import type { ImportOptions } from './tool-point.ts'
import { importResults } from './tool-results.ts'

const options: ImportOptions = {
  metric: 'e2e',
  percentile: 0.99,
  limitMs: 30,
  pricePerHour: 0.5,
  maxErrorRate: 0.001,
}
const folder = fileURLToPath(new URL('./fixtures/', import.meta.url))
const fixture = (name: string, file = name) => ({
  file,
  text: readFileSync(`${folder}${name}`, 'utf8'),
})
const read = (name: string, given: Partial<ImportOptions> = {}) =>
  importResults([fixture(name)], { ...options, ...given })
const said =
  (text: string, given: Partial<ImportOptions> = {}) =>
  () =>
    importResults([{ file: 'x.csv', text }], { ...options, ...given })

describe("Model Analyzer's table", () => {
  test('becomes a row per configuration: the most it serves within the limit, else its fastest', () => {
    const { task, rows } = read('metrics-model-inference.csv')
    expect(task.parameters).toEqual([
      { kind: 'ordinal', name: 'maxBatchSize', values: [8, 16] },
      { kind: 'ordinal', name: 'instances', values: [1, 2] },
    ])
    expect(rows).toMatchObject([
      { maxBatchSize: 8, instances: 1, ratePerSecond: 350, p99Ms: 29, pricePerHour: 0.5 },
      { maxBatchSize: 8, instances: 2, ratePerSecond: 420, p99Ms: 22, pricePerHour: 0.5 },
      { maxBatchSize: 16, instances: 2, ratePerSecond: 250, p99Ms: 33, pricePerHour: 0.5 },
    ])
    expect(createRecordedTable(task, rows).configurations).toHaveLength(3)
  })

  const header =
    'Model,Batch,Concurrency,Model Config Path,Instance Group,Max Batch Size,Satisfies Constraints,Throughput (infer/sec),p99 Latency (ms)'

  test('keeps the path where nothing else tells configurations apart', () => {
    const { task } = importResults(
      [
        {
          file: 'm.csv',
          text: `${header}\nm,1,1,default,1:GPU,8,Yes,10,5\nm,1,1,tensorrt,1:GPU,8,Yes,20,5`,
        },
      ],
      options,
    )
    expect(task.parameters).toEqual([
      { kind: 'categorical', name: 'configuration', values: ['default', 'tensorrt'] },
    ])
  })

  test('one configuration under several loads: each load is a row', () => {
    const { task } = importResults(
      [
        {
          file: 'm.csv',
          text: `${header}\nm,1,1,default,1:GPU,8,Yes,10,5\nm,1,4,default,1:GPU,8,Yes,30,9`,
        },
      ],
      options,
    )
    expect(task.parameters).toEqual([{ kind: 'ordinal', name: 'concurrency', values: [1, 4] }])
  })

  test('without a limit every latency is taken, but for what Model Analyzer says misses its own constraints', () => {
    const { rows, notes } = read('metrics-model-inference.csv', { limitMs: undefined })
    expect(rows).toMatchObject([
      { maxBatchSize: 8, instances: 1, ratePerSecond: 350, failed: 0 },
      { maxBatchSize: 8, instances: 2, ratePerSecond: 420, failed: 0 },
      { maxBatchSize: 16, instances: 2, failed: 1 },
    ])
    expect(notes).toEqual([
      expect.stringMatching(
        /^no --slo: every latency is accepted, but results that violate the constraints of Model Analyzer/,
      ),
      'Model Analyzer does not say how many requests failed',
    ])
    expect(read('perf-analyzer.csv', { limitMs: undefined }).rows.map((row) => row.failed)).toEqual(
      [0, 0],
    )
  })

  test('several models served together: the sum of their rates, the slowest of their latencies', () => {
    const { rows } = read('metrics-model-inference-multi.csv')
    expect(rows).toMatchObject([
      {
        configuration: 'resnet50_libtorch_config_3,vgg19_libtorch_config_2',
        ratePerSecond: 294,
        p99Ms: 14.9,
      },
      {
        configuration: 'resnet50_libtorch_config_0,vgg19_libtorch_config_0',
        ratePerSecond: 264.8,
        p99Ms: 11.7,
      },
    ])
  })

  test('without the percentile asked for, with a broken cell or without rows is refused by name and line', () => {
    expect(() => read('metrics-model-inference.csv', { percentile: 0.95 })).toThrow(
      /no column 'p95 Latency \(ms\)'/,
    )
    expect(() => read('metrics-model-inference.csv', { metric: 'ttft' })).toThrow(/ttft/)
    expect(said(`${header}\nm,1,1,x,1:GPU,8,Yes,fast,5`)).toThrow(
      "x.csv:2: Throughput (infer/sec) is 'fast', not a number",
    )
    expect(said(header)).toThrow('x.csv:1: column names without rows')
    expect(said(`${header}\nm,1,1,x,1:GPU,8,Yes,10,5\nm,1,1,y,1:GPU,8,Yes,-3,5`)).toThrow(
      /x\.csv:3: ratePerSecond is -3/,
    )
  })
})

test("perf_analyzer's table is a configuration per load, microseconds as milliseconds", () => {
  const { task, rows, notes } = read('perf-analyzer.csv')
  expect(notes).toContainEqual(expect.stringMatching(/counts inferences.*With -b N, divide/))
  expect(task).toMatchObject({
    constraint: { metric: 'p99Ms', max: 30 },
    parameters: [{ name: 'concurrency', values: [1, 3] }],
  })
  expect(rows[0]).toMatchObject({
    concurrency: 1,
    ratePerSecond: 69.2,
    p99Ms: 21.018,
    pricePerHour: 0.5,
  })
  const byRate = fixture('perf-analyzer.csv').text.replace('Concurrency', 'Request Rate')
  expect(
    importResults([{ file: 'p.csv', text: byRate }], options).task.parameters[0],
  ).toMatchObject({ name: 'requestRate' })
})

describe('GuideLLM', () => {
  const loads = (name: string, given: Partial<ImportOptions>) => {
    const { task, rows } = read(name, given)
    return rows.map((row) => [row.ratePerSecond, row[task.constraint.metric], row.failed])
  }

  test.each(['guidellm-benchmarks.csv', 'guidellm-benchmarks-0.2.csv', 'guidellm-benchmarks.json'])(
    '%s: a row for each load',
    (name) => {
      expect(read(name).task.parameters).toMatchObject([
        { name: 'concurrency', kind: 'ordinal', values: expect.any(Array) },
      ])
      const e2e = loads(name, { limitMs: 2000 })
      // 0.52 s is the median of the second load, and p99 twice that; of the last one 40 requests
      //   failed.
      expect(e2e[1]![0]).toBeCloseTo(7.6, 4)
      expect(e2e[1]![1]).toBeCloseTo(1040, 4)
      expect(e2e.map(([, , failed]) => failed)).toEqual([0, 0, 0, 0, 1])
      expect(read(name).notes).toEqual([
        expect.stringMatching(/^1 of 5 loads failed more than 0.1 % of their requests.*guidellm/),
      ])
      expect(loads(name, { metric: 'ttft', percentile: 0.5 })[2]![1]).toBeCloseTo(90, 4)
      expect(loads(name, { metric: 'tpot', percentile: 0.95 })[2]![1]).toBeCloseTo(49.5, 4)
    },
  )

  test('a percentile that it does not report is refused', () => {
    expect(() => read('guidellm-benchmarks.csv', { percentile: 0.8 })).toThrow(
      /guidellm-benchmarks\.csv:4: no p80/,
    )
    expect(() => read('guidellm-benchmarks.json', { percentile: 0.8 })).toThrow(
      /benchmarks\[0\]: no p80/,
    )
    expect(loads('guidellm-benchmarks.json', { percentile: 0.999 })[0]![1]).toBeCloseTo(1034, 4)
  })

  test('rows whose cells do not fit the headings are not guessed at', () => {
    const text = fixture('guidellm-benchmarks.csv').text.trimEnd()
    expect(said(`${text},1,2,3\n`)).toThrow(/x\.csv:8: \d+ cells under \d+ columns/)
  })
})

describe('AIPerf', () => {
  test.each(['profile_export_aiperf_sweep.csv', 'profile_export_aiperf_sweep.json'])(
    '%s: a row for each combination',
    (name) => {
      const { task, rows } = read(name, { limitMs: 1000 })
      expect(task.parameters).toEqual([
        { kind: 'ordinal', name: 'concurrency', values: [10, 20, 30, 40] },
      ])
      expect(rows[1]).toMatchObject({ concurrency: 20, ratePerSecond: 180.3, p99Ms: 905 })
      expect(read(name, { metric: 'ttft' }).rows[3]).toMatchObject({ p99TtftMs: 180.3 })
      expect(() => read(name, { percentile: 0.95 })).toThrow(/no metric request_latency_p95/)
    },
  )

  test('names of the older and of the newer sweep files', () => {
    const old = 'concurrency,request_throughput_avg_mean,ttft_p99_ms_mean\n1,10,50\n2,18,60\n'
    expect(
      importResults([{ file: 'old.csv', text: old }], { ...options, metric: 'ttft' }).rows[1],
    ).toMatchObject({ p99TtftMs: 60 })
    const units =
      'concurrency,request_throughput_avg_mean (requests/sec),request_latency_p99_mean (ms)\n1,10,50\n2,18,60\n'
    expect(importResults([{ file: 'new.csv', text: units }], options).rows[1]).toMatchObject({
      ratePerSecond: 18,
      p99Ms: 60,
    })
  })

  test('a file of one run is one row, its failed requests counted; the JSON says its load', () => {
    const { rows, notes } = read('profile_export_aiperf.csv', { limitMs: 10_000 })
    expect(rows).toMatchObject([{ ratePerSecond: 9.55, p99Ms: 9297.61, failed: 1 }])
    expect(notes).toHaveLength(1)
    const json = read('profile_export_aiperf.json', { limitMs: 10_000 })
    expect(json.task.parameters).toEqual([{ kind: 'ordinal', name: 'concurrency', values: [100] }])
    expect(json.rows).toMatchObject([{ ratePerSecond: 9.551622, p99Ms: 9297.61, failed: 0 }])
    expect(json.notes).toEqual([])
  })

  test('several runs alike are one row of their means, failed requests counted', () => {
    const mean = (value: number, unit: string) => ({
      mean: value,
      std: 0,
      cv: 0,
      se: 0,
      ci_low: value,
      ci_high: value,
      unit,
    })
    const metrics = {
      request_throughput_avg: mean(9, 'requests/sec'),
      request_latency_p99: mean(25, 'ms'),
      request_count_avg: mean(90, 'requests'),
      error_request_count_avg: mean(10, 'requests'),
    }
    const of = (report: object) =>
      importResults([{ file: 'a.json', text: JSON.stringify(report) }], {
        ...options,
        maxErrorRate: 0.05,
      })
    const aggregate = of({ metadata: { aggregation_type: 'confidence' }, metrics })
    expect(aggregate.rows).toMatchObject([{ ratePerSecond: 9, p99Ms: 25, failed: 1 }])
    expect(aggregate.notes[0]).toMatch(/^1 of 1 loads failed more than 5 %.*a\.json: metrics$/)
    expect(
      of({ per_combination_metrics: [{ parameters: { concurrency: 4 }, metrics }] }).rows,
    ).toMatchObject([{ concurrency: 4, failed: 1 }])
  })

  test('the JSON of before 0.2, with its metrics under records', () => {
    const metric = (avg: number, p99?: number) => ({ unit: '', avg, p99: p99 ?? null })
    const text = JSON.stringify({
      records: {
        request_throughput: metric(9),
        request_latency: metric(20, 25),
        ttft: metric(5, 7),
      },
    })
    expect(
      importResults([{ file: 'a.json', text }], { ...options, metric: 'ttft' }).rows,
    ).toMatchObject([{ ratePerSecond: 9, p99TtftMs: 7 }])
  })
})

describe('k6', () => {
  test.each([
    ['k6-summary-export.json', 10, 52.9, 38.4, 0],
    ['k6-handle-summary.json', 20, 126.4 * (1 - 2 / 3792), 151.9, 0],
  ])(
    '%s is a row of whole answers, those that failed left out of its rate',
    (name, vus, rate, p99Ms, failed) => {
      const { task, rows } = read(name, { limitMs: 1000 })
      expect(task.parameters).toMatchObject([{ name: 'vus', values: [vus] }])
      expect(rows[0]).toMatchObject({ p99Ms, failed })
      expect(rows[0]!.ratePerSecond).toBeCloseTo(rate, 6)
      expect(read(name, { maxErrorRate: 0.0005 }).rows[0]).toMatchObject({
        failed: name.includes('handle') ? 1 : 0,
      })
      expect(read(name, { percentile: 0.5 }).rows[0]!.p50Ms).toBe(
        name.includes('handle') ? 74 : 17.5,
      )
    },
  )

  /** As k6 1.5 and later write it: metrics in a list, no rate of requests. */
  const structured = {
    config: { duration: 60, execution: 'local' },
    results: {
      metrics: [
        { name: 'http_reqs', type: 'counter', values: { count: 12_000 } },
        { name: 'http_req_duration', type: 'trend', values: { med: 20.1, 'p(95)': 34.4 } },
        { name: 'http_req_failed', type: 'rate', values: { matches: 120, total: 12_000 } },
        { name: 'vus_max', type: 'gauge', values: { max: 8 } },
      ],
    },
  }
  const readText = (document: object, more: Partial<typeof options> = {}) =>
    importResults([{ file: 'k6.json', text: JSON.stringify(document) }], {
      ...options,
      percentile: 0.95,
      maxErrorRate: 0.05,
      limitMs: 50,
      ...more,
    })

  test('the structured summary: its rate is its count over its duration', () => {
    const { rows, notes } = readText(structured)
    expect(rows).toMatchObject([{ vus: 8, p95Ms: 34.4, failed: 0 }])
    expect(rows[0]!.ratePerSecond).toBeCloseTo(200 * 0.99)
    expect(notes).toEqual([])
    expect(() => readText({ ...structured, config: {} })).toThrow(
      /http_reqs\.rate is '', not a number/,
    )
  })

  test('a summary that does not count failures says so, with what its checks say', () => {
    const old = {
      metrics: {
        http_reqs: { count: 12_000, rate: 200 },
        http_req_duration: { med: 20.1, 'p(95)': 34.4 },
        checks: { passes: 6000, fails: 6000 },
      },
    }
    expect(readText(old).notes).toEqual([
      'k6 does not say how many requests failed (of its checks 6000 of 12000 failed)',
    ])
  })

  test('a percentile that its run did not keep is refused with the flag that keeps it', () => {
    expect(() => read('k6-summary-export.json', { percentile: 0.999 })).toThrow(
      /no p\(99\.9\) of http_req_duration \(k6 run --summary-trend-stats/,
    )
    expect(() => read('k6-summary-export.json', { metric: 'ttft' })).toThrow(/k6 reports no ttft/)
  })
})

describe('vllm bench serve', () => {
  test.each(['NaN', 'Infinity', '-Infinity', 'null'])(
    "%s is Python's word for not known: refused where it is asked for, and nothing elsewhere",
    (unknown) => {
      const text = `{"num_prompts": 400, "label": "NaN", "completed": 400, "request_throughput": 19.6, "p99_ttft_ms": 92.4, "p99_tpot_ms": ${unknown}}`
      const ask = (metric: 'ttft' | 'tpot') =>
        importResults([{ file: 'a.json', text }], { ...options, metric })
      expect(ask('ttft').rows).toMatchObject([{ ratePerSecond: 19.6, p99TtftMs: 92.4 }])
      expect(() => ask('tpot')).toThrow(/a\.json: no p99_tpot_ms/)
    },
  )

  test('is a run a file: its throughput at the rate that was asked', () => {
    const { task, rows } = read('vllm-bench-serve.json', { metric: 'ttft', limitMs: 100 })
    expect(task.parameters).toMatchObject([{ name: 'requestRate', values: [2] }])
    expect(rows).toMatchObject([{ ratePerSecond: 1.93, p99TtftMs: 60.3, failed: 0 }])
    expect(read('vllm-bench-serve.json', { limitMs: 2000 }).rows).toMatchObject([{ p99Ms: 1061.4 }])
  })

  test('a run a line with --append-result, and what --metadata names is the configuration', () => {
    const { task, rows } = read('vllm-bench-serve-appended.jsonl', { metric: 'ttft', limitMs: 100 })
    expect(task.parameters).toEqual([
      { kind: 'ordinal', name: 'tensor_parallel_size', values: [1, 2] },
    ])
    expect(rows).toMatchObject([
      { tensor_parallel_size: 1, ratePerSecond: 3.81, p99TtftMs: 96.48 },
      { tensor_parallel_size: 2, ratePerSecond: 3.81 },
    ])
  })

  test('waits in its own queue count, old versions count no failures, and a latency it was not asked for names the flags', () => {
    const run = JSON.parse(fixture('vllm-bench-serve.json').text)
    const of = (changed: object, given: Partial<ImportOptions> = {}) =>
      importResults([{ file: 'v.json', text: JSON.stringify({ ...run, ...changed }) }], {
        ...options,
        limitMs: 5000,
        ...given,
      })
    expect(of({ max_concurrency: 8, p99_e2el_including_client_queue_ms: 4000 }).rows).toMatchObject(
      [{ p99Ms: 4000 }],
    )
    expect(of({ failed: undefined, num_prompts: 202 }).notes.join()).toMatch(/1 of 1 loads failed/)
    expect(() => of({ p99_e2el_ms: undefined })).toThrow(
      /no p99_e2el_ms \(--percentile-metrics e2el --metric-percentiles 99 reports it\)/,
    )
  })
})

describe('vllm bench sweep', () => {
  const runs = [32, 128].flatMap((max_num_seqs) =>
    [8, 16].map((max_concurrency) => ({
      model_id: 'acme/parrot-7b',
      num_prompts: 200,
      request_rate: 'inf',
      max_concurrency,
      completed: 200,
      failed: 0,
      request_throughput: max_num_seqs / 16 + max_concurrency / 8,
      request_goodput: null,
      p99_ttft_ms: 5 * max_concurrency,
      run_number: 0,
      max_num_seqs,
      enforce_eager: true,
      _benchmark_name: `s${max_num_seqs}`,
    })),
  )
  const table = [
    ['', ...Object.keys(runs[0]!)].join(','),
    ...runs.map((run, i) => [i, ...Object.values(run).map((cell) => cell ?? '')].join(',')),
  ].join('\n')
  const files = {
    'summary.json': JSON.stringify(runs, null, 4),
    'summary.csv': table,
    'runs.jsonl': runs.map((run) => JSON.stringify(run)).join('\n'),
  }

  test.each(Object.entries(files))('%s: what it set tells configurations apart', (file, text) => {
    const { task, rows } = importResults([{ file, text }], {
      ...options,
      metric: 'ttft',
      limitMs: 100,
    })
    expect(task.parameters).toEqual([{ kind: 'ordinal', name: 'max_num_seqs', values: [32, 128] }])
    expect(rows).toMatchObject([
      { max_num_seqs: 32, ratePerSecond: 4, p99TtftMs: 80 },
      { max_num_seqs: 128, ratePerSecond: 10, p99TtftMs: 80 },
    ])
  })

  test('combinations that set other parameters are told apart by all of them', () => {
    const { max_num_seqs: _, ...plain } = runs[0]!
    const text = JSON.stringify([plain, { ...plain, max_num_batched_tokens: 4096 }])
    expect(
      importResults([{ file: 's.json', text }], { ...options, metric: 'ttft' }).task.parameters,
    ).toMatchObject([{ name: 'max_num_batched_tokens' }])
  })
})

test("SGLang's client: a run a line, under its own names, of which failures are not known", () => {
  const run = (request_rate: number, p99_e2e_latency_ms: number) =>
    JSON.stringify({
      backend: 'sglang',
      request_rate,
      max_concurrency: null,
      completed: 240,
      request_throughput: request_rate - 0.1,
      mean_e2e_latency_ms: 1200.5,
      median_e2e_latency_ms: 1150,
      p99_e2e_latency_ms,
    })
  const text = `${run(4, 2100)}\n${run(8, 3100)}\n`
  const { rows, notes } = importResults([{ file: 's.jsonl', text }], { ...options, limitMs: 5000 })
  expect(rows).toMatchObject([
    { requestRate: 4, ratePerSecond: 3.9, p99Ms: 2100 },
    { requestRate: 8, ratePerSecond: 7.9, p99Ms: 3100 },
  ])
  expect(notes.join()).toMatch(/sglang.bench_serving does not say how many requests failed/)
})

test('several files are a configuration each, named by what tells their paths apart, each with its best load', () => {
  const files = ['l4/benchmarks.json', 'h100/benchmarks.json'].map((file) =>
    fixture('guidellm-benchmarks.json', file),
  )
  const { task, rows } = importResults(files, { ...options, limitMs: 2000 })
  expect(task.parameters).toEqual([{ kind: 'categorical', name: 'file', values: ['l4', 'h100'] }])
  // Of the loads within 2 s the one that serves most.
  expect(rows).toMatchObject([
    { file: 'l4', ratePerSecond: 22.5 },
    { file: 'h100', ratePerSecond: 22.5 },
  ])
  const named = ['runs/a.csv', 'runs/b.csv'].map((file) => fixture('guidellm-benchmarks.csv', file))
  expect(importResults(named, options).rows.map((row) => row.file)).toEqual(['a', 'b'])
})

test('a file of no tool is refused with what to do; JSON that is none too', () => {
  expect(said('batch,price\n1,2\n')).toThrow(
    'it is not a result of Model Analyzer, perf_analyzer, vllm bench serve, sglang.bench_serving, GuideLLM, AIPerf, k6',
  )
  expect(said('{"a": 1}\n{"a": 2}\n')).toThrow(/it is not a result of Model Analyzer/)
  expect(said('{"a": 1')).toThrow(/starts like JSON/)
  expect(said('')).toThrow(/not a result/)
  expect(said('{}')).toThrow(/not a result/)
})

describe('of every tool', () => {
  test('a load that nothing came of is one that did not serve', () => {
    const { rows } = importResults(
      [{ file: 'p.csv', text: 'Concurrency,Inferences/Second,p99 latency\n1,50,9000\n64,0,0\n' }],
      options,
    )
    expect(rows).toMatchObject([
      { concurrency: 1, failed: 0 },
      { concurrency: 64, failed: 1 },
    ])
  })

  test.each([
    [
      'rows of a table',
      'Concurrency,Inferences/Second,p99 latency\n1,NaN,9000\n2,60,9000\n4,inf,9000\n',
      [
        "x.csv:2: Inferences/Second is 'NaN', not a number",
        "x.csv:4: Inferences/Second is 'inf', not a number",
      ],
    ],
    [
      'combinations of a sweep',
      '{"per_combination_metrics":[{"metrics":null},null,7]}',
      [
        '[0]: no metric request_throughput_avg',
        '[1]: it is null, not an object',
        '[2]: it is 7, not an object',
      ],
    ],
    [
      'benchmarks',
      '{"benchmarks":[{"metrics":{"requests_per_second":{},"request_latency":null}},null]}',
      ['[0]: no metric request_latency', '[1]: it is null, not an object'],
    ],
    [
      'a latency that is null',
      '{"request_throughput":{"avg":5},"request_latency":null}',
      ['x.csv: no metric request_latency'],
    ],
  ])('%s: whatever is wrong is told at once', (_what, text, told) => {
    let message = ''
    try {
      importResults([{ file: 'x.csv', text }], options)
    } catch (error) {
      message = (error as Error).message
    }
    expect(message.split('\n')).toEqual(told.map((line) => expect.stringContaining(line)))
  })
})
