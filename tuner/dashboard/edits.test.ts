/** Who may write through the dashboard, and what. */
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openReader } from '../../trials/store/index.ts'
import { createDashboard, type DashboardServer } from './dashboard-server.ts'
import { hostContext, type SampleStore, sampleStore } from './samples.contract.ts'

const token = 'a-token-that-the-command-made'
let sample: SampleStore
let dashboard: DashboardServer

beforeAll(async () => {
  sample = await sampleStore()
  dashboard = await createDashboard(await openReader(sample.path), hostContext, {
    edits: { path: sample.path, token },
  })
})
afterAll(async () => {
  await dashboard.close()
  await sample.dispose()
})

const host = '127.0.0.1:4455'
/** What the page sends. */
const ours = {
  host,
  origin: `http://${host}`,
  'x-tune-token': token,
  'sec-fetch-site': 'same-origin',
}
const note = (
  headers: Record<string, string>,
  payload: unknown = { note: 'x' },
  id = 'older-0001',
) =>
  dashboard.server.inject({
    method: 'POST',
    url: `/api/experiments/${id}/annotation`,
    headers,
    payload: payload as object,
  })
const remove = (id: string, headers: Record<string, string> = ours) =>
  dashboard.server.inject({ method: 'DELETE', url: `/api/experiments/${id}`, headers })
const entries = async (headers: Record<string, string> = { host }) => {
  const { body } = await dashboard.server.inject({
    method: 'GET',
    url: '/api/experiments',
    headers,
  })
  return JSON.parse(body) as {
    writable: boolean
    experiments: { id: string; annotation?: object }[]
  }
}

describe('only who has the token, from this page, may write', () => {
  const { origin: _, ...noOrigin } = ours
  const { 'x-tune-token': __, ...noToken } = ours
  test.each([
    ['no token', noToken],
    ['another token', { ...ours, 'x-tune-token': `${token}x` }],
    ['no origin', noOrigin],
    ['another site', { ...ours, origin: 'https://evil.example' }],
    ['another site, by fetch metadata', { ...ours, 'sec-fetch-site': 'cross-site' }],
    [
      'another name for this address',
      { ...ours, host: 'evil.example', origin: 'http://evil.example' },
    ],
    ['a sandboxed page', { ...ours, origin: 'null' }],
  ])('%s: refused, and nothing is written or deleted', async (_name, headers) => {
    expect((await note(headers)).statusCode).toBe(403)
    expect((await remove('older-0001', headers)).statusCode).toBe(403)
    expect((await entries()).experiments.map(({ id, annotation }) => [id, annotation])).toEqual([
      ['older-0001', undefined],
      [sample.id, undefined],
    ])
  })

  test('a form of another site cannot be made to look like the page: what is not JSON is refused', async () => {
    const { statusCode } = await note({ ...ours, 'content-type': 'text/plain' }, '{"note":"x"}')
    expect(statusCode).toBeGreaterThanOrEqual(400)
    expect((await entries()).experiments[0]!.annotation).toBeUndefined()
  })

  test('the page is told whether it may', async () => {
    expect((await entries()).writable).toBe(false)
    expect((await entries(ours)).writable).toBe(true)
  })

  test('without edits nobody may, token or not', async () => {
    const { server, close } = await createDashboard(await openReader(sample.path), hostContext)
    const { statusCode } = await server.inject({
      method: 'DELETE',
      url: '/api/experiments/older-0001',
      headers: ours,
    })
    await close()
    expect(statusCode).toBe(405)
  })
})

describe('a body that is no annotation', () => {
  const json = { 'content-type': 'application/json' }
  const bomb = gzipSync(Buffer.alloc(50_000_000, ' '))
  test.each<[string, number, Record<string, string>, string | Buffer]>([
    ['half of a document', 400, json, '{"note": '],
    ['nothing', 400, json, ''],
    ['a name of every object', 400, json, '{"__proto__": {"note": "x"}}'],
    ['a list', 400, json, '[1]'],
    ['null', 400, json, 'null'],
    ['a note that is a number', 400, json, '{"note": 1}'],
    ['a trial beyond all numbers', 400, json, '{"trial": 1e400, "note": "x"}'],
    ['a trial beyond exact ones', 400, json, '{"trial": 1e30, "note": "x"}'],
    ['two megabytes', 413, json, JSON.stringify({ note: 'x'.repeat(2_000_000) })],
    ['two megabytes of depth', 413, json, '['.repeat(2_000_000)],
    ['depth within the limit', 400, json, '['.repeat(100_000)],
    ['a gzip bomb', 413, { ...json, 'content-encoding': 'gzip' }, bomb],
    ['no gzip', 400, { ...json, 'content-encoding': 'gzip' }, '{"note": "x"}'],
    ['an encoding nobody has', 415, { ...json, 'content-encoding': 'zip' }, '{"note": "x"}'],
    ['no type', 415, { 'content-type': 'application/octet-stream' }, 'x'],
  ])('%s: %i', async (_name, status, headers, payload) => {
    const { statusCode, body } = await dashboard.server.inject({
      method: 'POST',
      url: '/api/experiments/older-0001/annotation',
      headers: { ...ours, ...headers },
      payload,
    })
    expect([statusCode, body]).toEqual([status, expect.stringMatching(/\S/)])
    expect((await entries()).experiments[0]!.annotation).toBeUndefined()
  })
})

describe('what is written', () => {
  test('is answered, stands in the list, and every field at fault is named', async () => {
    const answer = await note(ours, { note: 'slow disk', addTags: ['odd'], archived: true })
    expect([answer.statusCode, answer.json()]).toEqual([
      200,
      { note: 'slow disk', tags: ['odd'], archivedAt: expect.any(String) },
    ])
    expect((await entries()).experiments[0]).toMatchObject({
      id: 'older-0001',
      annotation: { note: 'slow disk' },
    })
    const wrong = await note(ours, { trial: -1, addTags: 'odd', state: 'done' })
    expect(wrong.statusCode).toBe(400)
    for (const name of ['trial', 'addTags', 'state']) expect(wrong.body).toContain(name)
  })

  test('beside what is not there is refused in words', async () => {
    expect((await note(ours, { note: 'x' }, 'nobody')).body).toContain('no experiment nobody')
    expect((await note(ours, { note: 'x', trial: 99 })).body).toContain('no trial 99')
  })

  test('an experiment that runs is not deleted, one that is done goes', async () => {
    const running = await remove(sample.id)
    expect([running.statusCode, running.body]).toEqual([
      422,
      expect.stringContaining('is running experiment'),
    ])
    expect((await remove('older-0001')).statusCode).toBe(204)
    expect((await entries()).experiments.map(({ id }) => id)).toEqual([sample.id])
    expect(
      (
        await dashboard.server.inject({
          method: 'GET',
          url: '/?experiment=older-0001',
          headers: { host },
        })
      ).statusCode,
    ).toBe(404)
  })
})
