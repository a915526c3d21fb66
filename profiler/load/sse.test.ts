import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { serverStreams } from '../testing/server-streams.ts'
import { SseParser } from './sse.ts'
import { TokenStream } from './token-stream.ts'

/** The bytes in chunks that end at the given places. */
const chunks = (bytes: Buffer, cuts: readonly number[]): Buffer[] => {
  const places = [...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].sort((a, b) => a - b)
  return [...places, bytes.length].map((end, i) => bytes.subarray(i === 0 ? 0 : places[i - 1], end))
}

describe('server-sent events', () => {
  test('comments, other fields, several data lines, and all three line ends', () => {
    const parser = new SseParser()
    expect(
      parser.push(
        Buffer.from(
          ': hello\nevent: x\ndata: one\ndata:two\n\nid: 1\r\ndata: three\r\n\r\ndata\rdata: \r\r',
        ),
      ),
    ).toEqual(['one\ntwo', 'three', '\n'])
  })

  test('property: chunks may be cut anywhere', () => {
    const line = fc.stringMatching(/^[a-zé€😀{}": ]{1,20}$/u)
    const end = fc.constantFrom('\n', '\r\n', '\r')
    fc.assert(
      fc.property(
        fc.array(line, { minLength: 1, maxLength: 8 }),
        end,
        fc.array(fc.nat(), { maxLength: 12 }),
        (events, newline, cuts) => {
          const bytes = Buffer.from(
            events.map((event) => `data: ${event}${newline}${newline}`).join(''),
          )
          const parser = new SseParser()
          expect(chunks(bytes, cuts).flatMap((chunk) => parser.push(chunk))).toEqual(events)
        },
      ),
    )
  })
})

describe('streamed completions', () => {
  const event = (value: object) => `data: ${JSON.stringify(value)}\n\n`
  const token = (content: string, finish: string | null = null) =>
    event({ choices: [{ delta: { content }, finish_reason: finish }] })
  const usage = event({ choices: [], usage: { completion_tokens: 7 } })
  const read = (...parts: readonly (readonly [atMs: number, text: string])[]) => {
    const stream = new TokenStream()
    for (const [atMs, text] of parts) stream.push(Buffer.from(text), atMs)
    return stream
  }

  test('the first token is the first with content; the server counts the tokens', () => {
    const role = event({ choices: [{ delta: { role: 'assistant', content: '' } }] })
    const stream = read(
      [5, role],
      [10, token('a')],
      [30, token('b') + token('c')],
      [60, token('d', 'stop')],
      [70, `${usage}data: [DONE]\n\n`],
    )
    expect(stream.failure).toBeUndefined()
    expect(stream.times).toEqual({
      firstTokenMs: 10,
      lastTokenMs: 60,
      tokens: 7,
      gapsMs: [10, 10, 0, 15, 15],
    })
  })

  const told = (tokens: number) => event({ choices: [], usage: { completion_tokens: tokens } })
  test.each<[string, boolean, (readonly [atMs: number, text: string])[]]>([
    ['one chunk, tokens counted', true, [[9, token('a b c') + token('', 'stop') + told(40)]]],
    [
      'its end later',
      true,
      [
        [9, token('a b c')],
        [12, token('', 'stop') + told(40)],
      ],
    ],
    ['many chunks in one write', true, [[9, token('a') + token('b') + token('c', 'length')]]],
    [
      'two reads of one write',
      true,
      [
        [9, token('a') + token('b')],
        [9.1, token('c', 'stop')],
        [9.1, told(9)],
      ],
    ],
    ['uncounted, many words', true, [[9, token('many words in it', 'stop')]]],
    ['uncounted, one word', false, [[9, token('spam', 'stop')]]],
    ['one token, counted', false, [[9, token('spam', 'stop') + told(1)]]],
    [
      'a token and its end',
      false,
      [
        [9, token('spam')],
        [12, token('', 'stop') + told(2)],
      ],
    ],
    [
      'two chunks',
      false,
      [
        [9, token('a b')],
        [19, token('c d', 'stop') + told(4)],
      ],
    ],
    [
      'tokens without text after the first',
      false,
      [
        [9, token('a')],
        [19, token('')],
        [29, token('', 'length') + told(3)],
      ],
    ],
  ])('arrived at once: %s, %s', (_, arrivedAtOnce, parts) => {
    const { times } = read(...parts)
    expect(times!.arrivedAtOnce ?? false).toBe(arrivedAtOnce)
    if (arrivedAtOnce) expect(times!.gapsMs).toEqual([])
  })

  test('completions have text, and without usage chunks are counted', () => {
    const stream = read(
      [10, event({ choices: [{ text: 'a' }] })],
      [20, `${event({ choices: [{ text: 'b', finish_reason: 'length' }] })}`],
    )
    expect([stream.failure, stream.times?.tokens]).toEqual([undefined, 2])
  })

  test.each<[string, string, string]>([
    ['cut in the middle', token('a'), 'cut stream'],
    ['cut within an event', `${token('a')}data: {"choi`, 'cut stream'],
    [
      'an error in its stream',
      `${token('a')}${event({ error: { message: 'out of memory' } })}data: [DONE]\n\n`,
      'error in stream',
    ],
    ['no token', 'data: [DONE]\n\n', 'no token'],
    ['not a stream', '{"choices":[]}', 'bad answer'],
    ['not JSON', 'data: <html>\n\n', 'bad answer'],
    ['nothing', '', 'bad answer'],
  ])('%s is an error', (_, text, fault) => {
    expect(read([1, text]).failure).toBe(fault)
  })
})

describe('streams of real servers', () => {
  test.each(serverStreams)(
    '$server',
    ({ writes, text, tokens, hiddenTokens, inputTokens, tokensEach, fault }) => {
      const whole = new TokenStream()
      for (const [i, write] of writes.entries()) whole.push(Buffer.from(write), 10 * (i + 1))
      expect([whole.failure, whole.text, whole.times?.tokens ?? 0]).toEqual([fault, text, tokens])
      expect([whole.times?.inputTokens, whole.times?.hiddenTokens]).toEqual([
        inputTokens,
        hiddenTokens,
      ])
      expect(whole.times?.gapsMs.length ?? 0).toBe(tokensEach.reduce((sum, n) => sum + n, 0))
      // Byte by byte, characters of several bytes among them.
      const cut = new TokenStream()
      for (const byte of Buffer.from(writes.join(''))) cut.push(Buffer.of(byte), 10)
      expect([cut.failure, cut.text, cut.times?.tokens]).toEqual([fault, text, whole.times?.tokens])
    },
  )

  test('tokens of one chunk share the time since the chunk before', () => {
    const { writes } = serverStreams.find(({ server }) =>
      server.startsWith('SGLang with a stream interval'),
    )!
    const stream = new TokenStream()
    for (const [i, write] of writes.entries()) stream.push(Buffer.from(write), 60 * (i + 1))
    expect(stream.times!.gapsMs).toEqual([12, 12, 12, 12, 12, 20, 20, 20, 60])
    expect(stream.times).toMatchObject({
      firstTokenMs: 120,
      lastTokenMs: 300,
      tokens: 12,
      inputTokens: 7,
    })
  })

  test('tokens without text come when their chunks do, and the last of them ends the answer', () => {
    const { writes } = serverStreams.find(({ server }) =>
      server.startsWith('vLLM: end tokens that are ignored'),
    )!
    const stream = new TokenStream()
    for (const [i, write] of writes.entries())
      stream.push(Buffer.from(write), [5, 10, 30, 60, 70, 90, 91][i]!)
    expect(stream.times).toEqual({
      firstTokenMs: 10,
      lastTokenMs: 90,
      tokens: 5,
      inputTokens: 12,
      gapsMs: [20, 30, 10, 20],
    })
  })

  test('a count that changes with every chunk does not fill the memory', () => {
    const stream = new TokenStream()
    for (let i = 0; i < 100; i++) {
      const usage = { completion_tokens: i % 2 === 0 ? 0 : 1_000_000 }
      stream.push(
        Buffer.from(`data: ${JSON.stringify({ choices: [{ text: 'a' }], usage })}\n\n`),
        i,
      )
    }
    expect(stream.times!.gapsMs.length).toBeLessThan(1000)
  })

  test('an impossible count does not fill the memory', () => {
    const stream = new TokenStream()
    stream.push(
      Buffer.from(`data: ${JSON.stringify({ choices: [{ delta: { content: 'ab' } }] })}\n\n`),
      1,
    )
    stream.push(
      Buffer.from(
        `data: ${JSON.stringify({ choices: [{ delta: { content: 'c' }, finish_reason: 'stop' }], usage: { prompt_tokens: 1e9 } })}\n\n`,
      ),
      3,
    )
    stream.push(
      Buffer.from(
        `data: ${JSON.stringify({ choices: [], usage: { completion_tokens: 999_999 } })}\n\n`,
      ),
      4,
    )
    expect(stream.times!.inputTokens).toBeUndefined()
    expect(stream.times!.gapsMs.length).toBeLessThan(10)
  })
})
