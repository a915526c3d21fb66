/**
 * What the generator of HTTP makes of servers that fail. No figure here moves with a busy machine.
 */
import { describe, expect, test } from 'vitest'
import { loadedServer, loads, signal, slo } from '../testing/loaded-server.ts'
import { targetAt } from '../testing/servers.ts'
import type { TestService } from '../testing/service.ts'

const { generator, started, point } = loadedServer(5000)

describe.each(loads)('$kind loop', (load) => {
  test.each<[TestService['fault'], RegExp]>([
    [{ kind: 'status', status: 503, share: 0.3 }, /^status 503$/],
    [{ kind: 'error-body', share: 0.3 }, /^bad answer$/],
    [{ kind: 'reset', share: 0.3 }, /^reset$/],
    [{ kind: 'cut-body', share: 0.3 }, /^(closed by server|reset)$/],
    [{ kind: 'hang-up', share: 0.3 }, /^(closed by server|reset)$/],
    [{ kind: 'half-open', share: 0.3 }, /^timeout$/],
  ])('counts %o by its error class, without an effect on later latencies', async (fault, kind) => {
    // A busy machine makes no time-out of what is none.
    const timeoutMs = fault?.kind === 'half-open' ? 400 : 5000
    const measured = await point({ fault, time: { kind: 'fixed', ms: 5 } }, load, timeoutMs)
    const share = measured.errors / measured.requests
    expect(share).toBeGreaterThan(0.1)
    expect(share).toBeLessThan(0.6)
    expect(Object.keys(measured.errorKinds).every((name) => kind.test(name))).toBe(true)
    expect(measured.sloMs).toBe(Number.POSITIVE_INFINITY)
    // Shorter than service would be an answer taken for another request's.
    expect(measured.p50Ms).toBeGreaterThan(5)
  })

  test('counts refused connections without hanging or flooding', async () => {
    const measured = await generator.run(targetAt('http://127.0.0.1:1'), load, slo, signal)
    expect(measured.errorKinds.refused).toBe(measured.requests)
    expect(measured.requests).toBeLessThan(500)
  })

  test('stops at once when the signal aborts, and can play again', async () => {
    const server = await started({ fault: { kind: 'half-open', share: 1 } })
    const abort = new AbortController()
    setTimeout(() => abort.abort(new Error('enough')), 150)
    // A window and answers of ten minutes: only a stop at once comes within the test's time.
    await expect(
      generator.run(targetAt(server.url, 600_000), { ...load, durationS: 600 }, slo, abort.signal),
    ).rejects.toThrow('enough')
    await server.stop()
    expect((await point({}, load)).errors).toBe(0)
  })
})
