import { once } from 'node:events'
import { appendFileSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { CliBox, simulatedSearch } from '../../../testing/run-cli.ts'
import { WarmCli } from '../../../testing/warm-cli.ts'
import { type PlayedRequest, playedRequests } from './testing/slowed-production.ts'

const tune = new WarmCli()
const box = new CliBox()
const startS = Date.parse('2025-06-02T00:00:00Z') / 1000
const rateRps = 0.25
let all: readonly PlayedRequest[]

beforeAll(async () => {
  expect(
    (await tune.run(box, simulatedSearch('--max-trials', '6', '--seed', '1', '--rps', '500'))).code,
  ).toBe(0)
  all = await playedRequests(join(box.folder, '.tune/tune.db'), rateRps, startS, [
    { hours: 80, slowness: 1 },
    { hours: 24, slowness: 1.15 },
  ])
})
afterAll(async () => {
  tune.end()
  await box.end()
})

const path = (name: string) => join(box.folder, name)
const line = ({ atS, latencyMs }: PlayedRequest, more: object = {}) =>
  `${JSON.stringify({ ts: atS, latency_ms: Number(latencyMs.toFixed(3)), status: 200, uri: '/v2', ...more })}\n`
const between = (fromH: number, toH: number) =>
  all
    .filter(({ atS }) => atS >= startS + fromH * 3600 && atS < startS + toH * 3600)
    .map((one) => line(one))
const look = (...args: string[]) =>
  tune.run(box, ['watch', '--replicas', '1', '--window', '30m', '--once', ...args])

describe('a predictor that slows by 15 %', () => {
  test('is seen within 12 hours, by looks one after the other as by one, through a rotation of the log', async () => {
    writeFileSync(path('a.log'), between(0, 40).join(''))
    expect(await look('--log', 'a.log')).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('of 72 hours of production'),
    })
    appendFileSync(path('a.log'), between(40, 75).join(''))
    renameSync(path('a.log'), path('a.log.1'))
    writeFileSync(path('a.log'), between(75, 80).join(''))
    expect(await look('--log', 'a.log')).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('drift: none'),
    })
    appendFileSync(path('a.log'), between(80, 86).join(''))
    expect((await look('--log', 'a.log')).code).toBe(0)
    appendFileSync(path('a.log'), between(86, 93).join(''))
    const seen = await look('--log', 'a.log', '--json', '--out', 'proposal')
    expect(seen.code).toBe(5)
    const told = JSON.parse(seen.stdout)
    expect(told.findings).toMatchObject([
      { kind: 'drift', text: expect.stringContaining('at least 365 days apart') },
    ])
    expect(told.findings[0].slowness).toBeGreaterThan(1.1)
    expect(told.findings[0].slowness).toBeLessThan(1.2)
    expect(told.findings[0].establishedS).toBeLessThanOrEqual(startS + 92 * 3600)

    writeFileSync(path('whole.log'), between(0, 93).join(''))
    const once = JSON.parse((await look('--log', 'whole.log', '--json', '--name', 'whole')).stdout)
    expect(once.drift).toEqual(told.drift)
  })

  test('what is proposed carries what was planned for; nothing is written where nothing is gained', async () => {
    const told = JSON.parse((await look('--log', 'a.log', '--json', '--out', 'proposal')).stdout)
    if (told.proposal.kind === 'nothing') expect(told.written).toEqual([])
    else {
      expect(told.written).toEqual(['proposal/deployment.yaml'])
      const spec = readFileSync(path('proposal/deployment.yaml'), 'utf8')
      expect(spec).toContain(`tune/trial: "${told.proposal.to.trial}"`)
      expect(spec).toContain(`replicas: ${told.proposal.to.replicas}`)
    }
    const dear = await look(
      '--log',
      'whole.log',
      '--json',
      '--min-gain',
      '99%',
      '--replicas',
      '3',
      '--name',
      'three',
      '--out',
      'other',
    )
    expect(JSON.parse(dear.stdout)).toMatchObject({ proposal: { kind: 'nothing' }, written: [] })
  })
})

test('an SLO that is broken now is 3, and a new version 5 with the command that measures it', async () => {
  const slow = all.slice(0, 2000).map((one) => line({ ...one, latencyMs: 80 }))
  writeFileSync(path('slow.log'), slow.join(''))
  expect(await look('--log', 'slow.log', '--name', 'slow')).toMatchObject({
    code: 3,
    stdout: expect.stringMatching(/SLO VIOLATED NOW: p99 80 ms/),
  })
  const half = all.slice(0, 2000).map((one, i) => line(one, { model: i < 1000 ? '1' : '2' }))
  writeFileSync(path('versions.log'), half.join(''))
  const told = await look(
    '--log',
    'versions.log',
    '--name',
    'versions',
    '--version-label',
    'model',
    '--out',
    'again',
  )
  expect(told).toMatchObject({
    code: 5,
    stdout: expect.stringContaining('tune -f again/experiment.yaml'),
  })
  // What it names runs.
  expect((await tune.run(box, ['-f', 'again/experiment.yaml', '--dry-run'])).code).toBe(0)
})

test('a Prometheus that falls silent is no word that the recommendation holds', async () => {
  let untilS = Number.POSITIVE_INFINITY
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', (part) => (body += part))
    request.on('end', () => {
      const asked = new URLSearchParams(body)
      const [query, start, end, step] = ['query', 'start', 'end', 'step'].map(
        (name) => asked.get(name)!,
      )
      const times = Array.from(
        { length: (Number(end) - Number(start)) / Number(step) + 1 },
        (_, i) => Number(start) + i * Number(step),
      )
      const values = times
        .filter((at) => at <= untilS && (query === 'r' || query === 'l'))
        .map((at) => [at, query === 'l' ? '5' : '10'])
      response.end(
        JSON.stringify({
          status: 'success',
          data: { resultType: 'matrix', result: values.length === 0 ? [] : [{ values }] },
        }),
      )
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  try {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const asked = () =>
      look(
        '--prometheus',
        url,
        '--query',
        'rate=r',
        '--query',
        'latency=l',
        '--window',
        '1m',
        '--name',
        'silent',
      )
    // It stopped half an hour ago.
    untilS = Date.now() / 1000 - 1800
    expect((await asked()).code).toBe(0)
    expect(await asked()).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(
        /no data for rate, latency(.|\n)*no production data since .*: it is unknown whether the service still runs/,
      ),
    })
  } finally {
    server.close()
  }
})

test('prices that have moved since are told', async () => {
  writeFileSync(
    path('prices.yaml'),
    'name: today\ncurrency: USD\nvcpu: 0.03\nmemoryGiB: 0.004\ngpus: {T4: 0.7}\n',
  )
  writeFileSync(
    path('quiet.log'),
    all
      .slice(0, 2000)
      .map((one) => line(one))
      .join(''),
  )
  expect(
    await look('--log', 'quiet.log', '--name', 'prices', '--prices', 'prices.yaml'),
  ).toMatchObject({
    code: 5,
    stdout: expect.stringContaining('PRICE CHANGE'),
  })
})

test('what is deployed is watched on, whatever is recommended meanwhile, until the flag says otherwise', async () => {
  writeFileSync(path('kept.log'), between(0, 3).join(''))
  const kept = await look('--log', 'kept.log', '--name', 'kept', '--trial', '2')
  expect(kept.stderr).toMatch(/kept: trial 2.*\nthe recommendation is trial 1/)
  expect((await look('--log', 'kept.log', '--name', 'kept')).stderr).toMatch(/kept: trial 2/)
  const changed = await look('--log', 'kept.log', '--name', 'kept', '--trial', '1', '--json')
  expect(changed.stderr).toMatch(/the watch starts again: it watched trial 2 until now/)
  expect(JSON.parse(changed.stdout)).toMatchObject({ trial: 1, windows: 6 })
})

test('what is wrong is told before anything is read', async () => {
  const wrong: readonly (readonly [readonly string[], RegExp])[] = [
    [[], /tune watch needs exactly one source/],
    [['--log', 'a.log', '--prometheus', 'http://x'], /tune watch needs exactly one source/],
    [['--log', 'none.log'], /no log at none.log/],
    [['--log', 'a.log', '--window', '7h'], /10 s to 30 min/],
    [['--log', 'a.log', '--window', '10m'], /uses windows of 1800 s/],
    [['--log', 'a.log', '--trial', '99'], /no trial 99/],
    [['--prometheus', 'prometheus:9090'], /is not a URL/],
    [['--prometheus', 'http://me:secret@x:9090'], /^(?!.*secret).*contains a password/s],
    [['--prometheus', 'http://127.0.0.1:1', '--query', 'speed=1'], /--query/],
    [['--prometheus', 'http://127.0.0.1:1', '--server', 'apache'], /--server/],
  ]
  for (const [args, message] of wrong) {
    const { code, stderr } = await look(...args)
    expect(stderr, args.join(' ')).toMatch(message)
    expect(code, args.join(' ')).toBe(2)
  }
  expect(await look('--prometheus', 'http://127.0.0.1:1', '--name', 'away')).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('cannot query Prometheus'),
  })
})

test('Ctrl-C ends a watch, and what it saw is kept', async () => {
  writeFileSync(path('daemon.log'), between(0, 3).join(''))
  const running = box.start([
    'watch',
    '--log',
    'daemon.log',
    '--replicas',
    '1',
    '--window',
    '30m',
    '--name',
    'daemon',
  ])
  running.child.stdout!.once('data', () => running.child.kill('SIGINT'))
  expect(await running.result).toMatchObject({
    code: 130,
    stdout: expect.stringContaining('of 72 hours'),
  })
  expect(
    JSON.parse((await look('--log', 'daemon.log', '--name', 'daemon', '--json')).stdout),
  ).toMatchObject({ windows: 6 })
})
