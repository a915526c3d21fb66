import { describe, expect, test } from 'vitest'
import type { HttpTarget, RequestBody } from '../model/target.ts'
import { ProtocolError } from '../profiler-errors.ts'
import type { Protocol } from './protocol.ts'
import { withWarmUp } from './warm-up-requests.ts'

const signal = new AbortController().signal
const bodyOf = (body: string): RequestBody => ({ contentType: 'application/json', body })
const generated = { kind: 'generated', seed: 1, count: 2 } as const
const others = { kind: 'file', path: 'others.jsonl' } as const

/**
 * A protocol whose server keeps what it was asked. @param fails the number of the request that is
 * refused, from 1
 */
function recording(fails?: number) {
  const asked: string[] = []
  let together = 0
  let most = 0
  const protocol: Protocol = {
    name: 'json',
    isReady: async () => true,
    prepare: async (_url, _model, payload) => ({
      kind: 'http',
      url: 'http://h',
      path: '/p',
      headers: {},
      bodies: payload === others ? ['x', 'y', 'z'].map(bodyOf) : ['a', 'b'].map(bodyOf),
      timeoutMs: 7,
    }),
    answerClient: {
      isResultFromModelOnly: false,
      fetch: async (target: HttpTarget, body) => {
        asked.push(`${target.bodies[body]!.body} ${target.timeoutMs}`)
        most = Math.max(most, ++together)
        await Promise.resolve()
        together--
        if (asked.length === fails)
          throw new ProtocolError('json', 'http://h/p answered 500: no kernel', 'its own log')
        return Buffer.from('{}')
      },
      parse: async () => ({ document: {}, result: {} }),
      interpret: async (document) => ({ document, result: document }),
    },
  }
  return { asked, protocol, most: () => most }
}

describe('warm-up requests', () => {
  test('cycle through the payload one by one, with the timeout of a first answer', async () => {
    const { asked, protocol, most } = recording()
    const target = await withWarmUp(protocol, { requests: 3 }, 60_000).prepare(
      'http://h',
      'm',
      generated,
      signal,
    )
    expect(asked).toEqual(['a 60000', 'b 60000', 'a 60000'])
    expect([most(), target.timeoutMs, target.bodies.length]).toEqual([1, 7, 2])
  })

  test('use their own payload once, several at a time', async () => {
    const { asked, protocol, most } = recording()
    const target = await withWarmUp(protocol, { payload: others, atOnce: 2 }, 1).prepare(
      'http://h',
      'm',
      generated,
      signal,
    )
    expect(asked).toEqual(['x 7', 'y 7', 'z 7'])
    expect([most(), target.bodies.length]).toEqual([2, 2])
  })

  test('a failed one ends the warm-up with its number and the answer', async () => {
    const { asked, protocol } = recording(2)
    await expect(
      withWarmUp(protocol, { requests: 9, atOnce: 1 }, 1).prepare(
        'http://h',
        'm',
        generated,
        signal,
      ),
    ).rejects.toMatchObject({
      message: 'warm-up request 2 of 9: http://h/p answered 500: no kernel',
      hint: 'its own log',
      why: 'refused',
    })
    expect(asked).toHaveLength(2)
  })

  test('an abort ends them with its reason; without a warm-up none are sent', async () => {
    const interrupted = AbortSignal.abort(new Error('enough'))
    await expect(
      withWarmUp(recording(1).protocol, { requests: 9 }, 1).prepare(
        'http://h',
        'm',
        generated,
        interrupted,
      ),
    ).rejects.toThrow('enough')
    const { protocol } = recording()
    expect(withWarmUp(protocol, undefined, 1)).toBe(protocol)
  })
})
