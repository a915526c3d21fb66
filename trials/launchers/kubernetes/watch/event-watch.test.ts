import { afterEach, beforeEach, expect, test } from 'vitest'
import { answer, FakeApiServer, status } from '../testing/fake-api-server.ts'
import { EventWatch } from './event-watch.ts'

let fake: FakeApiServer
let events: EventWatch
const never = new AbortController().signal
beforeEach(async () => {
  fake = new FakeApiServer()
  await fake.start()
  events = new EventWatch(await fake.api(), 'tune-e-', { renewMs: 300, firstBackoffMs: 10 })
})
afterEach(async () => {
  await events.close()
  await fake.stop()
})

/** Once the watch has told of it. */
const said = async (name: string, count: number) => {
  const until = performance.now() + 60_000
  for (;;) {
    const found = (await events.listEvents(name, never)).map(({ message }) => message)
    if (found.length >= count || performance.now() > until) return found
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}
const requests = (what: string) =>
  fake.seen.filter((request) => request === `GET /api/v1/namespaces/test/events${what}`).length

test('what is said of the experiment’s own objects is known without a request, the newest last; what was said before is not', async () => {
  fake.say('tune-e-1', 'Old', 'from before')
  await events.begin()
  fake.say('shop-1', 'BackOff', 'of another')
  fake.say('tune-e-1', 'FailedScheduling', 'no node')
  fake.say('tune-e-1', 'TriggeredScaleUp', 'one comes')
  fake.say('tune-e-1', 'FailedScheduling', 'still no node')
  expect((await said('tune-e-1', 2)).slice(0, 2)).toEqual(['one comes', 'still no node'])
  expect(await events.listEvents('shop-1', never)).toEqual([])
  expect(requests('')).toBe(1)
})

test.each(['gone', 'silence'] as const)('a watch that ends (%s) is gone on with', async (how) => {
  await events.begin()
  fake.say('tune-e-1', 'A', 'first')
  expect(await said('tune-e-1', 1)).toEqual(['first'])
  fake.endWatches(how)
  // Where the version was too old nobody knows what was missed: listing begins anew with what
  // comes.
  const listed = requests('')
  if (how === 'gone') await until(() => requests('') > listed)
  fake.say('tune-e-1', 'B', 'second')
  expect(await said('tune-e-1', 2)).toEqual(['first', 'second'])
  expect(requests('') > 1).toBe(how === 'gone')
})

test('a proxy that ends every watch at once is not stormed, and nothing is missed', async () => {
  let ended = 0
  fake.fault = ({ query }, response) => {
    if (!query.has('watch') || ended >= 3) return false
    ended++
    response.writeHead(200).end()
    return true
  }
  await events.begin()
  fake.say('tune-e-1', 'A', 'first')
  expect(await said('tune-e-1', 1)).toEqual(['first'])
  expect([ended, requests('')]).toEqual([3, 1])
})

test('who may list and not watch is answered by lists, and the watch is not asked for again', async () => {
  fake.fault = ({ query }, response) => {
    if (!query.has('watch')) return false
    answer(response, 403, status(403, 'Forbidden', 'cannot watch events'))
    return true
  }
  await events.begin()
  await until(() => events.problem !== undefined)
  fake.say('tune-e-1', 'A', 'first')
  expect(await said('tune-e-1', 1)).toEqual(['first'])
  expect(requests(' (watch)')).toBe(1)
})

test('who may see none is told so', async () => {
  fake.fault = ({ path }, response) => {
    if (!path.endsWith('/events')) return false
    answer(response, 403, status(403, 'Forbidden', 'cannot list events'))
    return true
  }
  await events.begin()
  await expect(events.listEvents('tune-e-1', never)).rejects.toMatchObject({ status: 403 })
})

test('what is gone is forgotten, a Job’s pods with it', async () => {
  await events.begin()
  fake.say('tune-e-1-load-ab-xyz', 'A', 'its pod')
  fake.say('tune-e-1-load-ab', 'A', 'the Job')
  await said('tune-e-1-load-ab', 1)
  events.forget('tune-e-1-load-ab')
  expect(await events.listEvents('tune-e-1-load-ab', never)).toEqual([])
  expect(await events.listEvents('tune-e-1-load-ab-xyz', never)).toEqual([])
})

const until = async (holds: () => boolean): Promise<void> => {
  for (const late = performance.now() + 60_000; !holds() && performance.now() < late; )
    await new Promise((resolve) => setTimeout(resolve, 5))
}
