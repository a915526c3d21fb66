import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import protobuf from 'protobufjs'
import snappy from 'snappyjs'
import { afterAll, afterEach, describe, expect, test } from 'vitest'
import { freePort } from '../../profiler/testing/free-port.ts'
import { prometheusInstalled, startPrometheus } from '../testing/prometheus-itself.ts'
import { CliBox } from '../testing/run-cli.ts'
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

describe.skipIf(!prometheusInstalled)('Prometheus itself', () => {
  const box = new CliBox()
  afterAll(() => box.end())

  test('takes a run as it goes on, and answers with every series of it', async () => {
    const prometheus = await startPrometheus(box.folder, ['--web.enable-remote-write-receiver'])
    try {
      const { code, stderr } = await box.run([
        ...search,
        '--out',
        'results',
        '--out',
        `prometheus=${prometheus.url}/api/v1/write`,
      ])
      expect(code, stderr).toBe(0)
      expect(stderr).not.toContain('prometheus=')
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
      return await box.run([...search, '--out', out])
    } finally {
      await box.end()
    }
  }

  test('is sent what the protocol asks for: headers, sorted labels, samples in the order of time', async () => {
    const { heard, address } = await receiver([503])
    const { code, stderr } = await run(
      `prometheus=http://me:hush-hush-2@${address}/write`,
      new CliBox(),
    )
    expect(code, stderr).toBe(0)
    // What failed for the moment came once more.
    expect(stderr).not.toContain('prometheus=')
    expect(heard[1]?.body).toEqual(heard[0]?.body)
    for (const { headers } of heard)
      expect(headers).toMatchObject({
        'content-type': 'application/x-protobuf',
        'content-encoding': 'snappy',
        'x-prometheus-remote-write-version': '0.1.0',
        authorization: `Basic ${Buffer.from('me:hush-hush-2').toString('base64')}`,
      })
    const last = new Map<string, number>()
    for (const { body } of heard.slice(1))
      for (const { labels, samples } of read(body)) {
        const names = labels.map(({ name }) => name)
        expect(names).toEqual([...names].sort())
        expect(names[0]).toBe('__name__')
        for (const { timestamp } of samples) {
          const key = JSON.stringify(labels)
          expect(Number(timestamp)).toBeGreaterThan(last.get(key) ?? 0)
          last.set(key, Number(timestamp))
        }
      }
    expect(last.size).toBeGreaterThan(20)
  })

  test.each([
    [
      'that refuses is named, without secrets, and the result is whole',
      400,
      /prometheus=http:\/\/127.0.0.1:\d+\/write: status 400: out of quota/,
    ],
    [
      'that is not there is named, and the result is whole',
      undefined,
      /prometheus=http:\/\/127.0.0.1:\d+\/write: not to be reached \(.*ECONNREFUSED/,
    ],
  ])('%s', async (_, state, words) => {
    const { address } =
      state === undefined
        ? { address: `127.0.0.1:${await freePort()}` }
        : await receiver(Array(1000).fill(state))
    const box = new CliBox()
    const { code, stdout, stderr } = await run(
      `prometheus=http://me:hush-hush-2@${address}/write`,
      box,
    )
    expect(code).toBe(0)
    expect(stderr).toMatch(words)
    expect(stderr).toMatch(/messages were lost; the result itself is complete/)
    expect(stdout).toContain('batch')
    expect(stdout + stderr).not.toContain('hush-hush-2')
  })
})

test.each([
  ['grafana=http://127.0.0.1:3000', "unknown key 'send.grafana'"],
  ['prometheus=ftp://127.0.0.1/write', 'no http URL'],
  ['prometheus=', 'found an empty text'],
])('--out %s is refused before anything runs', async (out, words) => {
  const box = new CliBox()
  const { code, stderr } = await box.run([...search, '--out', out])
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

test('docs/outputs.md names every series', () => {
  const text = readFileSync(new URL('../../docs/outputs.md', import.meta.url), 'utf8')
  for (const [name, help] of Object.entries(seriesHelp))
    expect(text).toContain(`| \`${name}\` | ${help} |`)
})

interface Read {
  readonly labels: { readonly name: string; readonly value: string }[]
  readonly samples: { readonly timestamp: string }[]
}

/** By definitions of their own. */
function read(body: Buffer): Read[] {
  const { root } = protobuf.parse(
    'syntax = "proto3"; message W { repeated T t = 1; } message T { repeated L labels = 1; repeated S samples = 2; } message L { string name = 1; string value = 2; } message S { double value = 1; int64 timestamp = 2; }',
  )
  const type = root.lookupType('W')
  return (type.toObject(type.decode(snappy.uncompress(body)), { longs: String }) as { t: Read[] }).t
}
