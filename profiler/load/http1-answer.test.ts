import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { Http1Answer, NotHttpError } from './http1-answer.ts'

/** What is read of an answer that comes in pieces, which end at the given places. */
const read = (text: string, cuts: readonly number[] = [], ends = false) => {
  const bytes = Buffer.from(text, 'latin1')
  const places = [...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].sort((a, b) => a - b)
  let body = ''
  const answer = new Http1Answer((chunk) => {
    body += chunk.toString('latin1')
  })
  for (const [i, end] of [...places, bytes.length].entries())
    answer.push(bytes.subarray(i === 0 ? 0 : places[i - 1], end))
  if (ends) answer.handleConnectionEnd()
  const { head, isComplete, hasExcessBytes } = answer
  return { ...head, text: body, isComplete, hasExcessBytes }
}

describe('where an answer ends', () => {
  test.each<[string, string, object]>([
    [
      'content-length',
      'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok',
      { status: 200, text: 'ok', isComplete: true, isPersistent: true },
    ],
    ['no body', 'HTTP/1.1 204 No Content\r\n\r\n', { status: 204, text: '', isComplete: true }],
    [
      'chunks, extensions, trailers',
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2;x=y\r\nok\r\nA\r\n0123456789\r\n0\r\nT: 1\r\n\r\n',
      {
        text: 'ok0123456789',
        isComplete: true,
      },
    ],
    [
      'chunks before a length',
      'HTTP/1.1 200 OK\r\ncontent-length: 9\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n',
      { text: '', isComplete: true },
    ],
    [
      'interim answers',
      'HTTP/1.1 103 Early Hints\r\nlink: <x>\r\n\r\nHTTP/1.1 500 No\r\ncontent-length:0\r\n\r\n',
      { status: 500, isComplete: true },
    ],
    [
      'lines that end with LF alone',
      'HTTP/1.1 200 OK\ncontent-length: 2\n\nok',
      { text: 'ok', isComplete: true },
    ],
    [
      'the same length twice',
      'HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 2\r\n\r\nok',
      { text: 'ok', isComplete: true },
    ],
    [
      'not yet',
      'HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok',
      { text: 'ok', isComplete: false },
    ],
    [
      'more than was asked for',
      'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP',
      { text: 'ok', isComplete: true, hasExcessBytes: true },
    ],
    [
      'to the end, not yet',
      'HTTP/1.1 200 OK\r\n\r\nok',
      { text: 'ok', isComplete: false, isPersistent: false },
    ],
  ])('%s', (_, text, expected) => {
    expect(read(text)).toMatchObject(expected)
  })

  test('the end of the connection completes only a body without a length', () => {
    expect(read('HTTP/1.0 200 OK\r\n\r\nok', [], true)).toMatchObject({
      text: 'ok',
      isComplete: true,
    })
    expect(read('HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok', [], true).isComplete).toBe(false)
    expect(
      read('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n', [], true).isComplete,
    ).toBe(false)
  })

  test('property: chunks may be split anywhere', () => {
    const body = fc.stringMatching(/^[ -~\r\n]{0,40}$/)
    fc.assert(
      fc.property(
        fc.array(body, { maxLength: 5 }),
        fc.boolean(),
        fc.array(fc.nat(), { maxLength: 12 }),
        (parts, chunked, cuts) => {
          const whole = parts.join('')
          const chunks = parts
            .filter((part) => part !== '')
            .map((part) => `${part.length.toString(16)}\r\n${part}\r\n`)
          const text = chunked
            ? `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${chunks.join('')}0\r\n\r\n`
            : `HTTP/1.1 200 OK\r\ncontent-length: ${whole.length}\r\n\r\n${whole}`
          expect(read(text, cuts)).toMatchObject({
            status: 200,
            text: whole,
            isComplete: true,
            hasExcessBytes: false,
          })
        },
      ),
    )
  })
})

test.each<[string, boolean, number | undefined]>([
  ['HTTP/1.1 200 OK\r\nconnection: close\r\n', false, undefined],
  ['HTTP/1.1 200 OK\r\nConnection: Keep-Alive, Close\r\n', false, undefined],
  ['HTTP/1.1 200 OK\r\nconnection: keep-alive\r\nkeep-alive: timeout=5, max=100\r\n', true, 5000],
  ['HTTP/1.0 200 OK\r\n', false, undefined],
  ['HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n', true, undefined],
])('%j leaves a connection for the next request: %s', (head, isPersistent, idleMs) => {
  expect(read(`${head}content-length: 0\r\n\r\n`)).toMatchObject({ isPersistent, idleMs })
})

test.each([
  'S',
  'HTTP/2',
  'XTTP/1.1 200 OK',
  'SSH-2.0-OpenSSH_9.2\r\n',
  '\x00\x00\x12\x04\x00\x00\x00\x00\x00',
  'HTTP/2 200 OK\r\n\r\n',
  'HTTP/1.1 OK\r\n\r\n',
  'HTTP/1.1 200 OK\r\nno colon\r\n\r\n',
  'HTTP/1.1 200 OK\r\ncontent-length: 1, 2\r\n\r\n',
  'HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n',
  'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n',
  'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nok\r\n',
  `HTTP/1.1 200 OK\r\nx: ${'a'.repeat(70_000)}`,
])('%j is no HTTP/1', (text) => {
  expect(() => read(text)).toThrow(NotHttpError)
})
