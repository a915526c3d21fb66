import { afterEach, beforeEach, expect, test } from 'vitest'
import { FakeApiServer } from '../testing/fake-api-server.ts'
import { PodWatch } from './pod-watch.ts'

let fake: FakeApiServer
let watch: PodWatch
beforeEach(async () => {
  fake = new FakeApiServer()
  await fake.start()
  const api = await fake.api()
  watch = new PodWatch(api, 'a=b', 'tune-', { renewMs: 300, firstBackoffMs: 10 })
  await api.request('POST', '/api/v1/namespaces/test/pods', {
    body: { metadata: { name: 'p', labels: { a: 'b' } } },
  })
  await watch.until(() => watch.get('p') && true, AbortSignal.timeout(60_000))
  const until = performance.now() + 60_000
  while (!fake.seen.some((request) => request.includes('(watch)')) && performance.now() < until)
    await new Promise((resolve) => setTimeout(resolve, 5))
})
afterEach(async () => {
  await watch.close()
  await fake.stop()
})

const sees = (phase: string) =>
  watch.until(
    () => watch.get('p')?.status?.phase === phase || undefined,
    AbortSignal.timeout(60_000),
  )

test('a change is seen as it happens', async () => {
  const seen = sees('Running')
  fake.setStatus('p', { phase: 'Running' })
  expect(await seen).toBe(true)
})

test('a watch that falls silent is replaced, from where it stood: the pods are not listed anew', async () => {
  fake.endWatches('silence')
  fake.setStatus('p', { phase: 'Running' })
  expect(await sees('Running')).toBe(true)
  expect(
    fake.seen.filter((request) => request === 'GET /api/v1/namespaces/test/pods'),
  ).toHaveLength(1)
})

test('who set which field is not kept', async () => {
  fake.objects.pods.get('p')!.metadata = {
    ...fake.objects.pods.get('p')!.metadata,
    managedFields: ['much'],
  } as never
  fake.setStatus('p', { phase: 'Running' })
  await sees('Running')
  expect(watch.get('p')!.metadata).not.toHaveProperty('managedFields')
})

test('one that is too old is begun anew, and what went meanwhile is gone', async () => {
  fake.endWatches('gone')
  fake.remove('pods', 'p')
  expect(
    await watch.until(() => watch.get('p') === undefined || undefined, AbortSignal.timeout(60_000)),
  ).toBe(true)
})

test('a server that is away is waited for', async () => {
  await fake.stop()
  await fake.start()
  fake.setStatus('p', { phase: 'Running' })
  expect(await sees('Running')).toBe(true)
})
