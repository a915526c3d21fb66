/**
 * Against Prometheus itself (Debian's package `prometheus`), filled with what the built-in
 * predictor tells of days in virtual time.
 */
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { PredictorMetrics } from '../../../../trials/predictor/server/metrics.ts'
import {
  type PrometheusItself,
  prometheusInstalled,
  startPrometheus,
} from '../../../testing/prometheus-itself.ts'
import { CliBox, simulatedSearch } from '../../../testing/run-cli.ts'
import { WarmCli } from '../../../testing/warm-cli.ts'
import { buildDefaultQueries, monitoredServers } from './default-queries.ts'
import { PrometheusSource } from './prometheus-source.ts'
import { playedRequests } from './testing/slowed-production.ts'

describe.skipIf(!prometheusInstalled)('Prometheus', () => {
  const tune = new WarmCli()
  const box = new CliBox()
  let prometheus: PrometheusItself | undefined
  let url: string
  const hourS = 3600
  const endS = Math.floor(Date.now() / 1000 / hourS) * hourS - 3 * hourS
  const startS = endS - 94 * hourS
  /** The 15 % begin here. */
  const slowS = endS - 14 * hourS

  beforeAll(async () => {
    expect(
      (await tune.run(box, simulatedSearch('--max-trials', '6', '--seed', '1', '--rps', '500')))
        .code,
    ).toBe(0)
    writeFileSync(join(box.folder, 'metrics.txt'), await history())
    execFileSync('promtool', ['tsdb', 'create-blocks-from', 'openmetrics', 'metrics.txt', 'data'], {
      cwd: box.folder,
      stdio: 'ignore',
    })
    prometheus = await startPrometheus(box.folder, ['--storage.tsdb.retention.time=1y'])
    url = prometheus.url
  })
  afterAll(async () => {
    tune.end()
    await prometheus?.end()
    await box.end()
  })

  /** Scrapes of a minute each, as the predictor would have answered them. */
  async function history(): Promise<string> {
    const requests = await playedRequests(join(box.folder, '.tune/tune.db'), 3, startS, [
      { hours: 80, slowness: 1 },
      { hours: 14, slowness: 1.15 },
    ])
    const metrics = new PredictorMetrics()
    const model = metrics.of('bert', '1')
    const series = new Map<string, string[]>()
    let next = 0
    for (let atS = startS; atS <= endS; atS += 60) {
      for (; next < requests.length && requests[next]!.atS <= atS; next++)
        model.answered(requests[next]!.latencyMs)
      for (const line of (await metrics.registry.metrics()).split('\n')) {
        const [, series_ = '', value = ''] =
          /^(predictor_request(?:s_total|_seconds_\w+)\{[^}]*)\} (\S+)$/.exec(line) ?? []
        if (series_ === '') continue
        const known = series.get(series_) ?? []
        known.push(`${series_},instance="a:8000"} ${value} ${atS}`)
        series.set(series_, known)
      }
    }
    const of = (start: string) =>
      [...series].filter(([name]) => name.startsWith(start)).flatMap(([, lines]) => lines)
    const counter = ['# TYPE predictor_requests counter', ...of('predictor_requests_total')]
    return `${[...counter, '# TYPE predictor_request_seconds histogram', ...of('predictor_request_seconds')].join('\n')}\n# EOF\n`
  }

  const look = (...args: string[]) =>
    tune.run(box, ['watch', '--prometheus', url, '--since', '98h', '--once', ...args])

  test('the 15 % by which the emulated predictor slows are seen by its own metrics, with the default queries', async () => {
    const { code, stdout, stderr } = await look('--json')
    const told = JSON.parse(stdout)
    expect(
      { code, kinds: told.findings.map(({ kind }: { kind: string }) => kind) },
      `${stdout}\n${stderr}`,
    ).toEqual({
      code: 5,
      kinds: ['drift'],
    })
    expect(told).toMatchObject({ replicas: 1, last: { errorShare: 0, versions: ['1'] } })
    expect(told.findings[0].establishedS).toBeGreaterThan(slowS)
    expect(told.windows).toBeGreaterThan(94 * 12 - 3)
    // What was seen is not seen again.
    expect(JSON.parse((await look('--json')).stdout)).toMatchObject({
      windows: told.windows,
      findings: [{ kind: 'drift' }],
    })
  })

  test('every default query is one that Prometheus understands', async () => {
    for (const server of monitoredServers)
      for (const metric of ['e2e', 'ttft', 'tpot'] as const) {
        const queries = buildDefaultQueries(server, metric)
        const options = {
          windowS: 300,
          percentile: 0.99,
          initialLookbackS: 3600,
          url: new URL(url),
        }
        for (const selector of ['', 'namespace="shop",job="bert"'])
          await new PrometheusSource({
            ...options,
            selector,
            queries: { latency: 'vector(1)', rate: 'vector(1)', ...queries },
          }).read(...([endS, undefined, undefined, new AbortController().signal] as const))
      }
  })

  test('a query of several series, or one that is none, is refused with what to do', async () => {
    const refused = async (query: string) => {
      const { code, stderr } = await look('--name', 'other', '--query', query)
      expect(code).toBe(2)
      return stderr
    }
    expect(await refused('rate=predictor_request_seconds_bucket')).toMatch(
      /returns \d+ series instead of one.*\n.*--query 'rate=sum/,
    )
    expect(await refused('rate=sum(')).toMatch(
      /Prometheus rejects --query rate=sum\(: .*parse error/,
    )
  })

  test('where it has nothing the watch says of what', async () => {
    const { code, stderr } = await look('--name', 'none', '--selector', 'job="none"')
    expect(stderr).toContain('Prometheus has no data for rate, latency')
    expect(code).toBe(1)
  })
})

/** What a Prometheus that answers so makes of two windows of a minute. */
async function readFrom(
  answers: Readonly<Record<string, unknown>> | ((asked: URLSearchParams) => unknown),
  more: Readonly<Record<string, string>> = {},
  initialLookbackS = 240,
) {
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', (part) => (body += part))
    request.on('end', () => {
      const asked = new URLSearchParams(body)
      const result = typeof answers === 'function' ? answers(asked) : answers[asked.get('query')!]
      response.end(JSON.stringify({ status: 'success', data: { resultType: 'matrix', result } }))
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  try {
    const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
    const options = {
      url,
      queries: { rate: 'r', latency: 'l', ...more },
      windowS: 60,
      selector: '',
      percentile: 0.99,
      initialLookbackS,
    }
    return await new PrometheusSource(options).read(
      60_090,
      undefined,
      undefined,
      new AbortController().signal,
    )
  } finally {
    server.close()
  }
}
const series = (...values: readonly (string | number)[]) => [
  {
    metric: {},
    values: values.map((value, i) => [60_000 - 60 * (values.length - 1 - i), String(value)]),
  },
]

test('a figure that is never a number is named as missing where there were requests; an idle server has no percentile', async () => {
  const silent = await readFrom({ r: series(5, 5), l: series('NaN', 'NaN') })
  expect(silent.windows.map(({ rateRps, sloMs }) => [rateRps, sloMs])).toEqual([
    [5, undefined],
    [5, undefined],
  ])
  expect(silent.notes).toEqual([expect.stringContaining('Prometheus has no data for latency')])
  expect(await readFrom({ r: series(0, 0), l: series('NaN', 'NaN') })).toMatchObject({
    notes: [],
    silent: false,
  })
  expect((await readFrom({ r: series('NaN', 5), l: series('+Inf', 7) })).windows).toMatchObject([
    { rateRps: 5, sloMs: 7 },
  ])
})

test('more windows than Prometheus gives points of a series are asked for in parts, none twice and none left out', async () => {
  const asked: number[] = []
  const { windows } = await readFrom(
    (query) => {
      const [start, end, step] = ['start', 'end', 'step'].map((name) => Number(query.get(name)))
      const at = Array.from({ length: (end! - start!) / step! + 1 }, (_, i) => start! + i * step!)
      if (query.get('query') === 'r') asked.push(...at)
      expect(at.length).toBeLessThan(11_000)
      return [{ metric: { b: '1', a: '2' }, values: at.map((second) => [second, '5']) }]
    },
    {},
    25_000 * 60,
  )
  expect(windows).toHaveLength(24_999)
  expect(windows.map(({ fromS }) => fromS + 60)).toEqual(asked)
})

test('per cent where a share is asked for, and figures below 0, are refused', async () => {
  await expect(readFrom({ r: series(5, -5), l: series(7, 7) })).rejects.toThrow(
    'the query for rate returns -5 instead of a number of at least 0: r',
  )
  await expect(
    readFrom({ r: series(5, 5), l: series(7, 7), g: series(0.5, 87) }, { gpu: 'g' }),
  ).rejects.toMatchObject({
    message: 'the query for gpu returns 87 instead of a share from 0 to 1: g',
    hint: "for percentages, divide: --query 'gpu=(...) / 100'",
  })
})

test('windows that are over without a word of them are silent, and series without values are refused', async () => {
  expect(await readFrom({ r: [], l: [] })).toMatchObject({
    windows: [],
    silent: true,
    notes: [expect.stringContaining('no data for rate, latency')],
  })
  for (const odd of [[null], [{ metric: {} }], [{ values: [null] }], [{ histograms: [] }]])
    await expect(readFrom({ r: odd, l: [] })).rejects.toThrow(
      'a series of its answer has no values',
    )
})

test('what is no Prometheus, and one that asks who comes', async () => {
  const server = createServer((request, response) => {
    if (request.headers.authorization === undefined) response.writeHead(401).end()
    else response.end('<html>')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const options = {
    url: new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`),
    ...{
      queries: { rate: '1', latency: '1' },
      windowS: 60,
      selector: '',
      percentile: 0.99,
      initialLookbackS: 600,
    },
  }
  const read = (token?: string) =>
    new PrometheusSource({ ...options, token }).read(
      1e9,
      undefined,
      undefined,
      new AbortController().signal,
    )
  await expect(read()).rejects.toMatchObject({
    message: expect.stringContaining('status 401'),
    hint: expect.stringContaining('TUNE_PROMETHEUS_TOKEN'),
  })
  await expect(read('secret')).rejects.toThrow('is not JSON')
  server.close()
})
