import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest'
import { ProtocolError } from '../../profiler/index.ts'
import { startTestServer, type TestServer } from '../../profiler/testing/servers.ts'
import { ConfigError } from '../config/config-error.ts'
import { type ProfileOptions, profile } from './profile-server.ts'

const folder = mkdtempSync(join(tmpdir(), 'profile-library-'))
const payload = { kind: 'file', path: join(folder, 'bodies.jsonl') } as const
beforeAll(() => writeFileSync(payload.path, '{"inputs":[]}\n'))
afterAll(() => rmSync(folder, { recursive: true }))

let server: TestServer | undefined
afterEach(async () => {
  vi.restoreAllMocks()
  await server?.stop()
})

const brief = { slo: 'p95<2s', rateRps: 40, durationS: 0.5, payload } as const

test('a server at one rate: nothing is printed, and no secret is in what is returned', async () => {
  server = await startTestServer()
  const printed = [vi.spyOn(process.stdout, 'write'), vi.spyOn(process.stderr, 'write')]
  const phases = new Set<string>()
  const url = server.url.replace('http://', 'http://me:hush-hush-1@')
  const found = await profile({ url, ...brief, onStep: (_, phase) => phases.add(phase) })
  for (const stream of printed) expect(stream).not.toHaveBeenCalled()
  expect(found).toMatchObject({
    protocol: 'oip-v2',
    verdict: 'met',
    slo: { percentile: 0.95, limitMs: 2000, maxErrorRate: 0.001 },
  })
  expect(found.steady?.point.requests).toBe(20)
  expect(phases).toEqual(new Set(['warm-up', 'confirm']))
  expect(JSON.stringify(found)).not.toContain('hush-hush-1')
})

test('what cannot be read is named at once; what cannot be talked to by the profiler', async () => {
  const wrong = profile({ url: 'localhost', slo: 'fast' } satisfies ProfileOptions)
  await expect(wrong).rejects.toThrow(ConfigError)
  await expect(wrong).rejects.toMatchObject({ problems: [{ where: 'url' }, { where: 'slo' }] })
  await expect(profile({ url: 'http://127.0.0.1:1', ...brief })).rejects.toThrow(ProtocolError)
})

test('an abort ends it with its reason', async () => {
  server = await startTestServer()
  const controller = new AbortController()
  const profiled = profile({
    url: server.url,
    ...brief,
    durationS: 60,
    signal: controller.signal,
    onStep: () => controller.abort(new Error('enough')),
  })
  await expect(profiled).rejects.toThrow('enough')
})
