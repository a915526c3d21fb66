// A predictor that behaves, or misbehaves, as its arguments say. Speaks plain JSON: GET /healthz,
// POST /predict. With SERVICE_MS it serves one request at a time, each for so long.
import { fork, spawn } from 'node:child_process'
import { appendFileSync, existsSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'

const flags = Object.fromEntries(process.argv.slice(2).map((argument) => argument.replace(/^--/, '').split('=')))
const behaviour = process.env.BEHAVIOUR ?? 'serve'
const port = Number(flags.port ?? process.env.PORT ?? 0)
if (flags.pids) appendFileSync(flags.pids, `${process.pid}\n`)
console.log('loading the model')
console.error(`behaviour ${behaviour}`)

const endings = {
  crash: () => {
    console.error('Error: unsupported batch size')
    process.exit(3)
  },
  'exit-0': () => process.exit(0),
  'cuda-oom': () => {
    console.error('torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB')
    process.exit(1)
  },
  'missing-module': () => {
    console.error("ModuleNotFoundError: No module named 'torch'")
    process.exit(1)
  },
  killed: () => process.kill(process.pid, 'SIGKILL'),
}
endings[behaviour]?.()
if (behaviour === 'stubborn') process.on('SIGTERM', () => console.error('not now'))
// A helper that leaves the group and the session, and one that stays.
if (behaviour === 'family') {
  for (const detached of [true, false]) {
    spawn(process.execPath, ['-e', `require('fs').appendFileSync(${JSON.stringify(flags.pids)}, process.pid + '\\n'); setInterval(() => {}, 1e6)`], {
      detached,
      stdio: 'ignore',
    }).unref()
  }
}

let served = 0
const serviceMs = Number(process.env.SERVICE_MS ?? 0)
let freeAtMs = 0
/** From its turn in the queue. */
const whenServed = (answer) => {
  if (serviceMs === 0) return answer()
  freeAtMs = Math.max(freeAtMs, performance.now()) + serviceMs
  setTimeout(answer, freeAtMs - performance.now())
}
const server = createServer((request, response) => {
  if (request.url === '/healthz') {
    response.statusCode = behaviour === 'never-ready' ? 503 : 200
    response.end()
    return
  }
  if (request.url === '/metrics') return response.end(`# TYPE served_total counter\nserved_total ${served}\n`)
  request.resume()
  request.on('end', () => {
    if (request.url === '/die') process.exit(9)
    if (request.url === '/allocate') console.error('std::bad_alloc'), process.exit(134)
    if (request.url === '/burn') for (const before = process.cpuUsage().user; process.cpuUsage().user - before < 300_000; );
    served += 1
    if (behaviour === 'mortal' && served > 30) process.exit(9)
    if (behaviour === 'fades' && served > 1) return
    if (behaviour === 'silent') return
    response.statusCode = behaviour === 'error-500' ? 500 : 200
    response.setHeader('content-type', 'application/json')
    const answer = { arguments: process.argv.slice(2), batch: process.env.MAX_BATCH_SIZE, cores: process.env.CORES, gpus: process.env.CUDA_VISIBLE_DEVICES }
    const text = behaviour === 'garbage' ? '<html>hello' : JSON.stringify(behaviour === 'error-500' ? { error: 'shape mismatch' } : answer)
    whenServed(() => response.end(text))
  })
})
// As gunicorn does: it says that its port is taken, and goes on trying.
if (behaviour === 'stuck' || behaviour === 'usurped') {
  server.on('error', (error) => {
    console.error(error.message)
    setInterval(() => {}, 1e6)
  })
}
const listen = () =>
  server.listen(port, '127.0.0.1', () => {
    console.log(JSON.stringify({ ready: true, port: server.address().port }))
    process.send?.('listening')
  })
process.on('disconnect', () => process.exit())
const usurp = (env) => fork(process.argv[1], [`--port=${port}`], { env, detached: true, stdio: ['ignore', 'ignore', 'ignore', 'ipc'] })
if (behaviour === 'usurped') {
  // Another server, with nothing of ours on it, is quicker.
  usurp({ BEHAVIOUR: 'serve' }).once('message', listen)
} else if (behaviour === 'outrun once' && !existsSync(flags.once)) {
  // Another tuner's predictor, while this one still loads.
  writeFileSync(flags.once, '')
  usurp({ BEHAVIOUR: process.env.USURPER, TUNE_PREDICTOR: 'of-another' })
} else setTimeout(listen, Number(process.env.LOAD_MS ?? 0))
