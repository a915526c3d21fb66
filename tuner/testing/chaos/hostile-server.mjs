// The Open Inference Protocol, spoken by a server that misbehaves as BEHAVIOUR says
// (hostile-predictors.ts). y = the sum of each row of x.
import { spawn } from 'node:child_process'
import { closeSync, ftruncateSync } from 'node:fs'
import { createServer } from 'node:http'
import { createServer as createPlain } from 'node:net'
import { gzipSync } from 'node:zlib'
import { bytesOf, speak } from './hostile-bytes.mjs'
import { documentOf, textOf } from './hostile-documents.mjs'

/** A kind that sets in once there is load says so at its end. */
const underLoad = ' under load'
const whole = process.env.BEHAVIOUR
const late = whole.endsWith(underLoad)
const kind = late ? whole.slice(0, -underLoad.length) : whole
const port = Number(process.env.PORT)
const busyAfter = 60
let asked = 0
/** It misbehaves now. */
const is = (...kinds) => kinds.includes(kind) && (!late || asked > busyAfter)
const lone = (script) => spawn(process.execPath, ['-e', script], { detached: true, stdio: 'ignore' }).unref()
const patient = "process.on('SIGTERM', () => {}); setInterval(() => {}, 1e6)"

const atOnce = {
  'exits at once': () => process.exit(3),
  'exits well at once': () => process.exit(0),
  'aborts at once': () => process.abort(),
  'stops itself at once': () => process.kill(process.pid, 'SIGSTOP'),
  'ignores SIGTERM': () => process.on('SIGTERM', () => {}),
  'changes its title': () => {
    process.title = 'innocent'
  },
  'leaves a daemon behind': () => lone(patient),
  'a child each second': () => setInterval(() => lone(patient), 1000),
  'a daemon of a daemon': () => lone(`require('child_process').spawn(process.execPath, ['-e', ${JSON.stringify(patient)}], { detached: true, stdio: 'ignore' }).unref()`),
  'forks away': () => {
    if (process.env.FORKED) return
    spawn(process.execPath, process.argv.slice(1), { detached: true, stdio: 'ignore', env: { ...process.env, FORKED: '1' } }).unref()
    process.exit(0)
  },
  'floods its log': () => {
    const flood = () => process.stdout.write('x'.repeat(60_000).concat('\n').repeat(4), () => setTimeout(flood, 20))
    flood()
  },
  'a line without end': () => setInterval(() => process.stdout.write('x'.repeat(100_000)), 20),
  'escapes in its log': () => setInterval(() => process.stdout.write('\x1b[2J\x1b]0;gone\x07\x00\xff\r\n'), 50),
  'closes its output': () => {
    for (const descriptor of [1, 2]) closeSync(descriptor)
  },
  'empties its log': () =>
    setInterval(() => {
      try {
        process.stdout.write('a line\n')
        ftruncateSync(1)
      } catch {
        // A pipe is not emptied.
      }
    }, 50),
}
atOnce[kind]?.()

const stops = {
  dies: () => process.exit(9),
  'ends well': () => process.exit(0),
  'segmentation fault': () => process.kill(process.pid, 'SIGSEGV'),
  'bus error': () => process.kill(process.pid, 'SIGBUS'),
  'killed': () => process.kill(process.pid, 'SIGKILL'),
  'terminated': () => process.kill(process.pid, 'SIGTERM'),
  'stops itself': () => process.kill(process.pid, 'SIGSTOP'),
  'out of GPU memory': () => {
    console.error('torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB')
    process.exit(1)
  },
  'an uncaught error': () => {
    throw new Error('nobody caught this')
  },
  'changes its port': () => {
    listening.closeAllConnections?.()
    listening.close()
    kindOfPort ??= createServer(handle).listen(0, '127.0.0.1')
  },
  'takes no more connections': () => listening.close(),
  'restarts itself': () => {
    listening.closeAllConnections?.()
    listening.close(() => setTimeout(() => listening.listen(port, '127.0.0.1'), 200))
    asked = 0
  },
  'blocks for a second': () => {
    const untilMs = Date.now() + 1000
    while (Date.now() < untilMs);
    asked = 0
  },
}
let kindOfPort

const metadata = () => {
  const shape = is('metadata of a billion values') ? [-1, 1_000_000_000] : is('metadata of a negative shape') ? [-7, -3] : [-1, 3]
  const x = { name: 'x', datatype: is('metadata of an unknown type') ? 'FP33' : 'FP32', shape: is('metadata of no shape') ? 'wide' : shape }
  const inputs = is('metadata without inputs') ? [] : is('metadata of a thousand inputs') ? Array.from({ length: 1000 }, (_, i) => ({ ...x, name: `x${i}` })) : [x]
  return { name: 'm', inputs, outputs: [{ name: 'y', datatype: 'FP32', shape: [-1, 1] }] }
}
const sums = ({ shape, data }) => {
  const values = data.flat(9)
  const width = values.length / shape[0]
  return Array.from({ length: shape[0] }, (_, row) => values.slice(row * width, (row + 1) * width).reduce((sum, one) => sum + one, 0))
}
let first
function answerTo(question, data) {
  const y = { name: 'y', datatype: 'FP32', shape: [data.length, 1], data }
  const good = { model_name: 'm', id: question.id, outputs: [y] }
  if (is('wrong')) return { ...good, outputs: [{ ...y, data: data.map((value) => value + 1) }] }
  if (is('the first answer for ever')) return { ...(first ??= good), id: question.id }
  if (is('drawn by chance')) return { ...good, outputs: [{ ...y, data: data.map(() => Math.random()) }] }
  return Object.hasOwn(documentOf, kind) && is(kind) ? documentOf[kind](good, y) : good
}

const statuses = {
  'always 400': [400, '{"error": "a bad request"}'],
  'always 401': [401, 'who?'],
  'always 403': [403, 'not you'],
  'always 404': [404, 'not here'],
  'always 408': [408, 'too slow'],
  'always 413': [413, 'too much'],
  'always 429': [429, 'later'],
  'always 500': [500, '{"error": "no"}'],
  'always 503': [503, 'full'],
  429: [429, 'later'],
  500: [500, 'no'],
  503: [503, 'full'],
}
function respond(response, document) {
  const text = JSON.stringify(document)
  response.setHeader('content-type', 'application/json')
  if (Object.hasOwn(textOf, kind) && is(kind)) return response.end(textOf[kind](text))
  if (Object.hasOwn(statuses, kind) && is(kind)) return response.writeHead(statuses[kind][0], { 'retry-after': 31_536_000 }).end(statuses[kind][1])
  if (is('gzip nobody asked for')) return response.setHeader('content-encoding', 'gzip').end(gzipSync(text))
  if (is('no content')) return response.writeHead(204).end()
  if (is('redirects for ever')) return response.writeHead(302, { location: '/again' }).end()
  if (is('redirects to nowhere')) return response.writeHead(307, { location: 'http://127.0.0.1:1/x' }).end()
  if (is('answers the half') && asked % 2 === 0) return response.writeHead(500).end('no')
  if (is('resets')) return response.socket.resetAndDestroy()
  if (is('accepts and says nothing', 'hangs')) return
  if (is('promises too much')) return response.writeHead(200, { 'content-length': text.length + 100 }).end(text)
  if (is('closes after each')) return response.setHeader('connection', 'close').end(text)
  if (is('a second for each')) return setTimeout(() => response.end(text), 1000)
  if (is('slower and slower')) return setTimeout(() => response.end(text), asked / 4)
  if (is('in chunks of one byte')) {
    for (const letter of text) response.write(letter)
    return response.end()
  }
  if (is('a byte a second')) {
    let at = 0
    const timer = setInterval(() => (at < text.length ? response.write(text[at++]) : clearInterval(timer)), 1000)
    return response.on('close', () => clearInterval(timer))
  }
  if (is('endless body', 'a hundred megabytes')) {
    let left = is('endless body') ? Number.POSITIVE_INFINITY : 1600
    response.write('{"outputs": "')
    const more = () => {
      while (left-- > 0 && !response.destroyed) if (!response.write('a'.repeat(65_536))) return response.once('drain', more)
      response.end('"}')
    }
    return more()
  }
  response.end(text)
}

let gets = 0
function answerGet(path) {
  return JSON.stringify(/\/models\/[^/]+$/.test(path) ? metadata() : {})
}
let held = []
function handle(request, response) {
  request.on('error', () => {})
  response.on('error', () => {})
  if (request.method === 'GET') {
    if (is('never ready') || (is('ready now and then') && ++gets % 2 === 1)) return response.writeHead(503).end()
    if (is('ready, then gone')) setTimeout(() => process.exit(1), 50)
    return response.end(answerGet(request.url))
  }
  let text = ''
  request.on('data', (chunk) => {
    text += chunk
  })
  request.on('end', () => {
    asked++
    if (is('dies after a thousand') && asked > 1000) process.exit(1)
    if (late && Object.hasOwn(stops, kind) && is(kind)) stops[kind]()
    const question = JSON.parse(text)
    const data = sums(question.inputs[0])
    if (!is('rows mixed up')) return respond(response, answerTo(question, data))
    held.push({ question, data, response })
    if (held.length > 1) return
    setTimeout(() => {
      const batch = held
      held = []
      for (const [i, one] of batch.entries()) respond(one.response, answerTo(one.question, batch[(i + 1) % batch.length].data))
    }, 10)
  })
}
const server = createServer(handle)
const plain = createPlain((socket) => {
  if (!Object.hasOwn(bytesOf, kind)) return socketBeforeHttp(socket)
  speak(socket, answerGet, (body) => {
    asked++
    const question = JSON.parse(body)
    const text = JSON.stringify(answerTo(question, sums(question.inputs[0])))
    if (is(kind)) bytesOf[kind](socket, text)
    else socket.write(`HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${text.length}\r\n\r\n${text}`)
  })
})
function socketBeforeHttp(socket) {
  socket.on('error', () => {})
  if (is('no HTTP')) return socket.end('SSH-2.0-OpenSSH_9.2\r\n')
  if (is('hangs up at once')) return socket.end()
  if (is('answers unasked')) return socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}'.repeat(50))
  socket.write('HTTP/1.1 200 OK\r\n')
  const timer = setInterval(() => socket.write(`x-${Math.random()}: ${'y'.repeat(1000)}\r\n`), 1)
  socket.on('close', () => clearInterval(timer))
}
const beforeHttp = ['no HTTP', 'endless headers', 'hangs up at once', 'answers unasked']
const listening = beforeHttp.includes(kind) || Object.hasOwn(bytesOf, kind) ? plain : server
if (kind !== 'never listens')
  setTimeout(() => listening.listen(kind === 'listens elsewhere' ? 0 : port, '127.0.0.1'), kind === 'listens late' ? 1500 : 0)
else setInterval(() => {}, 1e6)
