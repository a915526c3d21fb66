import { execFileSync } from 'node:child_process'
import { mkdirSync, renameSync, rmSync, symlinkSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { dirname, join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { unpackTrial } from '../../reports/dashboard/data/page-data.ts'
import { pickOwnQuestion, Ranker } from '../../reports/dashboard/data/ranking.ts'
import { openReader } from '../../trials/store/index.ts'
import { parseCsv } from '../../trials/testing/parsed-csv.ts'
import { createDashboard, type DashboardServer } from './dashboard-server.ts'
import { hostContext, late, type SampleStore, sampleStore, trials } from './samples.contract.ts'

let sample: SampleStore
let dashboard: DashboardServer
let base: string

beforeAll(async () => {
  sample = await sampleStore()
  dashboard = await createDashboard(await openReader(sample.path), hostContext)
  await dashboard.server.listen({ host: '127.0.0.1', port: 0 })
  base = `http://127.0.0.1:${(dashboard.server.server.address() as AddressInfo).port}`
})
afterAll(async () => {
  await dashboard.close()
  await sample.dispose()
})

const get = (url: string, headers: Record<string, string> = {}) =>
  dashboard.server.inject({ method: 'GET', url, headers: { host: '127.0.0.1:4455', ...headers } })

describe('what a browser fetches', () => {
  test.each(['/app.js', '/style.css'])(
    '%s comes compressed to who takes it so, and not again while it is the same',
    async (url) => {
      const whole = await get(url)
      const small = await get(url, { 'accept-encoding': 'gzip' })
      expect(small.headers['content-encoding']).toBe('gzip')
      expect(gunzipSync(small.rawPayload).toString()).toBe(whole.body)
      expect(small.rawPayload.length).toBeLessThan(whole.rawPayload.length / 2)
      const { etag } = small.headers
      const again = await get(url, { 'accept-encoding': 'gzip', 'if-none-match': String(etag) })
      expect([again.statusCode, again.body]).toEqual([304, ''])
      expect((await get(url, { 'if-none-match': '"of another version"' })).statusCode).toBe(200)
    },
  )

  test('is asked for again where it may have changed, and trials are kept nowhere', async () => {
    expect((await get('/app.js')).headers['cache-control']).toBe('no-cache')
    expect((await get('/api/experiments')).headers['cache-control']).toBe('no-store')
  })
})

describe('only its owner is answered', () => {
  test.each([
    'evil.example',
    'evil.example:4455',
    '127.0.0.1.evil.example',
    'localhost.evil.example:4455',
  ])('a request for the host "%s" is refused', async (host) => {
    const answer = await get('/api/experiments', { host })
    expect(answer.statusCode).toBe(403)
    expect(answer.body).not.toContain('bert')
  })
  test.each(['127.0.0.1:4455', 'localhost:4455', 'LOCALHOST:4455', '[::1]:4455'])(
    'a request for %s is answered',
    async (host) => {
      expect((await get('/', { host })).statusCode).toBe(200)
    },
  )
  test('another site may not ask, whether its browser says so by Origin or by fetch metadata', async () => {
    expect((await get('/api/experiments', { origin: 'https://evil.example' })).statusCode).toBe(403)
    expect((await get('/api/experiments', { 'sec-fetch-site': 'cross-site' })).statusCode).toBe(403)
    expect(
      (
        await get('/api/experiments', {
          origin: 'http://127.0.0.1:4455',
          'sec-fetch-site': 'same-origin',
        })
      ).statusCode,
    ).toBe(200)
  })
  test.each(['POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS'] as const)(
    '%s is refused',
    async (method) => {
      const answer = await dashboard.server.inject({
        method,
        url: '/api/experiments',
        headers: { host: 'localhost' },
      })
      expect(answer.statusCode).toBe(405)
    },
  )
  test('every answer carries the policy that lets the page run its own script alone', async () => {
    for (const url of [
      '/',
      '/app.js',
      '/api/experiments',
      '/nothing',
      '/api/experiments/none/export/trials.csv',
    ]) {
      const { headers } = await get(url)
      expect(headers['content-security-policy'], url).toMatch(
        /default-src 'none'; script-src 'self';/,
      )
      expect(headers['content-security-policy'], url).not.toContain('unsafe')
      expect(headers['x-content-type-options'], url).toBe('nosniff')
    }
  })
  test.each([
    '/../package.json',
    '/..%2f..%2fpackage.json',
    '/%2e%2e/package.json',
    '/page/../../package.json',
    '//etc/passwd',
    '/app.js/../../server.ts',
    '/api/experiments/..%2f..%2fetc/export/trials.csv',
    '/api/experiments/bert-7f3a/export/..%2f..%2f..%2fetc%2fpasswd',
    '/api/experiments/bert-7f3a/export/__proto__',
    '/api/experiments/bert-7f3a/export/constructor',
    '/api/experiments/bert-7f3a/spec/..%2f..%2fetc',
    '/api/experiments/bert-7f3a/trials/..%2f1/log',
  ])('%s leads nowhere', async (url) => {
    const answer = await get(url)
    expect(answer.statusCode).toBeGreaterThanOrEqual(400)
    expect(answer.statusCode).toBeLessThan(500)
    expect(answer.body).not.toMatch(/root:|"dependencies"/)
  })
})

describe('what it serves', () => {
  const path = '/api/experiments/bert-7f3a'
  const question = (change: object) => {
    const { slo, objective, prices } = JSON.parse(JSON.stringify(asked))
    return `?view=${encodeURIComponent(JSON.stringify({ slo, objective, prices, ...change }))}`
  }
  let asked: ReturnType<typeof pickOwnQuestion>
  beforeAll(async () => {
    const events = await streamed(1)
    asked = pickOwnQuestion(JSON.parse(events.find((e) => e.event === 'experiment')!.data))
  })

  test('the experiments, and which one the page opens: the newest', async () => {
    const { chosen, experiments } = (await get('/api/experiments')).json()
    expect(chosen).toBe('bert-7f3a')
    expect(experiments.map((e: { id: string; trials: number }) => [e.id, e.trials])).toEqual([
      ['older-0001', 7],
      ['bert-7f3a', 7],
    ])
  })

  test('the recommendation under the question of the page', async () => {
    const own = (await get(`${path}/export/recommendation.json`)).json()
    expect(own).toMatchObject({
      schema: 'tune.recommendation/v1',
      best: { trial: 3 },
      provenance: 'emulated',
    })
    const tighter = (
      await get(
        `${path}/export/recommendation.json${question({ slo: { ...asked.slo, limitMs: 15 } })}`,
      )
    ).json()
    expect(tighter).toMatchObject({ best: { trial: 2, derived: true }, slo: { limitMs: 15 } })
  })

  test('a table of every trial, in which a text cannot become a formula or a column', async () => {
    const rows = parseCsv((await get(`${path}/export/trials.csv`)).body)
    expect(rows).toHaveLength(8)
    expect(new Set(rows.map((r) => r.length)).size).toBe(1)
  })

  test('a deployment spec of what is recommended', async () => {
    const answer = await get(`${path}/spec/kubernetes`)
    expect(answer.statusCode).toBe(200)
    expect(answer.body).toContain('kind: Deployment')
    expect(answer.body).toContain('trial 3')
    expect(
      (await get(`${path}/spec/kubernetes${question({ slo: { ...asked.slo, limitMs: 1 } })}`)).body,
    ).toContain('nothing to deploy')
  })

  test('a report and a page of their own, with no text of theirs as markup', async () => {
    for (const file of ['report.html', 'dashboard.html']) {
      const answer = await get(`${path}/export/${file}`)
      expect(answer.statusCode, file).toBe(200)
      expect(answer.body, file).not.toContain('<img src=x')
      expect(answer.body, file).not.toContain('<script>window.attacked')
      expect(answer.body, file).toContain("default-src 'none'")
    }
  })

  test('a log that became a link, a pipe or a folder is not read, and holds up no other request', async () => {
    const log = join(dirname(sample.path), 'predictor.log')
    renameSync(log, `${log}.kept`)
    try {
      for (const [make, said] of [
        [() => symlinkSync('/etc/passwd', log), 'is a link, which tune does not follow'],
        [() => execFileSync('mkfifo', [log]), 'is not a file'],
        [() => mkdirSync(log), 'is not a file'],
      ] as const) {
        make()
        // More than there are threads that a pipe could hold up.
        const asked = Array.from({ length: 8 }, () => get(`${path}/trials/4/log`))
        expect((await get('/api/experiments')).statusCode).toBe(200)
        expect((await Promise.all(asked)).map(({ body }) => body)).toEqual(
          Array(8).fill(expect.stringContaining(said)),
        )
        rmSync(log, { recursive: true })
      }
    } finally {
      renameSync(`${log}.kept`, log)
    }
  })

  test('a log, and only what is one', async () => {
    expect((await get(`${path}/trials/4/log`)).body).toMatch(/^ready\n/)
    expect((await get(`${path}/trials/4/log`)).headers['content-type']).toMatch('text/plain')
    expect((await get(`${path}/trials/5/log`)).body).toContain('is not a log of a predictor')
    expect((await get(`${path}/trials/1/log`)).body).toContain('has no log')
  })

  test.each([
    ['{', 'not JSON'],
    ['{}', 'slo'],
    ['{"slo":{"percentile":2,"limitMs":-1,"maxErrorRate":0}}', 'slo.percentile'],
  ])('the question %s is refused in words', async (view, words) => {
    const answer = await get(`${path}/export/trials.csv?view=${encodeURIComponent(view)}`)
    expect(answer.statusCode).toBe(400)
    expect(answer.body).toContain(words)
  })
})

describe('a request that cannot be read is answered with 400, and never with 500', () => {
  const path = '/api/experiments/bert-7f3a'
  let question: Record<string, unknown>
  beforeAll(async () => {
    const events = await streamed(1)
    const { slo, objective, prices } = pickOwnQuestion(
      JSON.parse(events.find((e) => e.event === 'experiment')!.data),
    )
    // One GPU stands for all that the price book has.
    const gpus = Object.fromEntries(Object.entries(prices.gpus).slice(0, 1))
    question = { slo, objective, prices: { ...prices, gpus } }
  })

  test.each([
    '/api/experiments/%E0%A4%A/stream',
    '/api/experiments/%/export/trials.csv',
    `${path}/export/%zz`,
    `${path}/spec/%c0%80`,
    `${path}/trials/%ff/log`,
    '/%',
  ])('the path %s', async (url) => {
    const { statusCode, headers } = await get(url)
    expect(statusCode).toBeGreaterThanOrEqual(400)
    expect(statusCode).toBeLessThan(500)
    expect(headers['content-security-policy']).toContain("default-src 'none'")
  })

  test.each([
    'view=%',
    'view=%7B%7D&view=%7B%7D',
    'view=null',
    'view=[]',
    'view=1e999',
    `view=${'['.repeat(5000)}`,
    'view[slo]=1',
  ])('the query %s', async (query) => {
    for (const file of ['export/trials.csv', 'export/recommendation.json', 'spec/kubernetes']) {
      const { statusCode } = await get(`${path}/${file}?${query}`)
      // Without a parameter of that name it is the experiment's own question.
      expect(statusCode, file).toBe(query.startsWith('view=') ? 400 : 200)
    }
  })

  test.each(['1e99', '-1', '1.5', 'NaN', 'x', '9'.repeat(40)])('the last event %s', async (id) => {
    expect((await get(`${path}/stream`, { 'last-event-id': id })).statusCode).toBe(400)
  })

  /** Every leaf of a document, replaced by each of the values. */
  function* replaced(document: unknown, values: readonly unknown[]): Generator<unknown> {
    if (typeof document !== 'object' || document === null) {
      yield* values
      return
    }
    for (const [key, inner] of Object.entries(document)) {
      for (const value of values) yield { ...document, [key]: value }
      for (const other of replaced(inner, values)) yield { ...document, [key]: other }
    }
  }

  test('whatever stands in the place of a field of the question', async () => {
    const values = [null, 'x', -1, 1e-300, 1e300, 'huge', [], {}]
    const asText = (value: unknown) => JSON.stringify(value).replaceAll('"huge"', '1e999')
    const failed: string[] = []
    for (const view of replaced(question, values))
      for (const file of [
        'export/recommendation.json',
        'export/trials.csv',
        'export/report.html',
      ]) {
        const { statusCode, body } = await get(
          `${path}/${file}?view=${encodeURIComponent(asText(view))}`,
        )
        if (statusCode >= 500) failed.push(`${file} ${asText(view)}: ${body}`)
      }
    expect(failed).toEqual([])
  })
})

interface ServerSentEvent {
  readonly event: string
  readonly data: string
  readonly id?: string
}

/** Events until `enough` of kind 'ready' or 'trials' after it have come. */
async function streamed(
  enough: number,
  headers: Record<string, string> = {},
  onReady?: () => Promise<void>,
  id = 'bert-7f3a',
) {
  const abort = new AbortController()
  const answer = await fetch(`${base}/api/experiments/${id}/stream`, {
    headers,
    signal: abort.signal,
  })
  const events: ServerSentEvent[] = []
  let text = ''
  let after = 0
  for await (const chunk of answer.body!.pipeThrough(new TextDecoderStream())) {
    text += chunk
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      const lines = text.slice(0, end).split('\n')
      text = text.slice(end + 2)
      const of = (name: string) =>
        lines.filter((l) => l.startsWith(`${name}: `)).map((l) => l.slice(name.length + 2))
      const event = { event: of('event')[0] ?? '', data: of('data').join('\n'), id: of('id')[0] }
      events.push(event)
      if (event.event === 'ready') await onReady?.()
      if (event.event === 'problem' || event.event === 'ready' || after > 0) after += 1
      if (after >= enough) {
        abort.abort()
        return events
      }
    }
  }
  return events
}

describe('the stream', () => {
  test('gives the experiment, every trial as the store has it, and the word that this is all', async () => {
    const events = await streamed(1)
    expect(events.map((e) => e.event)).toEqual(['experiment', 'trials', 'ready'])
    const stored = await sample.store.load(sample.id)
    expect((JSON.parse(events[1]!.data) as string[]).map(unpackTrial)).toEqual(stored!.trials)
    const experiment = JSON.parse(events[0]!.data)
    expect(
      new Ranker(experiment).recommend(trials(''), pickOwnQuestion(experiment)).best?.trial,
    ).toBe(3)
  })

  test('goes on where a reader stood', async () => {
    const events = await streamed(1, { 'last-event-id': '4' })
    expect(
      (JSON.parse(events.find((e) => e.event === 'trials')!.data) as string[]).map(
        (t) => unpackTrial(t).number,
      ),
    ).toEqual([5, 6, 7])
  })

  test('gives a trial as soon as another process has stored it, and the end of the experiment', async () => {
    const events = await streamed(3, {}, async () => {
      await sample.store.append(sample.id, late)
      await sample.store.finish(sample.id, 'done', { verdict: 'done' })
    })
    const after = events.slice(events.findIndex((e) => e.event === 'ready') + 1)
    expect(after.map((e) => e.event).sort()).toEqual(['experiment', 'trials'])
    expect(JSON.parse(after.find((e) => e.event === 'experiment')!.data).state).toBe('done')
    expect(unpackTrial(JSON.parse(after.find((e) => e.event === 'trials')!.data)[0]).number).toBe(8)
  })

  test('says what is wrong', async () => {
    const events = await streamed(1, {}, undefined, 'no-such')
    expect(events).toMatchObject([{ event: 'problem', data: expect.stringContaining('no-such') }])
  })
})
