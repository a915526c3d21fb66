// Answers below HTTP: what is written to the socket of a request whose good answer is `text`. By
// kind (hostile-predictors.ts).
import { gzipSync } from 'node:zlib'

const json = 'content-type: application/json\r\n'
const whole = (text, more = '', status = 'HTTP/1.1 200 OK') => `${status}\r\n${json}${more}content-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`
const chunked = (...chunks) => `HTTP/1.1 200 OK\r\n${json}transfer-encoding: chunked\r\n\r\n${chunks.join('')}`
const chunk = (text) => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`

/** Writes the same again, as fast as it is taken, until the other side leaves. */
function endlessly(socket, first, again) {
  const more = () => {
    while (!socket.destroyed && socket.writable) if (!socket.write(again)) return socket.once('drain', more)
  }
  socket.write(first)
  more()
}

export const bytesOf = {
  'HTTP/1.0': (socket, text) => socket.end(whole(text, '', 'HTTP/1.0 200 OK')),
  'HTTP/1.0 without a length': (socket, text) => socket.end(`HTTP/1.0 200 OK\r\n${json}\r\n${text}`),
  'HTTP/0.9': (socket, text) => socket.end(text),
  'HTTP/9.9': (socket, text) => socket.write(whole(text, '', 'HTTP/9.9 200 OK')),
  'status 999': (socket, text) => socket.write(whole(text, '', 'HTTP/1.1 999 What')),
  'status of letters': (socket, text) => socket.write(whole(text, '', 'HTTP/1.1 OK 200')),
  'switches protocols': (socket) => socket.write('HTTP/1.1 101 Switching Protocols\r\nupgrade: other\r\nconnection: upgrade\r\n\r\n'),
  'early hints': (socket, text) => socket.write(`HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n${whole(text)}`),
  '1xx storm': (socket) => endlessly(socket, '', 'HTTP/1.1 102 Processing\r\n\r\n'.repeat(1000)),
  '1xx and nothing': (socket) => socket.write('HTTP/1.1 100 Continue\r\n\r\n'),
  'a status line without end': (socket) => endlessly(socket, 'HTTP/1.1 200 ', 'O'.repeat(65_536)),
  'a header without end': (socket) => endlessly(socket, 'HTTP/1.1 200 OK\r\nx: ', 'y'.repeat(65_536)),
  'ten thousand headers': (socket, text) => socket.write(whole(text, Array.from({ length: 10_000 }, (_, i) => `x-${i}: y\r\n`).join(''))),
  'NUL in a header': (socket, text) => socket.write(whole(text, 'x: a\0b\r\n')),
  'a header without a colon': (socket, text) => socket.write(whole(text, 'nonsense\r\n')),
  'line feeds alone': (socket, text) => socket.write(whole(text).replaceAll('\r\n', '\n')),
  'two lengths': (socket, text) => socket.write(whole(text, 'content-length: 3\r\n')),
  'a negative length': (socket, text) => socket.write(`HTTP/1.1 200 OK\r\n${json}content-length: -1\r\n\r\n${text}`),
  'a length of letters': (socket, text) => socket.write(`HTTP/1.1 200 OK\r\n${json}content-length: many\r\n\r\n${text}`),
  'a length of 2^63': (socket, text) => socket.write(`HTTP/1.1 200 OK\r\n${json}content-length: 9223372036854775808\r\n\r\n${text}`),
  'promises too little': (socket, text) => socket.write(`HTTP/1.1 200 OK\r\n${json}content-length: ${text.length - 9}\r\n\r\n${text}`),
  'length and chunks': (socket, text) => socket.write(`HTTP/1.1 200 OK\r\n${json}content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n${chunk(text)}0\r\n\r\n`),
  'chunks of garbage': (socket, text) => socket.write(chunked(`zz\r\n${text}\r\n0\r\n\r\n`)),
  'a chunk of 2^60': (socket, text) => socket.write(chunked(`fffffffffffffff\r\n${text}`)),
  'a chunk extension without end': (socket) => endlessly(socket, chunked('5;'), 'e'.repeat(65_536)),
  'chunks without an end': (socket, text) => socket.write(chunked(chunk(text))),
  'trailers without end': (socket, text) => endlessly(socket, chunked(chunk(text), '0\r\n'), `t: ${'u'.repeat(1000)}\r\n`),
  'trailing bytes': (socket, text) => socket.write(`${whole(text)}and more`),
  'answers twice': (socket, text) => socket.write(whole(text).repeat(2)),
  'half closed': (socket, text) => socket.end(whole(text)),
  'closes without a word': (socket) => socket.end(),
  'closes in the middle': (socket, text) => socket.end(whole(text).slice(0, -9)),
  'TLS garbage': (socket) => socket.write(Buffer.from([0x15, 3, 1, 0, 2, 2, 0x28, ...Array(100).fill(0xff)])),
  'HTTP/2 frames': (socket) => socket.write(Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1])),
  'random bytes': (socket) => socket.write(Buffer.from(Array.from({ length: 5000 }, (_, i) => (i * 7919) % 251))),
  'gzip bomb': (socket) => {
    const body = gzipSync(Buffer.alloc(200 * 2 ** 20))
    socket.write(`HTTP/1.1 200 OK\r\n${json}content-encoding: gzip\r\ncontent-length: ${body.length}\r\n\r\n`)
    socket.write(body)
  },
  'a reason of a megabyte': (socket, text) => socket.write(whole(text, '', `HTTP/1.1 200 ${'O'.repeat(2 ** 20)}`)),
  'keeps alive for no time': (socket, text) => socket.write(whole(text, 'connection: keep-alive\r\nkeep-alive: timeout=0, max=0\r\n')),
  'in two halves': (socket, text) => {
    const bytes = whole(text)
    socket.write(bytes.slice(0, 20))
    setTimeout(() => socket.write(bytes.slice(20)), 5)
  },
}

/**
 * Speaks HTTP/1.1 as far as the requests of a load go: GETs are answered by `answerGet(path)`,
 * POSTs by `answerPost(body, socket)`.
 */
export function speak(socket, answerGet, answerPost) {
  let read = Buffer.alloc(0)
  socket.on('error', () => {})
  socket.on('data', (bytes) => {
    read = Buffer.concat([read, bytes])
    for (let end = read.indexOf('\r\n\r\n'); end >= 0; end = read.indexOf('\r\n\r\n')) {
      const head = read.subarray(0, end).toString('latin1')
      const length = Number(/^content-length: *(\d+)/im.exec(head)?.[1] ?? 0)
      if (read.length < end + 4 + length) return
      const body = read.subarray(end + 4, end + 4 + length).toString()
      read = read.subarray(end + 4 + length)
      const [method, path] = head.split(' ')
      if (method === 'GET') socket.write(whole(answerGet(path)))
      else answerPost(body, socket)
    }
  })
}
