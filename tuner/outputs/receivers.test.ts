import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, afterEach, describe, expect, test } from 'vitest'
import { freePort } from '../../profiler/testing/free-port.ts'
import { prometheusTakesOtlp, startPrometheus } from '../testing/prometheus-itself.ts'
import { CliBox } from '../testing/run-cli.ts'
import { WarmCli } from '../testing/warm-cli.ts'
import { seriesHelp } from './prometheus-series.ts'
import { type Receiver, startReceiver } from './testing/receiver.ts'

const dashboard = JSON.parse(
  readFileSync(new URL('../../deploy/grafana/tune.json', import.meta.url), 'utf8'),
) as {
  readonly panels: readonly Panel[]
}
interface Panel {
  readonly id: number
  readonly title: string
  readonly gridPos: {
    readonly x: number
    readonly y: number
    readonly w: number
    readonly h: number
  }
  readonly targets: readonly { readonly expr: string }[]
}

const search = [
  '--model',
  'bert',
  '--slo',
  '50ms',
  '--backend',
  'simulated',
  '--gpus',
  'T4',
  '--max-trials',
  '3',
  '--rps',
  '500',
]

/** One process for all runs: what they send and print is what this is about. */
const tune = new WarmCli()
afterAll(() => tune.end())

describe.skipIf(!prometheusTakesOtlp)('Prometheus itself, from 3 on', () => {
  const box = new CliBox()
  afterAll(() => box.end())

  test('takes a run as it goes on, and answers with every series of it', async () => {
    const prometheus = await startPrometheus(box.folder, ['--web.enable-otlp-receiver'])
    try {
      const { code, stderr } = await tune.run(box, [
        ...search,
        '--out',
        'results',
        '--out',
        `otlp=${prometheus.url}/api/v1/otlp`,
      ])
      expect(code, stderr).toBe(0)
      expect(stderr).not.toContain('otlp=')
      const ask = async (query: string) => {
        const response = await fetch(
          `${prometheus.url}/api/v1/query?query=${encodeURIComponent(query)}`,
        )
        const { data } = (await response.json()) as {
          data: { result: { metric: Record<string, string>; value: [number, string] }[] }
        }
        return data.result
      }
      const [limit] = await ask('last_over_time(tune_slo_limit_seconds[1h])')
      const experimentId = limit!.metric.experiment!
      for (const name of Object.keys(seriesHelp))
        expect(await ask(`last_over_time(${name}[1h])`), name).not.toEqual([])
      const { panels } = dashboard
      for (const { title, targets } of panels)
        for (const { expr } of targets) {
          const asked = expr
            .replaceAll('"$experiment"', `"${experimentId}"`)
            .replaceAll('$__range', '1h')
          const recent = /last_over_time/.test(asked)
            ? asked
            : asked.replace(/(\w+\{[^}]*\})/, 'last_over_time($1[1h])')
          expect(await ask(recent), `${title}: ${expr}`).not.toEqual([])
        }
      const [trials] = await ask('sum(last_over_time(tune_trials[1h]))')
      expect(Number(trials!.value[1])).toBe(3)
      const [best] = await ask('last_over_time(tune_best_capacity_requests_per_second[1h])')
      const { best: recommended } = JSON.parse(
        readFileSync(join(box.folder, 'results/recommendation.json'), 'utf8'),
      ) as {
        best: { capacityRps: number; label: string }
      }
      expect(Number(best!.value[1])).toBeCloseTo(recommended.capacityRps, 6)
      expect(best!.metric).toMatchObject({
        configuration: recommended.label,
        conclusion: 'simulated',
      })
    } finally {
      await prometheus.end()
    }
  })
})

describe('a receiver', () => {
  let open: Receiver | undefined
  afterEach(() => open?.stop())

  /** Answers with these states in turn, then with 204. */
  async function receiver(states: readonly number[] = []): Promise<Receiver> {
    open = await startReceiver((_, before) => ({
      status: states[before] ?? 204,
      body: (states[before] ?? 204) < 400 ? undefined : 'out of quota for team hush-hush-2',
    }))
    return open
  }

  const run = async (out: string, box: CliBox) => {
    try {
      return await tune.run(box, [...search, '--out', out])
    } finally {
      await box.end()
    }
  }

  test('is sent the credentials of the URL, and once more what failed for the moment', async () => {
    const { heard, address } = await receiver([503])
    const { code, stderr } = await run(
      `otlp=http://me:hush-hush-2@${address}/below?tenant=7`,
      new CliBox(),
    )
    expect(code, stderr).toBe(0)
    expect(stderr).not.toContain('otlp=')
    const again = heard.slice(1).some(({ body }) => body.equals(heard[0]!.body))
    expect(again).toBe(true)
    for (const { path, headers } of heard) {
      expect(path).toMatch(/^\/below\/v1\/(metrics|traces)\?tenant=7$/)
      expect(headers).toMatchObject({
        'content-type': 'application/json',
        authorization: `Basic ${Buffer.from('me:hush-hush-2').toString('base64')}`,
      })
    }
  })

  test('that takes no traces, as Prometheus, is sent metrics alone, without a word', async () => {
    open = await startReceiver(({ path }) => ({ status: path.endsWith('/traces') ? 404 : 200 }))
    const { code, stderr } = await run(`otlp=http://${open.address}/api/v1/otlp`, new CliBox())
    expect(code, stderr).toBe(0)
    expect(stderr).not.toContain('otlp=')
    const times = new Map<string, number>()
    for (const { body } of open.heard.filter(({ path }) => path.endsWith('/metrics')))
      for (const { name, attributes, timeUnixNano } of pointsOf(body)) {
        const key = JSON.stringify([name, attributes])
        // A receiver refuses two points of a series at one time.
        expect(Number(BigInt(timeUnixNano) / 1_000_000n)).toBeGreaterThan(times.get(key) ?? 0)
        times.set(key, Number(BigInt(timeUnixNano) / 1_000_000n))
      }
    expect(times.size).toBeGreaterThan(20)
  })

  test('that never answers holds up neither the run nor its end for long', async () => {
    const silent = createServer(() => {})
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
    const { port } = silent.address() as AddressInfo
    const startedMs = performance.now()
    const { code, stderr } = await run(`otlp=http://127.0.0.1:${port}`, new CliBox())
    silent.closeAllConnections()
    silent.close()
    expect(code, stderr).toBe(0)
    expect(stderr).toMatch(/otlp=.*cannot be reached \(.*timed out/)
    expect(performance.now() - startedMs).toBeLessThan(45_000)
  })

  test.each([
    [
      'that refuses is named, without secrets, and the result is whole',
      400,
      /otlp=http:\/\/127.0.0.1:\d+\/write: status 400: out of quota/,
    ],
    [
      'that is not there is named, and the result is whole',
      undefined,
      /otlp=http:\/\/127.0.0.1:\d+\/write: cannot be reached \(.*ECONNREFUSED/,
    ],
  ])('%s', async (_, state, words) => {
    const { address } =
      state === undefined
        ? { address: `127.0.0.1:${await freePort()}` }
        : await receiver(Array(1000).fill(state))
    const box = new CliBox()
    const { code, stdout, stderr } = await run(`otlp=http://me:hush-hush-2@${address}/write`, box)
    expect(code).toBe(0)
    expect(stderr).toMatch(words)
    expect(stderr).toMatch(/messages were lost; the result itself is complete/)
    expect(stdout).toContain('batch')
    expect(stdout + stderr).not.toContain('hush-hush-2')
  })
})

test.each([
  ['grafana=http://127.0.0.1:3000', "unknown key 'send.grafana'"],
  ['otlp=ftp://127.0.0.1/write', 'not an http URL'],
  ['otlp=', 'found an empty text'],
  ['prometheus=http://127.0.0.1:9090/api/v1/write', "unknown key 'send.prometheus'"],
])('--out %s is refused before anything runs', async (out, words) => {
  const box = new CliBox()
  const { code, stderr } = await tune.run(box, [...search, '--out', out])
  await box.end()
  expect(code).toBe(2)
  expect(stderr).toContain(words)
})

describe('deploy/grafana/tune.json', () => {
  const { panels } = dashboard
  const asked = panels.flatMap(({ targets }) =>
    targets.flatMap(({ expr }) => expr.match(/\btune_\w+/g) ?? []),
  )

  test('shows every series, and none that there is not', () => {
    expect([...new Set(asked)].sort()).toEqual(Object.keys(seriesHelp).sort())
  })

  test('has panels of their own ids that lie over no other, on 24 columns', () => {
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length)
    const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, i) => `${x + (i % w)}/${y + Math.floor(i / w)}`),
    )
    expect(new Set(cells).size).toBe(cells.length)
    expect(Math.max(...panels.map(({ gridPos: { x, w } }) => x + w))).toBeLessThanOrEqual(24)
  })
})

test('docs/how-to/send-results.md names every series', () => {
  const text = readFileSync(new URL('../../docs/how-to/send-results.md', import.meta.url), 'utf8')
  for (const [name, help] of Object.entries(seriesHelp))
    expect(text).toContain(`| \`${name}\` | ${help} |`)
})

interface Point {
  readonly name: string
  readonly attributes: unknown
  readonly timeUnixNano: string
}

function pointsOf(body: Buffer): Point[] {
  const { resourceMetrics } = JSON.parse(body.toString()) as {
    resourceMetrics: {
      scopeMetrics: { metrics: { name: string; gauge: { dataPoints: Omit<Point, 'name'>[] } }[] }[]
    }[]
  }
  return resourceMetrics.flatMap(({ scopeMetrics }) =>
    scopeMetrics.flatMap(({ metrics }) =>
      metrics.flatMap(({ name, gauge }) => gauge.dataPoints.map((point) => ({ name, ...point }))),
    ),
  )
}

/**
 * Prometheus' own translation (prometheus/otlptranslator: BuildCompliantMetricName), as far as the
 * units of a run go.
 */
test('Prometheus makes the documented names of what is sent', async () => {
  const receiver = await startReceiver(() => ({ status: 200, body: '{}' }))
  const box = new CliBox()
  expect((await tune.run(box, [...search, '--out', `otlp=http://${receiver.address}`])).code).toBe(
    0,
  )
  receiver.stop()
  await box.end()
  const ends: Readonly<Record<string, string>> = {
    s: '_seconds',
    '{request}/s': '_per_second',
    '{USD}/h': '_per_hour',
    '{USD}': '',
    '1': '_ratio',
    '': '',
  }
  const names = receiver.heard
    .filter(({ path }) => path === '/v1/metrics')
    .flatMap(({ body }) => [
      ...body.toString().matchAll(/"name":"(tune\.[^"]+)","description":"[^"]*","unit":"([^"]*)"/g),
    ])
    .map(([, name, unit]) => `${name!.replaceAll('.', '_')}${ends[unit!]}`)
  expect([...new Set(names)].sort()).toEqual(Object.keys(seriesHelp).sort())
})
