import type { ServerResponse } from 'node:http'
import { describe, expect, test, vi } from 'vitest'
import { FakeApiServer } from '../testing/fake-api-server.ts'
import { ApiError, computeBackoffMs, RateLimiter } from './api.ts'

describe('pauses', () => {
  const pauses = (attempt: number, error: unknown) =>
    Array.from({ length: 200 }, () => computeBackoffMs(attempt, 250, error))
  const busy = (retryAfterMs?: number) =>
    new ApiError(429, 'TooManyRequests', 'later', undefined, retryAfterMs)
  test('double up to 5 s, each spread by a quarter', () => {
    for (const [attempt, ms] of [
      [1, 250],
      [3, 1000],
      [20, 5000],
    ] as const) {
      for (const pause of pauses(attempt, busy())) {
        expect(pause).toBeGreaterThanOrEqual(0.75 * ms)
        expect(pause).toBeLessThanOrEqual(1.25 * ms)
      }
    }
  })
  test('are never shorter than the server asked for, and still grow when it goes on refusing', () => {
    for (const pause of pauses(1, busy(1000))) expect(pause).toBeGreaterThanOrEqual(1000)
    for (const pause of pauses(10, busy(1000))) expect(pause).toBeGreaterThanOrEqual(3750)
    for (const pause of pauses(1, new Error('other'))) expect(pause).toBeLessThanOrEqual(313)
  })
})

test('an abort between the arrival of an answer’s end and its reading harms nothing', async () => {
  const fake = new FakeApiServer()
  await fake.start()
  const uncaught: unknown[] = []
  const note = (error: unknown) => uncaught.push(error)
  process.on('uncaughtException', note)
  try {
    fake.log = 'the last line\n'
    const api = await fake.api()
    const over = new AbortController()
    const answer = await api.stream('/api/v1/namespaces/test/pods/p/log', {}, over.signal)
    for await (const chunk of answer) {
      expect(String(chunk)).toBe('the last line\n')
      over.abort(new Error('all was said'))
    }
    await new Promise((resolve) => setTimeout(resolve, 20))
    expect(uncaught).toEqual([])
    api.close()
  } finally {
    process.off('uncaughtException', note)
    await fake.stop()
  }
})

describe('an answer that is none', () => {
  const endless = (response: ServerResponse) => {
    const more = () => {
      while (!response.destroyed && response.write(' '.repeat(65_536)));
      if (!response.destroyed) response.once('drain', more)
    }
    more()
  }
  const dripping = (response: ServerResponse) => {
    const timer = setInterval(() => response.write(' '), 20)
    response.on('close', () => clearInterval(timer))
  }
  test.each<[string, (response: ServerResponse) => unknown, string, RegExp]>([
    ['without end', endless, 'TooLarge', /more than 1 MiB and no end/],
    [
      'a byte at a time',
      dripping,
      'Unreachable',
      /the answer is incomplete: no complete answer within 0.3 s/,
    ],
    [
      'a page',
      (response) => response.end('<html>'),
      'NotKubernetes',
      /^GET \/version was answered with invalid JSON: <html>$/,
    ],
    ['nothing', (response) => response.end(), 'NotKubernetes', /answered with invalid JSON/],
    [
      'nested without end',
      (response) => response.end('['.repeat(10_000)),
      'NotKubernetes',
      /nested deeper than 500 levels/,
    ],
  ])('%s is refused', async (_, answer, reason, message) => {
    vi.stubEnv('TUNE_MAX_ANSWER_MIB', '1')
    const fake = new FakeApiServer()
    await fake.start()
    try {
      fake.fault = (_request, response) => {
        answer(response)
        return true
      }
      const api = await fake.api({ requestMs: answer === dripping ? 300 : 20_000, retryMs: 1 })
      const failure = api.request('GET', '/version')
      await expect(failure).rejects.toMatchObject({
        name: 'ApiError',
        reason,
        message: expect.stringMatching(message),
      })
      api.close()
    } finally {
      vi.unstubAllEnvs()
      await fake.stop()
    }
  })
})

describe('requests are paced', () => {
  test('so many at once, then no more a second than that', async () => {
    const pace = new RateLimiter(100, 20)
    const startedMs = performance.now()
    await Promise.all(Array.from({ length: 50 }, () => pace.acquire()))
    // Of the 30 beyond the burst the last comes 30 hundredths of a second later; a busy machine
    // only makes it later.
    expect(performance.now() - startedMs).toBeGreaterThan(280)
  })

  test('who waits for a turn and is interrupted ends with the reason', async () => {
    const pace = new RateLimiter(0.001, 1)
    await pace.acquire()
    const abort = new AbortController()
    const waiting = pace.acquire(abort.signal)
    const reason = new Error('interrupted')
    abort.abort(reason)
    await expect(waiting).rejects.toBe(reason)
  })
})
